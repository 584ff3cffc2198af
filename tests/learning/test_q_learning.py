"""Targets and batches against slow versions, and what an update does."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from delayzero.actions import ActionSpec
from delayzero.envs.make import make_vector
from delayzero.learning.learner import NEVER
from delayzero.learning.q_learning import QBatch, QLearner, double_q_targets, forward_loss
from delayzero.model import image_q_model, vector_q_model
from delayzero.replay import Transitions, create
from delayzero.settings import QConfig, ReplayConfig

from ..made import spaces_of
from ..training.small import stirred
from . import oracle

ROWS, LENGTH, STACK, DISCOUNT = 48, 60, 2, 0.9
KEY = jax.random.key(3)
CONFIG = QConfig(
    width=8,
    learning_rate=1e-2,
    forward_learning_rate=1e-2,
    batch_size=16,
    discount=DISCOUNT,
    target_period=3,
)
LEARNER = QLearner(
    model=vector_q_model(ActionSpec(oracle.ACTIONS), size=3, width=8),
    config=CONFIG,
    replay=ReplayConfig(priority_exponent=0.9),
    total_updates=20,
)
update, next_batch = oracle.quick_jit(LEARNER.update), oracle.quick_jit(LEARNER.batch)


@pytest.fixture(scope="module")
def history():
    return oracle.random_history(seed=0, length=LENGTH)


@pytest.fixture(scope="module")
def replay(history):
    return oracle.filled(history, ROWS, LENGTH, stack=STACK)


@pytest.fixture(scope="module")
def begin():
    state = oracle.quick_jit(LEARNER.init)(jax.random.key(0), jnp.zeros((1, STACK, 3)))
    return state._replace(variables=stirred(state.variables))


@oracle.quick_jit
def all_values(variables, stack):
    return LEARNER.model.bind(variables).values(stack)


def q_values(variables, stack):
    return np.asarray(all_values(variables, stack[None]))[0]


def slow_target(state, episode, i):
    """What Q should say of the i-th step of an episode, by the definition."""
    row = episode[i]
    if row.terminated:
        return row.reward
    following = oracle.stack_at(episode, i + 1, STACK)
    best = int(np.argmax(q_values(state.variables, following)))
    return row.reward + DISCOUNT * q_values(state.target, following)[best]


def test_batches_and_priorities_are_those_of_the_episodes(begin, replay, history):
    seen = {"terminated": 0, "truncated": 0, "going on": 0}
    for number in range(12):
        state = begin._replace(updates=jnp.int32(number))
        chosen, batch = next_batch(state, replay, KEY)
        renewed = update(state, replay, KEY, 1)[1]
        for j, (time, env) in enumerate(zip(chosen.times, chosen.envs, strict=True)):
            episode, i = history.find(int(time), int(env))
            row = episode[i]
            assert not row.final
            np.testing.assert_array_equal(batch.observation[j], oracle.stack_at(episode, i, STACK))
            np.testing.assert_array_equal(
                batch.following[j], oracle.stack_at(episode, i + 1, STACK)
            )
            assert batch.action[j] == row.action
            assert batch.terminated[j] == row.terminated
            value = q_values(state.variables, oracle.stack_at(episode, i, STACK))[row.action]
            error = abs(value - slow_target(state, episode, i))
            stored = renewed.priority[time % ROWS, env]
            np.testing.assert_allclose(stored, error, rtol=1e-4, atol=1e-4)
            kind = ["going on", "truncated"][row.truncated]
            seen["terminated" if row.terminated else kind] += 1
    assert min(seen.values()) >= 3


def test_the_online_network_chooses_and_the_older_one_judges():
    online = jnp.array([[1.0, 2.0], [5.0, 0.0], [1.0, 2.0]])
    target = jnp.array([[10.0, 20.0], [30.0, 40.0], [7.0, 8.0]])
    terminated = jnp.array([False, False, True])
    found = double_q_targets(jnp.array([1.0, 2.0, 3.0]), terminated, online, target, 0.5)
    np.testing.assert_allclose(found, [1 + 10, 2 + 15, 3])


@pytest.mark.parametrize("wrong", [
    {"reward": jnp.ones((3, 1))},
    {"terminated": jnp.zeros(1, bool)},
    {"terminated": jnp.zeros(3)},
    {"online": jnp.ones((1, 2))},
    {"target": jnp.ones((3, 4))},
])  # fmt: skip
def test_targets_of_a_wrong_shape_or_type_are_refused(wrong):
    values = jnp.ones((3, 2))
    fields = {"reward": jnp.ones(3), "terminated": jnp.zeros(3, bool)}
    fields |= {"online": values, "target": values}
    double_q_targets(**fields, discount=0.5)
    with pytest.raises(AssertionError, match="Chex"):
        double_q_targets(**{**fields, **wrong}, discount=0.5)


def test_several_updates_in_one_call_are_those_of_several_calls(begin, replay):
    together, renewed, metrics = update(begin, replay, KEY, 5)
    state, current, parts = begin, replay, []
    for _ in range(5):
        state, current, part = update(state, current, KEY, 1)
        parts.append(part)
    assert oracle.leaves_equal(together, state)
    assert oracle.leaves_equal(renewed, current)
    for name, mean in metrics.items():
        assert np.allclose(mean, np.mean([p[name] for p in parts]), rtol=1e-5), name


def test_the_target_is_renewed_every_period(begin, replay):
    states = [begin]
    for _ in range(4):
        states.append(update(states[-1], replay, KEY, 1)[0])
    for state in states[:3]:
        assert oracle.leaves_equal(state.target, begin.target)
    for state in states[3:]:
        pairs = zip(*map(jax.tree.leaves, (state.target, states[3].variables)), strict=True)
        assert all(np.allclose(one, other, rtol=1e-5, atol=1e-7) for one, other in pairs)


def test_an_undefined_reward_stops_before_its_update(begin, replay):
    happened = replay.transitions
    bad = replay._replace(transitions=happened._replace(reward=happened.reward * jnp.nan))
    good = update(begin, replay, KEY, 2)[0]
    state, current, metrics = update(good, bad, KEY, 3)
    assert state.failed == 2
    assert good.failed == NEVER
    assert oracle.leaves_equal(state._replace(failed=good.failed), good)
    assert oracle.leaves_equal(current.priority, bad.priority)
    assert all(value == 0 for value in metrics.values())


def stored(frames, action, ended):
    """A replay of steps ``[T, N]`` without rewards; where one has ended, the next row is final."""
    final = np.concatenate([np.zeros_like(ended[:1]), ended[:-1]])
    first = np.concatenate([np.ones_like(ended[:1]), final[:-1]])
    no, zero = np.zeros_like(ended), np.zeros(ended.shape, np.float32)
    rows = Transitions(first, final, action, zero, ended, no)
    actions = int(action.max()) + 1
    replay = create(
        *ended.shape, spaces_of(frames.shape[2:], frames.dtype, actions), searched=False
    )
    return oracle.jitted_append(replay, frames, rows, ())


def linear_system(steps=400, envs=2):
    """x' = A x + b_a, which forgets its beginning; episodes never end."""
    rng = np.random.default_rng(0)
    matrix = np.array([[0.9, 0.2], [-0.2, 0.9]], np.float32)
    pushes = np.array([[0.3, 0.0], [-0.3, 0.0], [0.0, 0.03]], np.float32)
    action = rng.integers(0, 3, (steps, envs))
    frames = np.zeros((steps, envs, 2), np.float32)
    for t in range(steps - 1):
        frames[t + 1] = frames[t] @ matrix.T + pushes[action[t]]
    return stored(frames, action, np.zeros((steps, envs), bool)), matrix


def test_the_forward_model_learns_a_linear_system():
    replay, matrix = linear_system()
    model = vector_q_model(ActionSpec(3), size=2, width=32)
    config = replace(CONFIG, forward_learning_rate=3e-3, batch_size=64)
    learner = replace(LEARNER, config=config, model=model, total_updates=600)
    state = oracle.quick_jit(learner.init)(jax.random.key(0), jnp.zeros((1, 1, 2)))
    state, _, _ = oracle.quick_jit(learner.update)(state, replay, KEY, 600)
    x = np.random.default_rng(1).uniform(-0.5, 0.5, (50, 1, 2)).astype(np.float32)
    for action, push in enumerate([[0.3, 0.0], [-0.3, 0.0], [0.0, 0.03]]):
        found = model.bind(state.variables).step(jnp.asarray(x), jnp.full(50, action))
        wanted = x[:, 0] @ matrix.T + np.array(push)
        assert np.abs(np.asarray(found)[:, 0] - wanted).max() < 0.03


def minatar_at_random(game, steps=200, envs=4):
    env = make_vector(f"minatar:{game}", envs, training=True)
    action = np.random.default_rng(0).integers(0, env.single_action_space.n, (steps, envs))
    frames, ended = [], []
    observation, _ = env.reset(seed=0)
    for chosen in action:
        frames.append(observation.copy())
        observation, _, terminated, truncated, _ = env.step(chosen)
        ended.append(terminated | truncated)
    return stored(np.array(frames), action, np.array(ended))


@pytest.mark.slow
def test_the_forward_model_learns_minatar():
    replay = minatar_at_random("breakout")
    model = image_q_model(ActionSpec(3), planes=4, width=96)
    config = replace(CONFIG, forward_learning_rate=5e-3, batch_size=32)
    learner = replace(LEARNER, config=config, model=model, total_updates=200)
    state = jax.jit(learner.init)(jax.random.key(0), jnp.zeros((1, 1, 10, 10, 4)))
    train = jax.jit(learner.update)
    losses = []
    for _ in range(5):
        state, replay, metrics = train(state, replay, KEY, 40)
        losses.append(float(metrics["loss/forward"]))
    assert losses[-1] < losses[0] / 4
    _, batch = learner.batch(state, replay, KEY)
    newest = model.bind(state.variables).step(batch.observation, batch.action)[:, -1]
    after, before = batch.following[:, -1], batch.observation[:, -1]
    assert np.abs(newest - after).sum() < 0.5 * np.abs(before - after).sum()


def test_integers_do_not_wrap():
    model = LEARNER.model
    seen = jnp.array([[[250, 3, 7], [200, 3, 7]]], jnp.uint8)
    after = jnp.array([[[200, 3, 7], [100, 9, 7]]], jnp.uint8)
    one = jnp.zeros(1)
    variables = model.init(jax.random.key(0), seen, jnp.zeros(1, int), method="everything")
    batches = [
        QBatch(observation, following, jnp.zeros(1, int), one, one > 0, one + 1)
        for observation, following in ((seen, after), (seen / 255, after / 255))
    ]
    as_bytes, as_numbers = (forward_loss(model.bind(variables), batch) for batch in batches)
    np.testing.assert_allclose(as_bytes, as_numbers, rtol=1e-5)
