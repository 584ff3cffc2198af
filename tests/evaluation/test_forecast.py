"""Evaluating with the forecast of the emulator, which is perfect."""

import functools

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


@pytest.fixture(scope="module")
def atari():
    return system_of(
        presets=("atari", "debug"),
        env="atari:Breakout",
        delay=f"constant:{DELAY}",
        stack=STACK,
        model={**TINY, "kind": "conv", "dtype": "float32"},
    )


@pytest.fixture(scope="module")
def variables(atari):
    return stirred(atari.learner.playing(jax.jit(atari.first_state)(jax.random.key(0))))


def differences(system, variables):
    """By how much values of searches differ from those where the decisions ran, relatively."""
    evaluator = Evaluator(system, 2, max_steps=20)
    player = evaluator._player
    player.begin(seed=5)
    played = [player.step(variables)[0] for _ in range(STEPS)]
    evaluator.close()
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


@pytest.mark.slow
def test_decisions_are_made_for_the_states_that_they_meet(atari, variables):
    assert differences(atari, variables).max() > 1e-3, "the model is not trained"
    assert differences(atari.foreseeing(), variables).max() < 1e-5


def test_the_run_itself_stays_as_it_is(atari):
    perfect = atari.foreseeing()
    assert perfect.agent.foresees
    assert not atari.agent.foresees
    for system, wanted in ((atari, False), (perfect, True)):
        evaluator = Evaluator(system, 1, max_steps=5)
        assert (foresight_of(evaluator._delayed.env) is not None) == wanted
        evaluator.close()


@pytest.mark.parametrize(("settings", "message"), [
    ({"agent": "oblivious-executed", "delay": "constant:2"}, "not for 'oblivious-executed'"),
    ({"agent": "delayed-q", "delay": "constant:2"}, "not for 'delayed-q'"),
    ({"delay": "constant:2"}, "not 'CartPole-v1'"),
])  # fmt: skip
def test_where_no_emulator_can_help(settings, message):
    with pytest.raises(UsageError, match=message):
        system_of(**settings).foreseeing()


def test_late_observations_are_refused():
    settings = {"presets": ("atari", "debug"), "observation_delay": "constant:1"}
    with pytest.raises(UsageError, match="--observation-delay"):
        system_of(**settings, model={**TINY, "kind": "conv"}).foreseeing()
