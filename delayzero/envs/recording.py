"""Environments whose state can be restored by replaying their seed and actions."""

from __future__ import annotations

import operator
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv, VectorWrapper
from numpy.typing import NDArray


class StepOutcome(NamedTuple):
    """The result of a step of N environments."""

    observations: Any
    rewards: NDArray[Any]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    info: dict[str, Any]


class ActionLog(VectorWrapper[Any, Any, Any, Any, Any]):
    """Records the seed and the actions, so that :meth:`replay` can restore the environments.

    It works for every environment that is determined by its seed and its actions, and needs no
    access to its state. Put it directly around the base environment. A digest of everything the
    environment returned shows whether a replay reproduced it.

    A reset begins a new log. A reset without a seed draws one, from a generator seeded by the last
    one, so that it can be repeated too.

    Example:
        >>> from delayzero.envs.make import make_vector
        >>> from delayzero.envs.recording import ActionLog
        >>> envs = ActionLog(make_vector("CartPole-v1", 2, training=True))
        >>> _ = envs.reset(seed=0)
        >>> observations, *_ = envs.step(envs.action_space.sample())
        >>> same = ActionLog(make_vector("CartPole-v1", 2, training=True))
        >>> bool((same.replay(envs.log()).observations == observations).all())
        True
    """

    def __init__(self, env: VectorEnv[Any, Any, Any]) -> None:
        """Record the actions of N environments with Discrete actions."""
        super().__init__(env)
        space = env.single_action_space
        if not isinstance(space, spaces.Discrete) or space.start < 0:
            raise gym.error.Error(
                f"only Discrete actions that are not negative can be logged, not {space}"
            )
        self._dtype = np.min_scalar_type(int(space.start + space.n - 1))
        self._seeds = np.random.default_rng()
        self._seed: int | None = None
        self._actions = bytearray()
        self._steps = 0
        self._digest = 0

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset all environments, and begin a new log.

        Args:
            seed: One int, or None.
            options: None; or a ``reset_mask`` of all environments.
        """
        _check_reset(seed, options)
        if seed is None:
            seed = self._seeds.integers(2**31 - self.num_envs)
        self._seed = operator.index(seed)
        self._seeds = np.random.default_rng(abs(self._seed))
        self._actions, self._steps = bytearray(), 0
        observations, info = self.env.reset(seed=self._seed, options=options)
        self._digest = digest(0, observations)
        return observations, info

    def step(self, actions: Any) -> StepOutcome:
        """Step the environments, and log the actions."""
        outcome = StepOutcome(*self.env.step(actions))
        self._actions += np.asarray(actions).astype(self._dtype).tobytes()
        self._steps += 1
        self._digest = digest(self._digest, *outcome[:4])
        return outcome

    @property
    def steps(self) -> int:
        """Steps since the last reset."""
        return self._steps

    def log(self) -> dict[str, Any]:
        """Return the seed (int), the actions since the reset ``[T, N]``, and the digest (int)."""
        if self._seed is None:
            raise gym.error.ResetNeeded("nothing to log before the first reset()")
        actions = np.frombuffer(bytes(self._actions), self._dtype).reshape(-1, self.num_envs)
        return {"seed": self._seed, "actions": actions, "digest": self._digest}

    def replay(
        self,
        log: dict[str, Any],
        advance: Callable[[int], Any] | None = None,
        see: Callable[[Any], Any] | None = None,
    ) -> StepOutcome | None:
        """Restore the environments to the end of a log by repeating its reset and its actions.

        Args:
            log: The :meth:`log` of environments that were made in the same way.
            advance: Called with 1 after each step, for a progress bar.
            see: Called with the observations before each step; they may be overwritten after it.

        Returns:
            The outcome of the last step, or of the reset if the log has no step (with rewards of
            0). None if the environments did not return what the log recorded: they cannot be
            restored, and must be reset.
        """
        actions = np.asarray(log["actions"])
        if actions.ndim != 2 or actions.shape[1] != self.num_envs:
            raise gym.error.Error(
                f"the log's actions have the shape {list(actions.shape)}, and there are "
                f"{self.num_envs} environments: make as many as were logged"
            )
        observations, info = self.reset(seed=int(log["seed"]))
        rewards, ends = np.zeros(self.num_envs), np.zeros(self.num_envs, bool)
        outcome = StepOutcome(observations, rewards, ends, ends.copy(), info)
        for row in actions.astype(np.int64):
            if see is not None:
                see(outcome.observations)
            outcome = self.step(row)
            if advance is not None:
                advance(1)
        return outcome if self._digest == int(log["digest"]) else None


def digest(value: int, *parts: Any) -> int:
    """Return a checksum continued over arrays: observations, rewards, ends."""
    for part in parts:
        value = zlib.crc32(np.ascontiguousarray(part).data, value)
    return value


def _check_reset(seed: Any, options: dict[str, Any] | None) -> None:
    """Check that a reset can be logged."""
    if not (seed is None or np.ndim(seed) == 0):
        raise gym.error.Error(f"the log records one seed for all environments, not {seed!r}")
    if options and (set(options) != {"reset_mask"} or not np.all(options["reset_mask"])):
        raise gym.error.Error(
            f"the log records resets of all environments without options, not {options!r}"
        )
