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
    "age": lambda env: DelayedObservation(env, "wifi", observe="age"),
    "actions": lambda env: DelayedObservation(env, "walk:5", observe="actions"),
    "both": lambda env: DelayedExecution(
        DelayedObservation(env, "wifi", observe="actions"), "walk:5", observe="pending"
    ),
}


class Still(gym.Env):
    """Takes actions of a space and does nothing."""

    observation_space = spaces.Box(0, 1, (2,))

    def __init__(self, action_space):
        self.action_space = action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 0.0, False, False, {}


AIM = spaces.Box(-1, 1, (2,))
COMPOSITE = {
    "dict": (
        spaces.Dict({"go": spaces.Discrete(2), "aim": AIM}),
        {"go": 1, "aim": np.zeros(2, np.float32)},
    ),
    "tuple": (spaces.Tuple([spaces.Discrete(2), AIM]), (1, np.zeros(2, np.float32))),
}


@pytest.mark.parametrize("queue", [False, True])
@pytest.mark.parametrize("kind", COMPOSITE)
def test_checker_passes_with_composite_actions(kind, queue):
    space, action = COMPOSITE[kind]
    initial = [action] * 3 if queue else action
    env = DelayedExecution(Still(space), "walk:3", initial_actions=initial)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_env(env, skip_render_check=True)
    _, info = env.reset(seed=0)
    assert info["pending"][0] is not info["pending"][1]
    aims = [pending["aim" if kind == "dict" else 1] for pending in info["pending"]]
    aims[0][:] = 1  # the agent changes what it was told
    assert not aims[1].any()
    assert not env.step(action)[-1]["executed_action"]["aim" if kind == "dict" else 1].any()


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
