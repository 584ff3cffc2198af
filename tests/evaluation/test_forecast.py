"""Evaluating with a perfect forecast: what copies of environments, or Atari's emulator, show."""

import functools
import itertools

import gymnasium as gym
import jax
import numpy as np
import pytest

from delayzero.actions import empty_queue
from delayzero.agents import Observed
from delayzero.arguments import UsageError
from delayzero.envs.foresight import foresight_of
from delayzero.evaluation.episodes import Evaluator
from delayzero.playing.environments import make_training_env
from delayzero.playing.system import build_system
from delayzero.spaces import Spaces

from ..training.small import TINY, small, stirred

DELAY, STEPS, STACK = 3, 24, 2


def system_of(**settings):
    config = small(**settings)
    env = make_training_env(config)
    env.close()
    return build_system(config, Spaces.of(env))


class Noise(gym.Env):
    """Shows random numbers, so that what a policy chooses changes from step to step."""

    observation_space = gym.spaces.Box(-3, 3, (4,), np.float32)
    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._shown(), {}

    def step(self, action):
        return self._shown(), 0.0, False, False, {}

    def _shown(self):
        return self.np_random.uniform(-3, 3, 4).astype(np.float32)


gym.register("delayzero-tests/Noise-v0", Noise, max_episode_steps=20)
ATARI = {
    "presets": ("atari", "debug"),
    "env": "atari:Breakout",
    "model": {**TINY, "kind": "conv", "dtype": "float32"},
}


def differences(system, variables):
    """By how much values of searches differ from those where the decisions ran, relatively."""
    evaluator = Evaluator(system, 2, max_steps=20)
    player = evaluator._player
    player.begin(seed=5)
    played = [player.step(variables)[0] for _ in range(STEPS)]
    evaluator.close()
    if system.agent.foresees:
        check_first_queues(system, variables, played)
    decide = jax.jit(functools.partial(system.agent.decide, explore=False, progress=1.0))
    nothing = empty_queue(2, 0, system.spaces.actions)
    found = []
    for now in range(STEPS - DELAY):
        before, meets = played[now + DELAY - 1], played[now + DELAY]
        stack = np.stack([before.observation, meets.observation], axis=1)
        observed = Observed(stack, meets.first, nothing)
        there = decide(variables, (), observed, jax.random.key(1))[1].search.value
        way = played[now : now + DELAY + 1]
        begins = [step.final | step.first for step in way[1:]]
        runs = ~np.any([played[now].final, *begins], axis=0)
        error = np.abs(played[now].search.value - there) / (1 + np.abs(there))
        found.extend(error[runs].tolist())
    assert len(found) > STEPS / 2
    return np.array(found)


def check_first_queues(system, variables, played):
    """Each action of a first queue is the policy's where it runs."""
    planned = played[0].planned
    assert planned.shape == (2, DELAY)
    assert system.config.env.startswith("atari") or len(np.unique(planned)) > 1
    for k, (before, here) in enumerate(itertools.pairwise([played[0], *played[:DELAY]])):
        stack = np.stack([before.observation, here.observation], axis=1)
        wanted = system.agent.first_queue(variables, stack, jax.random.key(2), 1, explore=False)
        np.testing.assert_array_equal(planned[:, k], wanted[:, 0])


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"env": "delayzero-tests/Noise-v0"}, id="copies"),
        pytest.param(ATARI, id="emulator", marks=pytest.mark.slow),
    ],
)
def test_decisions_are_made_for_the_states_that_they_meet(settings):
    system = system_of(**settings, delay=f"constant:{DELAY}", stack=STACK)
    variables = stirred(system.learner.playing(jax.jit(system.first_state)(jax.random.key(0))))
    assert differences(system, variables).max() > 1e-3, "the model is not trained"
    assert differences(system.foreseeing(), variables).max() < 1e-5


@pytest.mark.parametrize("settings", [{"env": "CartPole-v1"}, ATARI], ids=["copies", "emulator"])
def test_the_run_itself_stays_as_it_is(settings):
    system = system_of(**settings, delay="constant:1")
    perfect = system.foreseeing()
    assert perfect.agent.foresees
    assert not system.agent.foresees
    for one, wanted in ((system, False), (perfect, True)):
        evaluator = Evaluator(one, 1, max_steps=5)
        assert (foresight_of(evaluator._delayed.env) is not None) == wanted
        evaluator.close()


@pytest.mark.parametrize(("settings", "message"), [
    ({"agent": "oblivious-executed", "delay": "constant:2"}, "not for 'oblivious-executed'"),
    ({"agent": "delayed-q", "delay": "constant:2"}, "not for 'delayed-q'"),
    ({"observation_delay": "constant:1"}, "--observation-delay"),
])  # fmt: skip
def test_where_a_perfect_forecast_is_refused(settings, message):
    with pytest.raises(UsageError, match=message):
        system_of(**settings).foreseeing()
