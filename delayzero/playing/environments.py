"""The environments of a run, which can be brought back to where they were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import VectorWrapper
from numpy.typing import NDArray

from delayzero.delays import DelayedExecutionVector
from delayzero.envs.atari import Atari
from delayzero.envs.foresight import ForeseeingAtari
from delayzero.envs.make import check_supported, make_vector
from delayzero.envs.recording import ActionLog
from delayzero.files import plain
from delayzero.settings import DelayedQConfig, TrainConfig


def make_training_env(config: TrainConfig) -> gym.vector.VectorEnv[Any, Any, Any]:
    """The environments of a run, without delay."""
    env = make_env(config, config.envs, training=True, max_steps=config.max_steps)
    check_supported(env)
    return env


def make_env(
    config: TrainConfig, count: int, *, training: bool, max_steps: int | None
) -> gym.vector.VectorEnv[Any, Any, Any]:
    """Environments that a run's agent can play: some agents need those that foresee."""
    env = make_vector(config.env, count, training=training, max_steps=max_steps)
    if isinstance(env, Atari) and isinstance(config, DelayedQConfig):
        return ForeseeingAtari(env)
    return env


def delayed(
    env: gym.vector.VectorEnv[Any, Any, Any], law: str | None
) -> gym.vector.VectorEnv[Any, Any, Any]:
    """The environments under a delay law; themselves without one."""
    return env if law is None else DelayedExecutionVector(env, law)


class Environments:
    """Environments under their delay, with a log of what really ran.

    Attributes:
        played: What an agent plays.
    """

    def __init__(self, env: gym.vector.VectorEnv[Any, Any, Any], law: str | None) -> None:
        self._log = ActionLog(env)
        self.played = delayed(self._log, law)

    @classmethod
    def of(cls, config: TrainConfig) -> Environments:
        """Those of a run."""
        return cls(make_training_env(config), config.law)

    def state(self) -> tuple[NDArray[Any], dict[str, Any]]:
        """The actions that ran, ``[T, N]``, and plain numbers."""
        log = self._log.log()
        numbers = {"seed": log["seed"], "digest": log["digest"], "steps": log["actions"].shape[0]}
        if isinstance(self.played, DelayedExecutionVector):
            delay = self.played.delay_state()
            del delay["observations"]  # those that the actions lead to
            numbers["delay"] = _plain(delay)
        return log["actions"].astype(np.int32), numbers

    def rebuilds(self, rows: int) -> bool:
        """Whether all observations of so many rows come back when the actions are played again.

        They do in Atari, which has no randomness but the seed's. Of other environments that is not
        known before it is tried.
        """
        env: Any = self._log
        while isinstance(env, VectorWrapper) and not isinstance(env, Atari):
            env = env.env
        return isinstance(env, Atari) and self._log.steps == rows

    def restore(
        self,
        actions: NDArray[Any],
        numbers: dict[str, Any],
        advance: Callable[[int], Any],
        see: Callable[[Any], Any] | None = None,
    ) -> Any:
        """Go on from a :meth:`state`.

        Args:
            actions: Of the state.
            numbers: Of the state.
            advance: Called with 1 after each step.
            see: Called with the observations before each step.

        Returns:
            The newest observations; None if the environments did not come back to where they were.
        """
        outcome = self._log.replay({**numbers, "actions": actions}, advance, see)
        if outcome is None:
            return None
        if isinstance(self.played, DelayedExecutionVector):
            state = {**numbers["delay"], "observations": outcome.observations}
            self.played.restore_delay_state(state)
        return outcome.observations

    def close(self) -> None:
        """End."""
        self.played.close()


def _plain(value: Any) -> Any:
    """Nested lists and numbers instead of arrays."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return plain(value) if isinstance(value, (np.ndarray, np.generic)) else value
