"""Learning from the one reward among 3,200 steps: what importance weights can make impossible."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from delayzero.envs.toys import Chase
from delayzero.learning.health import measure_health
from delayzero.playing.system import build_system
from delayzero.replay import Targets, Transitions, append, create
from delayzero.settings import compose

from ..made import spaces_of

ROWS, ENVS, ACTIONS, SIZE = 400, 8, 18, 32
CALLS, UPDATES = 5, 120


def random_play(seed):
    """What Chase shows and gives for random actions: frames and transitions, ``[ROWS, ENVS]``."""
    rng, grid = np.random.default_rng(seed), (ROWS, ENVS)
    frames = np.zeros((*grid, SIZE), np.float32)
    flags = {name: np.zeros(grid, bool) for name in ("first", "final", "terminated", "truncated")}
    action, reward = np.zeros(grid, np.int32), np.zeros(grid, np.float32)
    for n in range(ENVS):
        env = Chase()
        observation, _ = env.reset(seed=100 * seed + n)
        begins, over = True, False
        for t in range(ROWS):
            frames[t, n], flags["first"][t, n], flags["final"][t, n] = observation, begins, over
            begins = over
            if over:
                observation, over = env.reset()[0], False
                continue
            action[t, n] = rng.integers(ACTIONS)
            step = env.step(action[t, n])
            observation, reward[t, n], flags["terminated"][t, n], flags["truncated"][t, n], _ = step
            over = step[2] or step[3]
    return frames, Transitions(action=action, reward=reward, **flags)


def filled(seed):
    """A replay of random play in which one step was rewarded."""
    frames, transitions = random_play(seed)
    assert np.sum(transitions.reward) == 1
    grid = (ROWS, ENVS)
    targets = Targets(
        policy=np.full((*grid, ACTIONS), 1 / ACTIONS, np.float32),
        search_value=np.zeros(grid, np.float32),
        network_value=np.zeros(grid, np.float32),
        made_at=np.zeros(grid, np.int32),
    )
    empty = create(ROWS, ENVS, spaces_of((SIZE,), np.float32, ACTIONS))
    return jax.jit(append)(empty, frames, transitions, targets)


@pytest.fixture(scope="module")
def replays():
    return [filled(seed) for seed in (2, 28)]


PUBLISHED = {"weights": "relative", "final_correction": 1.0}


def learn(replays, **settings):
    """What a model knows of the reward after each of some calls: recall, and values over targets.

    Both ``[replays, CALLS]``.
    """
    config = compose(["cartpole"])
    config = replace(
        config,
        envs=ENVS,
        model=replace(config.model, latent=32, width=64, lstm=32, support=10),
        replay=replace(config.replay, priority_exponent=0.6, **settings),
        learner=replace(
            config.learner,
            td_steps=5,
            td_age=None,
            optimiser="sgd",
            learning_rate=0.2,
            weight_decay=1e-4,
        ),
    )
    system = build_system(config, spaces_of((SIZE,), np.float32, ACTIONS))
    learner = replace(system.learner, total_updates=2 * CALLS * UPDATES)
    first, update = jax.jit(system.first_state), jax.jit(learner.update)
    health = jax.jit(lambda *arguments: measure_health(learner, *arguments))
    recall, values = np.zeros((2, len(replays), CALLS))
    for seed, replay in enumerate(replays):
        state = first(jax.random.key(seed))
        for call in range(CALLS):
            state, replay, metrics = update(state, replay, jax.random.key(2), jnp.int32(UPDATES))
            found = health(state, replay, jax.random.key(call))
            recall[seed, call] = found["health/reward_recall"]
            values[seed, call] = metrics["value/network"] / metrics["value/target"]
    return recall, values


@pytest.mark.parametrize("count", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_one_reward_is_learned(count, replays):
    recall, values = learn(replays[:count])
    assert recall[:, -3:].mean() > 0.5
    assert values[:, -1].min() > 0.5


@pytest.mark.slow
def test_weights_relative_to_the_smallest_priority_lose_it(replays):
    """As published: beside rows of priority 1e-6 the rewarded ones weigh nothing."""
    recall, values = learn(replays, **PUBLISHED)
    assert recall[:, -3:].mean() < 0.1
    assert values[:, -1].max() < 0.4
