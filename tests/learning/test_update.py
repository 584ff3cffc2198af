import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from delayzero.learning.learner import NEVER
from delayzero.settings import ReplayConfig

from . import oracle

ROWS, LENGTH, STACK = 48, 60, 2
PERIOD = 3
KEY = jax.random.key(11)
LEARNER = oracle.small_learner(
    target_period=PERIOD, replay=ReplayConfig(priority_exponent=0.9, final_correction=1.0)
)
update = oracle.quick_jit(LEARNER.update)
next_batch = oracle.quick_jit(LEARNER.batch)


@pytest.fixture(scope="module")
def history():
    return oracle.random_history(seed=0, length=LENGTH)


@pytest.fixture(scope="module")
def replay(history):
    filled = oracle.filled(history, ROWS, LENGTH, stack=STACK)
    priority = np.random.default_rng(0).uniform(0.1, 2, filled.priority.shape)
    return filled._replace(priority=jnp.asarray(priority, jnp.float32))


@pytest.fixture(scope="module")
def begin():
    return oracle.first_state(LEARNER, jnp.zeros((1, STACK, 3)))


def test_first_state(begin):
    state = oracle.quick_jit(LEARNER.init)(jax.random.key(0), jnp.zeros((1, STACK, 3)))
    assert jax.tree.structure(state) == jax.tree.structure(begin)
    shapes = jax.tree.map(lambda one, two: one.shape == two.shape, state, begin)
    assert all(jax.tree.leaves(shapes))
    assert oracle.leaves_equal(state.variables, state.target)
    assert oracle.leaves_equal(state.optimiser, begin.optimiser)
    assert (state.updates, state.failed) == (0, NEVER)


def test_several_updates_in_one_call_are_those_of_several_calls(begin, replay):
    together, renewed, metrics = update(begin, replay, KEY, 5)
    state, current, parts = begin, replay, []
    for i in range(5):
        assert state.updates == i
        state, current, part = update(state, current, KEY, 1)
        parts.append(part)
    assert oracle.leaves_equal(together, state)
    assert oracle.leaves_equal(renewed, current)
    assert together.updates == 5
    assert together.failed == NEVER
    for name, mean in metrics.items():
        assert np.allclose(mean, np.mean([p[name] for p in parts], axis=0), rtol=1e-5), name
    assert not oracle.leaves_equal(begin.variables, together.variables)


def test_same_seed_same_bits_other_seed_others(begin, replay):
    one, two = update(begin, replay, KEY, 3), update(begin, replay, KEY, 3)
    assert oracle.leaves_equal(one, two)
    other, *_ = update(begin, replay, jax.random.key(12), 3)
    assert not oracle.leaves_equal(one[0].variables, other.variables)


def test_no_update_changes_nothing(begin, replay):
    state, same, _ = update(begin, replay, KEY, 0)
    assert oracle.leaves_equal(state, begin)
    assert oracle.leaves_equal(same, replay)


def test_priorities_are_the_value_errors_of_the_sampled_rows(begin, replay):
    state, current, _ = update(begin, replay, KEY, 2)
    chosen, batch = next_batch(state, current, KEY)

    @oracle.quick_jit
    def value_of(variables, observation):
        model = LEARNER.planner.model.bind(variables)
        return model.support.decode(model.predict(model.represent(observation)).value_logits)

    error = np.abs(value_of(state.variables, batch.observation) - batch.value[:, 0])
    _, renewed, _ = update(state, current, KEY, 1)
    wanted = np.array(current.priority)
    wanted[np.asarray(chosen.times) % ROWS, np.asarray(chosen.envs)] = error + 1e-6
    assert np.allclose(renewed.priority, wanted, rtol=1e-4, atol=1e-6)
    untouched = np.ones_like(wanted, bool)
    untouched[np.asarray(chosen.times) % ROWS, np.asarray(chosen.envs)] = False
    assert np.array_equal(renewed.priority[untouched], np.asarray(current.priority)[untouched])
    assert oracle.leaves_equal(renewed._replace(priority=0), replay._replace(priority=0))


def test_the_batch_has_stored_targets_and_rising_correction(begin, replay, history):
    samples = set()
    for updates in (0, 50, 100, 120):
        state = begin._replace(updates=jnp.int32(updates))
        chosen, batch = next_batch(state, replay, KEY)
        times, envs = np.asarray(chosen.times), np.asarray(chosen.envs)
        samples.add((*times, *envs))
        plan = oracle.Plan(unroll=2, td_steps=2, stack=STACK)
        allowed = [
            float(replay.priority[time % ROWS, env]) ** 0.9
            for time, env in oracle.complete_rows(history, ROWS, LENGTH, plan)
            if time >= LENGTH - ROWS + STACK - 1
        ]
        priority = np.asarray(replay.priority)[times % ROWS, envs].astype(float) ** 0.9
        ratio = np.minimum(len(times) * priority / sum(allowed), 1) * len(allowed) / len(times)
        weights = ratio ** -(0.4 + 0.6 * min(updates / 100, 1))
        assert np.allclose(batch.weight, np.minimum(weights, 1), rtol=1e-5)
        for b, (time, env) in enumerate(zip(times, envs, strict=True)):
            episode, i = history.find(time, env)
            wanted = oracle.value_target(episode, i, 0, 2, plan)
            assert batch.value[b, 0] == pytest.approx(wanted, abs=2e-6)
            assert np.array_equal(batch.observation[b], oracle.stack_at(episode, i, STACK))
    assert len(samples) == 4


def test_target_is_renewed_every_period(begin, replay):
    state, target = begin, begin.target
    for i in range(1, 2 * PERIOD + 1):
        state, replay, _ = update(state, replay, KEY, 1)
        if i % PERIOD == 0:
            target = state.variables
        assert LEARNER.target_variables(state) is state.target
        pairs = zip(jax.tree.leaves(state.target), jax.tree.leaves(target), strict=True)
        assert all(np.allclose(a, b, rtol=1e-6, atol=1e-7) for a, b in pairs), i


def test_without_a_period_the_newest_weights_are_the_target(begin):
    learner = oracle.small_learner()
    state = begin._replace(target=())
    assert learner.target_variables(state) is state.variables


def test_every_step_is_clipped_decayed_and_scheduled(begin, replay):
    state, current = begin, replay
    for i in range(4):
        after, current, metrics = update(state, current, KEY, 1)
        rate, norm = 0.05 * min(i / 2, 1), float(metrics["gradient/norm"])
        params, old, new = state.variables["params"], momentum(state), momentum(after)
        gradient = jax.tree.map(lambda n, o, p: n - 0.9 * o - 1e-4 * p, new, old, params)
        length = np.sqrt(sum(np.sum(np.square(g)) for g in jax.tree.leaves(gradient)))
        assert length == pytest.approx(min(norm, 5.0), rel=1e-3)
        wanted = jax.tree.map(lambda p, n, rate=rate: p - rate * n, params, new)
        pairs = jax.tree.leaves(after.variables["params"]), jax.tree.leaves(wanted)
        assert all(np.allclose(a, b, rtol=1e-5, atol=1e-6) for a, b in zip(*pairs, strict=True))
        state = after


def momentum(state):
    """The one momentum that the optimiser keeps."""
    [trace] = [s for s in jax.tree.leaves(state.optimiser, is_leaf=is_trace) if is_trace(s)]
    return jax.tree.map(np.asarray, trace.trace)


def is_trace(x):
    return isinstance(x, optax.TraceState)


def broken(begin, history, replay, reward):
    """A replay with such a reward that is first met by an update after the second."""
    for time in range(20, 45):
        slot = (time % ROWS, 1)
        transitions = replay.transitions
        if history.find(time, 1)[0][-1].time == time:
            continue
        bad = transitions._replace(reward=transitions.reward.at[slot].set(reward))
        bad = replay._replace(transitions=bad)
        state, current, metrics = update(begin, bad, KEY, 20)
        if 2 <= state.failed < 20:
            return bad, state, current, metrics
    raise AssertionError("no such row")


def test_an_undefined_reward_stops_before_its_update(begin, history, replay):
    bad, state, current, metrics = broken(begin, history, replay, jnp.nan)
    failed = int(state.failed)
    assert state.updates == failed
    before, unharmed, averages = update(begin, bad, KEY, failed)
    assert before.failed == NEVER
    assert oracle.leaves_equal(state._replace(failed=0), before._replace(failed=0))
    assert oracle.leaves_equal(current.priority, unharmed.priority)
    assert oracle.leaves_equal(metrics, averages)
    assert all(np.all(np.isfinite(x)) for x in jax.tree.leaves((state, current.priority, metrics)))
    _, batch = next_batch(state, current, KEY)
    assert np.isnan(batch.value).any() or np.isnan(batch.prefix).any()
    again, same, _ = update(state, current, KEY, 3)
    assert oracle.leaves_equal((again, same), (state, current))


def test_host_frames_give_the_same_updates(begin, history, replay):
    host = oracle.filled(history, ROWS, LENGTH, host=True, stack=STACK)._replace(
        priority=replay.priority
    )
    one, two = next_batch(begin, replay, KEY), next_batch(begin, host, KEY)
    assert oracle.leaves_equal(one, two)
    state, current, _ = update(begin, replay, KEY, 4)
    same, others, _ = update(begin, host, KEY, 4)
    assert same.updates == 4
    assert np.allclose(current.priority, others.priority, rtol=1e-4)
    for a, b in zip(jax.tree.leaves(state), jax.tree.leaves(same), strict=True):
        assert np.allclose(a, b, rtol=1e-4, atol=1e-6)


def image(row):
    rng = np.random.default_rng([row.env, row.time])
    return rng.integers(0, 256, (10, 10, 2), np.uint8)


@pytest.mark.slow
def test_statistics_of_batch_normalisation_are_no_parameters(history):
    learner = oracle.small_learner("conv", augment=True, unroll=1)
    replay = oracle.filled(history, ROWS, LENGTH, frame=image)
    state = oracle.first_state(learner, jnp.zeros((1, 1, 10, 10, 2), jnp.uint8))
    step = oracle.quick_jit(learner.update)
    after, _, metrics = step(state, replay, KEY, 1)
    # The first learning rate is 0: parameters stay, statistics do not.
    assert oracle.leaves_equal(after.variables["params"], state.variables["params"])
    shapes = jax.tree.structure(state.variables["params"])
    assert jax.tree.structure(momentum(after)) == shapes
    statistics = zip(
        jax.tree.leaves(after.variables["batch_stats"]),
        jax.tree.leaves(state.variables["batch_stats"]),
        strict=True,
    )
    assert all(not np.array_equal(new, old) for new, old in statistics)
    assert all(np.all(np.isfinite(x)) for x in jax.tree.leaves((after, metrics)))


def test_the_compared_steps_are_drawn_anew():
    learner = oracle.small_learner(unroll=4, consistency_steps=2)
    draws = [np.asarray(learner.compared(jax.random.key(i))) for i in range(40)]
    assert not np.array_equal(draws[0], draws[1])
    for drawn in draws:
        assert all(len(set(steps)) == 2 and set(steps) <= {0, 1, 2, 3} for steps in drawn.tolist())
        assert len({tuple(steps) for steps in drawn.tolist()}) > 1, "not one for the whole batch"
    every = np.concatenate(draws)
    np.testing.assert_allclose(np.bincount(every.ravel()) / every.size, 0.25, atol=0.05)
    assert len({tuple(steps) for steps in every.tolist()}) == 12, "all ordered pairs"
    for steps in (None, 4, 5):
        learner = oracle.small_learner(unroll=4, consistency_steps=steps)
        for row in np.asarray(learner.compared(jax.random.key(0))):
            np.testing.assert_array_equal(row, [0, 1, 2, 3])


@pytest.mark.parametrize("host", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_an_update_sees_what_followed_the_steps_it_draws(history, host):
    learner = oracle.small_learner(unroll=3, consistency_steps=1)
    stored = oracle.filled(history, ROWS, LENGTH, host=host, stack=STACK)
    state = oracle.first_state(learner, jnp.zeros((1, STACK, 3)))
    next_batch, draws = oracle.quick_jit(learner.batch), []
    for updates in range(6):
        now = state._replace(updates=jnp.int32(updates))
        chosen, batch = next_batch(now, stored, KEY)
        assert batch.following.shape == (6, 1, STACK, 3)
        for b, (time, env) in enumerate(zip(chosen.times, chosen.envs, strict=True)):
            episode, i = history.find(int(time), int(env))
            step = int(batch.compared[b, 0])
            if oracle.is_taken(episode, i, step + 1):
                wanted = oracle.stack_at(episode, i + step + 1, STACK)
                np.testing.assert_array_equal(batch.following[b, 0], wanted)
        draws.append(np.asarray(batch.compared).tobytes())
    assert len(set(draws)) == 6
    after, _, metrics = oracle.quick_jit(learner.update)(state, stored, KEY, 2)
    assert (after.updates, after.failed) == (2, NEVER)
    assert -1 <= metrics["consistency/cosine"] <= 1
