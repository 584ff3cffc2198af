"""The environments of a run under their delays, which can be brought back to where they were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.vector import VectorEnv, VectorWrapper
from numpy.typing import NDArray

from delayzero.delays import DelayedExecutionVector
from delayzero.envs.atari import Atari
from delayzero.envs.foresight import foreseeing
from delayzero.envs.make import check_supported, make_vector
from delayzero.envs.recording import ActionLog
from delayzero.files import plain
from delayzero.playing.late import LateObservations
from delayzero.settings import DelayedQConfig, DelaySettings, TrainConfig


class Delayed(NamedTuple):
    """Environments under their delays."""

    env: VectorEnv[Any, Any, Any]
    """With delayed actions, or without."""
    late: LateObservations | None = None
    """Their observations on the way to the agent; None if they arrive at once."""

    @property
    def execution(self) -> DelayedExecutionVector | None:
        """The wrapper that delays actions; None if they run at once."""
        return self.env if isinstance(self.env, DelayedExecutionVector) else None

    @property
    def max_delay(self) -> int:
        """M, the longest delay of a decision."""
        return 0 if self.execution is None else self.execution.max_delay

    @property
    def max_observation_delay(self) -> int:
        """D, the longest delay of an observation."""
        return 0 if self.late is None else self.late.max_delay


def make_training_env(config: TrainConfig, count: int | None = None) -> VectorEnv[Any, Any, Any]:
    """Make the environments of a run, or a number of them, without delay."""
    count = config.envs if count is None else count
    env = make_env(config, count, training=True, max_steps=config.max_steps)
    check_supported(env)
    return env


def make_env(
    config: TrainConfig,
    count: int,
    *,
    training: bool,
    max_steps: int | None,
    render: bool = False,
    foresees: bool = False,
) -> VectorEnv[Any, Any, Any]:
    """Make environments that a run's agent can play: some agents need those that foresee.

    Args:
        config: The run.
        count: N.
        training: See :func:`~delayzero.envs.make.make_vector`.
        max_steps: Steps after which an episode is truncated; by default those of training.
        render: Whether ``render()`` is to return pictures.
        foresees: Whether they foresee, even if the run's agent does not need it.
    """
    max_steps = config.max_steps if max_steps is None else max_steps
    env = make_vector(config.env, count, training=training, max_steps=max_steps, render=render)
    if foresees or (isinstance(env, Atari) and isinstance(config, DelayedQConfig)):
        return foreseeing(env)
    return env


def delayed(env: VectorEnv[Any, Any, Any], delays: DelaySettings | None) -> Delayed:
    """Put environments under delays."""
    if delays is None:
        return Delayed(env)
    late_actions = DelayedExecutionVector(env, delays.law, rule=delays.rule, reveal=delays.reveal)
    if delays.observation_law is None:
        return Delayed(late_actions)
    law, rule = delays.observation_law, delays.observation_rule
    return Delayed(late_actions, LateObservations(late_actions, law, rule))


class Environments:
    """Environments under their delays, with a log of what really ran.

    Attributes:
        delayed: What an agent plays.
    """

    def __init__(
        self, env: gym.vector.VectorEnv[Any, Any, Any], delays: DelaySettings | None
    ) -> None:
        self._log = ActionLog(env)
        self.delayed = delayed(self._log, delays)

    @classmethod
    def of(cls, config: TrainConfig, count: int | None = None) -> Environments:
        """Make those of a run, or a number of them."""
        return cls(make_training_env(config, count), config.delays)

    def state(self) -> tuple[NDArray[Any], dict[str, Any]]:
        """Return the actions that ran, ``[T, N]``, and plain numbers."""
        log = self._log.log()
        numbers = {"seed": log["seed"], "digest": log["digest"], "steps": log["actions"].shape[0]}
        if self.delayed.execution is not None:
            delay = self.delayed.execution.delay_state()
            del delay["observations"]  # those that the actions lead to
            numbers["delay"] = _plain(delay)
        if self.delayed.late is not None:
            numbers["late"] = _plain(self.delayed.late.state())
        return log["actions"].astype(np.int32), numbers

    def rebuilds(self, rows: int) -> bool:
        """Return whether playing the actions again brings back all observations of the rows.

        It does in Atari, which has no randomness but the seed's. Of other environments that is not
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
        """Continue from a :meth:`state`.

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
        if self.delayed.execution is not None:
            state = {**numbers["delay"], "observations": outcome.observations}
            self.delayed.execution.restore_delay_state(state)
        if self.delayed.late is not None:
            self.delayed.late.restore(numbers["late"])
        return outcome.observations

    def close(self) -> None:
        """Close the environments."""
        self.delayed.env.close()


def _plain(value: Any) -> Any:
    """Nested lists and numbers instead of arrays."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return plain(value) if isinstance(value, (np.ndarray, np.generic)) else value
