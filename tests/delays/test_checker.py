"""Gymnasium's own environment checker on wrapped environments."""

import warnings

import ale_py
import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

from delayzero.delays import DelayedExecution, DelayedObservation
from delayzero.envs.minatar import MinAtar

gym.register_envs(ale_py)


def two_keys(env):
    space = spaces.Dict({"all": env.observation_space, "first": spaces.Box(-np.inf, np.inf, (1,))})
    return gym.wrappers.TransformObservation(env, lambda o: {"all": o, "first": o[:1]}, space)


ENVIRONMENTS = {
    "cartpole": lambda: gym.make("CartPole-v1"),
    "pendulum": lambda: gym.make("Pendulum-v1"),
    "two keys": lambda: two_keys(gym.make("CartPole-v1")),
    "minatar": lambda: MinAtar("breakout"),
    "atari": lambda: gym.make("ALE/Breakout-v5", repeat_action_probability=0.0),
}
WRAPPERS = {
    "plain": lambda env: DelayedExecution(env, "walk:5"),
    "delay": lambda env: DelayedExecution(env, "uniform:0-5", observe="delay"),
    "pending": lambda env: DelayedExecution(env, "walk:5", observe="pending"),
    "after": lambda env: DelayedExecution(env, "wifi", observe="pending", reveal="after"),
    "never": lambda env: DelayedExecution(env, "constant:3", reveal="never"),
    "observation": lambda env: DelayedObservation(env, "walk:5"),
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_checker_passes(environment, wrapper):
    env = WRAPPERS[wrapper](ENVIRONMENTS[environment]())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Of wrapped environments it warns always, and of unbounded spaces that are not ours.
        for expected in ("different from the unwrapped", "infinity", "symmetric and normalized"):
            warnings.filterwarnings("ignore", message=f".*{expected}.*")
        check_env(env, skip_render_check=True)
    env.close()
