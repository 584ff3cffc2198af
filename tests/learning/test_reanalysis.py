import jax
import jax.numpy as jnp
import numpy as np
import pytest

from delayzero.actions import Queue
from delayzero.learning.reanalysis import (
    search_windows,
    sweep,
)
from delayzero.planning import Planner
from delayzero.replay import Layout, Sample

from . import oracle

ROWS, ENVS, STACK, ROOTS = 10, 2, 2, 6
LENGTHS = {"filling": 7, "wrapped": 33}
LEARNER = oracle.small_learner()
PLANNER = LEARNER.planner
KEY = jax.random.key(4)


@oracle.quick_jit
def swept(variables, replay, position, count, updates):
    settings = {"roots": ROOTS, "updates": updates}
    return sweep(PLANNER, variables, KEY, replay, position, count, **settings)


@oracle.quick_jit
def searched(variables, stacks):
    latent = PLANNER.model.bind(variables).represent(stacks)
    return PLANNER.search(variables, KEY, latent, explore=True)


@pytest.fixture(scope="module")
def variables():
    return oracle.random_variables(PLANNER.model, jnp.zeros((1, STACK, 3)))


def small_frame(row):
    """Told apart by the networks, which see no large numbers well."""
    return np.array([row.env, np.sin(row.time), np.cos(2.0 * row.time)], np.float32)


def replay_of(length, rows=ROWS):
    history = oracle.random_history(seed=length + 2, num_envs=ENVS, length=length)
    return history, oracle.filled(history, rows, length, frame=small_frame, stack=STACK)


def stack_of(history, time, env):
    episode, i = history.find(time, env)
    return np.stack([small_frame(episode[max(j, 0)]) for j in range(i - STACK + 1, i + 1)])


@pytest.mark.parametrize("name", LENGTHS)
def test_sweep_passes_every_position_in_turn(name, variables):
    length = LENGTHS[name]
    _, replay = replay_of(length)
    stored = min(length, ROWS) * ENVS
    made_at = np.full((ROWS, ENVS), -1)
    replay = replay._replace(targets=replay.targets._replace(made_at=jnp.asarray(made_at)))
    position, visits = jnp.int32(stored - 3), []
    for chunk in range(stored):  # as many chunks: ROOTS rounds
        before = replay
        replay, position = swept(variables, replay, position, 1, chunk)
        places = np.flatnonzero(np.asarray(replay.targets.made_at).ravel() == chunk)
        wanted = [(stored - 3 + chunk * ROOTS + i) % stored for i in range(ROOTS)]
        assert sorted(places) == sorted(wanted)
        assert position == (wanted[-1] + 1) % stored
        visits += wanted
        same = {"targets": 0}
        assert oracle.leaves_equal(replay._replace(**same), before._replace(**same))
        others = np.setdiff1d(np.arange(ROWS * ENVS), places)
        for new, old in zip(replay.targets, before.targets, strict=True):
            new, old = (np.asarray(x).reshape(ROWS * ENVS, -1)[others] for x in (new, old))
            assert np.array_equal(new, old)
    assert np.array_equal(np.bincount(visits), np.full(stored, ROOTS))


@pytest.mark.parametrize("name", LENGTHS)
def test_sweep_writes_what_a_search_of_each_row_finds(name, variables):
    length = LENGTHS[name]
    history, replay = replay_of(length)
    stored = min(length, ROWS) * ENVS
    replay, position = swept(variables, replay, 0, -(-stored // ROOTS), 5)
    assert position == -(-stored // ROOTS) * ROOTS % stored
    times = range(max(length - ROWS, 0), length)
    places = [(time, env) for time in times for env in range(ENVS)]
    stacks = np.stack([stack_of(history, *place) for place in places])
    padded = np.concatenate([stacks, np.zeros((ROWS * ENVS - len(stacks), STACK, 3), np.float32)])
    found = jax.tree.map(np.asarray, searched(variables, padded))
    targets = jax.tree.map(np.asarray, replay.targets)
    finals = 0
    for i, (time, env) in enumerate(places):
        episode, j = history.find(time, env)
        if episode[max(j - STACK + 1, 0)].time < length - ROWS:
            continue  # a frame of this stack is gone; such a row is in no window
        slot = (time % ROWS, env)
        assert targets.network_value[slot] == pytest.approx(found.network_value[i], abs=1e-4)
        assert targets.search_value[slot] == pytest.approx(found.value[i], abs=1e-3)
        assert np.allclose(targets.policy[slot], found.policy[i], atol=1e-3)
        assert targets.made_at[slot] == 5
        finals += episode[j].final
    assert finals > 0
    assert np.unique(np.round(found.network_value[: len(places)], 3)).size > len(places) // 2
    if stored < ROWS * ENVS:
        assert np.all(targets.made_at[length:] == 0)


def test_a_sweep_begins_at_one_position(variables):
    _, replay = replay_of(7)
    with pytest.raises(AssertionError, match="rank compatibility"):
        jax.eval_shape(swept, variables, replay, jnp.zeros(ROOTS, jnp.int32), 1, 0)


def windows(learner, variables, replay, sample):
    found = oracle.quick_jit(
        lambda variables, replay: search_windows(
            learner.planner,
            variables,
            KEY,
            replay,
            sample,
            learner.config,
            updates=jnp.int32(9),
        )
    )(variables, replay)
    return jax.tree.map(np.asarray, found)


@pytest.mark.parametrize("kind", ["network", "mixed"])
def test_search_windows(kind, variables):
    learner = oracle.small_learner(
        mode="batch",
        unroll=2,
        td_steps=1,
        bootstrap="network",
        mixed_value_after=0 if kind == "mixed" else None,
    )
    history, replay = replay_of(33)
    plan = oracle.Plan(unroll=2, td_steps=1, stack=STACK)
    places = oracle.complete_rows(history, ROWS, 33, plan)
    # Windows in which another episode begins come first.
    begins = [any(history.find(t + j, n)[1] == 0 for j in (1, 2, 3)) for t, n in places]
    assert any(begins)
    places = [places[i] for i in np.argsort(~np.array(begins), kind="stable")[:5]]
    times, envs = np.array(places, np.int32).T
    sample = Sample(jnp.asarray(times), jnp.asarray(envs), jnp.ones(5))
    got = windows(learner, variables, replay, sample)
    rows = [(time + j, env) for time, env in places for j in range(4)]
    found = searched(variables, np.stack([stack_of(history, *row) for row in rows]))
    found = jax.tree.map(lambda x: np.asarray(x).reshape(5, 4, *x.shape[1:]), found)
    assert np.allclose(got.network_value, found.network_value, atol=1e-4)
    assert np.allclose(got.policy[:, :3], found.policy[:, :3], atol=1e-3)
    assert np.array_equal(got.made_at, np.full((5, 4), 9))
    if kind == "network":
        assert np.allclose(got.search_value, found.network_value, atol=1e-4)
    else:
        assert np.allclose(got.search_value, found.value, atol=1e-3)
        assert not np.allclose(got.search_value, found.network_value, atol=1e-3)


@pytest.mark.slow
def test_updates_with_searched_batches():
    learner = oracle.small_learner(
        mode="batch", method="gumbel", unroll=2, td_steps=1, target_period=2
    )
    _, replay = replay_of(33)
    state = oracle.first_state(learner, jnp.zeros((1, STACK, 3)))
    update = oracle.quick_jit(learner.update)
    after, renewed, metrics = update(state, replay, KEY, 3)
    assert after.updates == 3
    assert all(np.all(np.isfinite(x)) for x in jax.tree.leaves((after, metrics)))
    assert oracle.leaves_equal(renewed.targets, replay.targets)

    @oracle.quick_jit
    def compared(state, replay):
        chosen, batch = learner.batch(state, replay, KEY)
        _, key = jax.random.split(jax.random.fold_in(jax.random.fold_in(KEY, 0), 0))
        settings = {"updates": state.updates}
        variables = state.target
        return batch, search_windows(
            learner.planner, variables, key, replay, chosen, learner.config, **settings
        )

    # The targets of the batch are those of the target copy, made now.
    other = jax.tree.map(lambda x: x + 0.1, state.variables)
    batch, found = compared(state._replace(variables=other), replay)
    assert not batch.age.any()
    assert np.array_equal(batch.policy, found.policy[:, :3])
    assert not np.allclose(found.search_value, found.network_value, atol=1e-3)


@pytest.mark.parametrize("how", ["sweep", "windows"])
def test_a_model_that_sees_queues_is_shown_those_of_the_rows_themselves(how):
    model = oracle.small_model(sees_queue=True)
    variables = oracle.random_variables(model, jnp.zeros((1, 1, 3)), queue=2)
    planner = Planner(model, PLANNER.config, 0.9, 5)
    _, replay = replay_of(33)
    replay = replay._replace(layout=Layout())
    queues = oracle.random_queues(0, ROWS, ENVS, 2)
    stored = Queue(jnp.asarray(queues.action, jnp.int16), jnp.asarray(queues.mask))
    decisions = replay.decisions._replace(queue=stored)
    replay = replay._replace(decisions=decisions)

    @oracle.quick_jit
    def values(queues):
        stacks = replay.frames.reshape(ROWS * ENVS, 1, -1)
        bound = model.bind(variables)
        flat = Queue(*(x.reshape(ROWS * ENVS, -1) for x in queues))
        latent = bound.represent(stacks, flat)
        return model.support.decode(bound.predict(latent).value_logits).reshape(ROWS, ENVS)

    expected, empty = values(queues), values(oracle.emptied(queues))
    assert (np.abs(expected - empty) > 1e-3)[queues.mask[..., 0]].all()
    options = {"updates": jnp.int32(9)}
    if how == "sweep":
        again = oracle.quick_jit(
            lambda v, r: sweep(planner, v, KEY, r, jnp.int32(0), 1, roots=ROWS * ENVS, **options)
        )(variables, replay)[0]
        np.testing.assert_allclose(again.targets.network_value, expected, atol=1e-4)
        return
    config = oracle.small_learner(unroll=1, td_steps=1, bootstrap="network").config
    sample = Sample(jnp.array([25, 29, 30]), jnp.array([1, 0, 1]), jnp.ones(3))
    found = oracle.quick_jit(
        lambda v, r: search_windows(planner, v, KEY, r, sample, config, **options)
    )(variables, replay)
    rows = (np.asarray(sample.times)[:, None] + np.arange(3)) % ROWS
    wanted = np.asarray(expected)[rows, np.asarray(sample.envs)[:, None]]
    np.testing.assert_allclose(found.network_value, wanted, atol=1e-4)
