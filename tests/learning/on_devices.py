"""Tests that need several devices; test_devices.py runs them in a process that has four."""

import re
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from delayzero.actions import ActionSpec
from delayzero.learning.learner import NEVER
from delayzero.learning.q_learning import QLearner
from delayzero.learning.reanalysis import sweep
from delayzero.model.q_model import vector_q_model
from delayzero.replay import HostFrames, append, arrays_of, cut_off, mesh_of, stacked_frames
from delayzero.replay.sharding import BY_ENVIRONMENT, by_environment, everywhere
from delayzero.runs.checkpoint import examples_of
from delayzero.settings import QConfig, ReplayConfig

from . import oracle

ROWS, ENVS, STACK, BATCH = 53, 4, 2, 8  # of these sizes, 53 is that of the replay alone
LONGEST = 7  # and this that of leads
SETTINGS = dict(batch_size=BATCH, target_period=3)
PRIORITIES = ReplayConfig(priority_exponent=0.9, final_correction=1.0)
KEY = jax.random.key(11)
COLLECTIVE = re.compile(r"= (.*?) (?:all-|reduce-scatter|collective-)[a-z-]*\(")


def pixels(row):
    return np.random.default_rng((row.time, row.env)).integers(0, 255, (10, 10, 2), np.uint8)


def filled(kind="mlp", host=False):
    history = oracle.random_history(seed=0, num_envs=ENVS, length=60)
    frame = pixels if kind == "conv" else lambda row: row.frame / 10
    replay = oracle.filled(history, ROWS, 60, stack=STACK, frame=frame, host=host)
    priority = np.random.default_rng(0).uniform(0.1, 2, replay.priority.shape)
    return replay._replace(priority=jnp.asarray(priority, jnp.float32))


def placed(count, tree):
    """Arrays as a learner on so many devices has them: a replay by environment, others on each."""
    mesh = mesh_of(count)
    if mesh is None:
        return tree
    columns = hasattr(tree, "layout")

    def place(x):
        return jax.device_put(x, (by_environment if columns and x.ndim > 1 else everywhere)(mesh))

    tree = jax.tree.map(place, tree)
    return tree._replace(layout=replace(tree.layout, mesh=mesh)) if columns else tree


def shape_of(kind):
    return (10, 10, 2) if kind == "conv" else (3,)


def begin(learner, kind="mlp"):
    example = jnp.zeros((1, STACK, *shape_of(kind)), jnp.uint8 if kind == "conv" else jnp.float32)
    if isinstance(learner, QLearner):
        return learner.init(jax.random.key(0), example)
    return oracle.first_state(learner, example)


def assert_close(one, other, rtol=2e-4, atol=2e-5):
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    for a, b in pairs:
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=rtol, atol=atol)


def learner_of(name):
    if name == "delayed-q":
        model = vector_q_model(ActionSpec(oracle.ACTIONS), 3, 16)
        return QLearner(model, QConfig(batch_size=BATCH), PRIORITIES, 100)
    changes = dict(SETTINGS)
    if name in ("leads", "rolled-policies", "odd-leads"):
        changes["lead_policy"] = "real" if name == "leads" else "rolled"
        learner = oracle.small_learner(replay=PRIORITIES, **changes)
        return replace(learner, leads=3 if name == "odd-leads" else 4, longest_lead=3)
    if name == "conv-leads":
        learner = oracle.small_learner("conv", replay=PRIORITIES, lead_gradient=True, **changes)
        return replace(learner, leads=4, longest_lead=LONGEST)
    if name == "conv":
        changes |= {"augment": True, "reconstruction_weight": 1.0}
        return oracle.small_learner("conv", replay=PRIORITIES, **changes)
    if name == "by-step":
        changes |= {"normalise": "by_step", "consistency_steps": 1}
        return oracle.small_learner("conv", replay=PRIORITIES, **changes)
    if name == "settled":
        return oracle.small_learner("conv", replay=PRIORITIES, settle=2, **changes)
    if name == "batch":
        return oracle.small_learner(mode="batch", replay=PRIORITIES, **changes)
    return oracle.small_learner(replay=PRIORITIES, **changes)


def kind_of(name):
    return "conv" if name in ("conv", "conv-leads", "by-step", "settled") else "mlp"


def test_four_devices_draw_and_gather_what_one_does():
    learner, replay = learner_of("mlp"), filled()
    state = begin(learner)
    program = oracle.quick_jit(learner.batch)
    wanted = program(state, replay, KEY)
    for host in (False, True):
        four = placed(4, filled(host=host))
        compiled = program.lower(placed(4, state), four, KEY).compile()
        sample, batch = compiled(placed(4, state), four, KEY)
        assert_close((sample, batch), wanted, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(batch.observation, wanted[1].observation)
        assert len(batch.observation.sharding.device_set) == 4
        assert batch.observation.addressable_shards[0].data.shape[0] == BATCH // 4
        assert_nothing_gathers_the_replay(compiled)


def assert_nothing_gathers_the_replay(compiled):
    """What devices exchange has no array with the length of the replay."""
    moved = exchanged(compiled)
    assert moved
    assert not [shapes for shapes in moved if has_size(shapes, ROWS)]


def exchanged(compiled):
    """The shapes of what devices exchange."""
    return COLLECTIVE.findall(compiled.as_text())


def has_size(shapes, size):
    return re.search(rf"[\[,]{size}[\],]", shapes)


def test_gathering_the_replay_is_noticed():
    four = placed(4, filled())
    everything = jax.jit(lambda replay: jnp.sort(replay.frames.ravel()))
    with pytest.raises(AssertionError):
        assert_nothing_gathers_the_replay(everything.lower(four).compile())


@pytest.mark.parametrize(
    "name",
    [
        *("mlp", "conv", "by-step", "settled", "batch", "delayed-q"),
        *("leads", "odd-leads", "conv-leads", "rolled-policies"),
    ],
)
def test_updates_are_those_of_one_device(name):
    learner, replay = learner_of(name), filled(kind_of(name))
    state = begin(learner, kind_of(name))
    results = {}
    for count in (1, 2, 4):
        program = oracle.quick_jit(learner.update)
        arguments = placed(count, state), placed(count, replay), KEY, jnp.int32(2)
        compiled = program.lower(*arguments).compile()
        results[count] = compiled(*arguments)
        if count > 1:
            assert_nothing_gathers_the_replay(compiled)
    one, _, metrics = results[1]
    assert (int(one.updates), int(one.failed)) == (2, NEVER)
    assert not oracle.leaves_equal(one.variables, state.variables)
    for count in (2, 4):
        new, renewed, measured = results[count]
        assert_close(measured, metrics)
        assert_close(new.variables, one.variables)
        assert_close(renewed.priority, results[1][1].priority, rtol=1e-3)


def augmented_batch(learner, state, replay):
    """The batch of the next update, with the frames to reconstruct where there is a decoder."""
    _, batch = oracle.quick_jit(learner.batch)(state, replay, KEY)
    return oracle.quick_jit(learner.augmented)(batch, KEY)


@pytest.mark.parametrize("name", ["mlp", "conv", "leads", "conv-leads"])
def test_a_gradient_is_that_of_one_device(name):
    learner, kind = learner_of(name), kind_of(name)
    state = begin(learner, kind)
    batch = augmented_batch(learner, state, filled(kind))
    program = oracle.quick_jit(learner.gradients, static_argnums=2)
    gradient, output = program(state.variables, batch, None)
    for count in (2, 4):
        arguments = placed(count, (state.variables, batch))
        compiled = program.lower(*arguments, mesh_of(count)).compile()
        assert not [shapes for shapes in exchanged(compiled) if has_size(shapes, LONGEST)]
        shared, same = compiled(*arguments)
        difference = jax.tree.map(lambda a, b: np.asarray(a) - np.asarray(b), shared, gradient)
        assert optax.tree.norm(difference) < 1e-5 * optax.tree.norm(gradient)
        assert_close(same.metrics["loss"], output.metrics["loss"], rtol=1e-6)
        assert_close(same.variables.get("batch_stats"), output.variables.get("batch_stats"))


def test_statistics_of_a_share_of_the_batch_are_others():
    """So the test above would notice them."""
    learner = learner_of("conv")
    state = begin(learner, "conv")
    batch = augmented_batch(learner, state, filled("conv"))
    program = oracle.quick_jit(learner.gradients)
    quarter = jax.tree.map(lambda x: x[: BATCH // 4], batch)
    whole, part = (program(state.variables, x)[1].variables for x in (batch, quarter))
    with pytest.raises(AssertionError):
        assert_close(whole["batch_stats"], part["batch_stats"])


def test_two_hundred_updates_end_where_one_device_does():
    learner, replay = learner_of("mlp"), filled()
    learner = replace(learner, total_updates=200)
    state = begin(learner)
    program = oracle.quick_jit(learner.update)
    one, _, metrics = program(state, replay, KEY, jnp.int32(200))
    assert int(one.updates) == 200
    moved = np.concatenate(
        [
            np.abs(np.asarray(new - old)).ravel()
            for new, old in zip(
                jax.tree.leaves(one.variables["params"]),
                jax.tree.leaves(state.variables["params"]),
                strict=True,
            )
        ]
    )
    assert np.median(moved) > 1e-2, "otherwise the tolerance below says nothing"
    for count in (2, 4):
        new, _, measured = program(placed(count, state), placed(count, replay), KEY, jnp.int32(200))
        assert_close(new.variables["params"], one.variables["params"], rtol=0, atol=2e-3)
        assert_close(measured["loss"], metrics["loss"], rtol=1e-3)


def test_a_sweep_searches_the_same_positions():
    """The search has no noise but for ties, so that targets are those of one device."""
    learner, replay = learner_of("mlp"), filled()
    variables = begin(learner).variables
    roots = 16

    def program(variables, replay, position):
        key, count, updates = jax.random.key(3), jnp.int32(2), jnp.int32(7)
        return sweep(
            learner.planner, variables, key, replay, position, count, roots=roots, updates=updates
        )

    compiled = oracle.quick_jit(program)
    wanted, stopped = compiled(variables, replay, jnp.int32(200))
    four = placed(4, variables), placed(4, replay), jnp.int32(200)
    lowered = compiled.lower(*four).compile()
    swept, position = lowered(*four)
    assert_nothing_gathers_the_replay(lowered)
    assert int(position) == int(stopped) == 200 + 2 * roots - ROWS * ENVS
    assert int(np.sum(np.asarray(swept.targets.made_at) == 7)) >= 2 * roots
    np.testing.assert_array_equal(swept.targets.made_at, wanted.targets.made_at)
    assert_close(swept.targets, wanted.targets)
    assert swept.targets.policy.sharding.spec == BY_ENVIRONMENT


def test_devices_search_with_noise_of_their_own():
    """Equal roots get unequal policies, on one device and across devices."""
    learner = oracle.small_learner(method="gumbel", **SETTINGS)
    search = replace(learner.planner.config, dirichlet_fraction=0.5, simulations=2)
    planner = replace(learner.planner, config=search)
    replay = placed(4, filled())
    same = replay._replace(frames=jnp.zeros_like(replay.frames), start=jnp.zeros_like(replay.start))

    @oracle.quick_jit
    def program(variables, replay):
        key, zero = jax.random.key(3), jnp.int32(0)
        return sweep(
            planner, variables, key, replay, zero, jnp.int32(1), roots=32, updates=jnp.int32(7)
        )[0].targets.search_value

    values = np.asarray(program(placed(4, begin(learner).variables), same))[:8]  # 32 positions
    assert len(np.unique(values[:, 0])) > 1
    assert len(np.unique([values[:, n].tobytes() for n in range(ENVS)])) == ENVS


def test_columns_stay_by_environment():
    replay = placed(4, filled())
    history = oracle.random_history(seed=1, num_envs=ENVS, length=5)
    frames, rows, targets = oracle.to_arrays(history, 0, 5)
    for changed in (oracle.quick_jit(append)(replay, frames, rows, targets), cut_off(replay)):
        for column in jax.tree.leaves(arrays_of(changed)):
            assert column.sharding.is_equivalent_to(
                by_environment(replay.mesh) if column.ndim > 1 else everywhere(replay.mesh),
                column.ndim,
            )
    wanted = oracle.quick_jit(append)(filled(), frames, rows, targets)
    assert_close(
        arrays_of(oracle.quick_jit(append)(replay, frames, rows, targets)), arrays_of(wanted)
    )


def test_counts_that_devices_do_not_divide_go_to_all():
    replay = placed(4, filled())
    times, envs = jnp.arange(10, 13), jnp.arange(3)
    start = jnp.zeros(3, jnp.int32)
    for host in (False, True):
        one, four = filled(host=host), placed(4, filled(host=host))
        assert isinstance(four.frames, HostFrames) == host
        wanted = oracle.quick_jit(stacked_frames)(one, times, envs, start)
        np.testing.assert_array_equal(
            oracle.quick_jit(stacked_frames)(four, times, envs, start), wanted
        )
    examples = examples_of(arrays_of(replay))
    assert examples.priority.sharding.spec == BY_ENVIRONMENT
    assert examples_of(arrays_of(filled())).priority.sharding is None
