"""Delayed-Q decides for the state that its action will meet."""

import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from delayzero.agents import DelayedQAgent
from delayzero.agents.delayed_q import epsilon
from delayzero.learning.config import QConfig

ACTIONS, NOTHING = 4, 4
CONFIG = QConfig(epsilon_start=0.8, epsilon_end=0.2, epsilon_share=0.5)


@dataclass(frozen=True)
class Counter:
    """A perfect model: the state counts actions in base 4, and the best one is its last digit."""

    num_actions: int = ACTIONS

    def bind(self, variables):
        return self

    def step(self, stack, action):
        newest = (stack[:, -1] * 3 + action[:, None] + 1) % 97
        return jnp.concatenate([stack[:, 1:], newest[:, None]], axis=1)

    def values(self, stack):
        wanted = (stack[:, -1, 0] + 2 * stack[:, 0, 0]) % ACTIONS
        return -jnp.abs(jnp.arange(ACTIONS) - wanted[:, None]).astype(jnp.float32)


AGENT = DelayedQAgent(Counter(), CONFIG)


@functools.partial(jax.jit, static_argnames="explore")
def decide(stack, queue, explore=False, progress=0.0):
    key = jax.random.key(0)
    found = AGENT.decide(None, stack, queue, key, explore=explore, progress=progress)
    return found.action


advance = jax.jit(Counter().step)


def test_under_a_constant_delay_it_decides_what_the_undelayed_one_decides_then():
    rng = np.random.default_rng(0)
    stack = rng.integers(0, 97, (6, 2, 1))
    queue = rng.integers(0, ACTIONS, (6, 5))
    empty = np.zeros((6, 0), int)
    for _ in range(30):
        later = stack
        for action in queue.T:
            later = advance(later, action)
        decided = decide(stack, queue)
        np.testing.assert_array_equal(decided, decide(later, empty))
        stack = advance(stack, queue[:, 0])
        queue = np.concatenate([queue[:, 1:], decided[:, None]], axis=1)


def test_each_environment_is_rolled_through_its_own_queue_alone():
    rng = np.random.default_rng(1)
    stack = rng.integers(0, 97, (6, 2, 1))
    queue = rng.integers(0, ACTIONS, (6, 5))
    lengths = [0, 5, 3, 1, 4, 2]
    for row, length in zip(queue, lengths, strict=True):
        row[length:] = NOTHING
    decided = decide(stack, queue)
    for i, length in enumerate(lengths):
        alone = decide(stack[i : i + 1], queue[i : i + 1, :length])
        assert decided[i] == alone[0]


def test_epsilon_falls_and_then_stays():
    shares = [float(epsilon(CONFIG, progress)) for progress in (0, 0.25, 0.5, 1, 2)]
    np.testing.assert_allclose(shares, [0.8, 0.5, 0.2, 0.2, 0.2], rtol=1e-6)


@pytest.mark.parametrize(("progress", "share"), [(0.0, 0.8), (1.0, 0.2)])
def test_a_share_of_the_decisions_is_random(progress, share):
    stack = np.full((4000, 2, 1), 5)
    queue = np.zeros((4000, 0), int)
    best = decide(stack, queue)[0]
    decided = decide(stack, queue, explore=True, progress=progress)
    assert abs(np.mean(decided != best) - share * (ACTIONS - 1) / ACTIONS) < 0.03
    assert set(decided.tolist()) == set(range(ACTIONS))


def test_the_first_queue_is_what_it_would_decide_step_by_step():
    stack = np.random.default_rng(2).integers(0, 97, (6, 2, 1))
    key = jax.random.key(0)
    planned = np.asarray(AGENT.first_queue(None, jnp.asarray(stack), key, 5, explore=False))
    for k in range(5):
        decided = decide(stack, np.zeros((6, 0), int))
        np.testing.assert_array_equal(planned[:, k], decided)
        stack = advance(stack, decided)
    noisy = np.asarray(AGENT.first_queue(None, jnp.asarray(stack), key, 5, explore=True))
    assert noisy.shape == (6, 5)
