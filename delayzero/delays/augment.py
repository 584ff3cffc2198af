"""Observations that also show what the agent knows about the delay, as one flat Dict."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from delayzero.delays.actions import PendingEncoder
from delayzero.delays.episodes import Mask, take_rows
from delayzero.delays.law import DelayError, nearest


def check_observe(observe: str, choices: tuple[str, ...]) -> None:
    """Check the argument ``observe`` of a wrapper."""
    if observe not in choices:
        raise DelayError(f"unknown observe='{observe}'{nearest(str(observe), choices)}")


def augmented_space(
    space: spaces.Space[Any], parts: dict[str, spaces.Space[Any]]
) -> spaces.Space[Any]:
    """Return the space of observations to which :func:`augmented` adds parts.

    Args:
        space: The space of the environment's observations.
        parts: The space of each added part; with no parts, ``space`` is returned.

    Raises:
        DelayError: The environment's observations already have a key of the added parts.
    """
    if not parts:
        return space
    own = dict(space.spaces) if isinstance(space, spaces.Dict) else {"observation": space}
    for key in parts:
        if key in own:
            raise DelayError(
                f"the environment's observations already have the key '{key}', which this wrapper "
                "adds; rename it with gymnasium.wrappers.TransformObservation, or use "
                "observe='plain' and read the info"
            )
    return spaces.Dict({**own, **parts})


def augmented(observation: Any, parts: dict[str, Any]) -> Any:
    """Add parts to an observation, or to a batch of observations.

    A Dict observation keeps its keys and gets those of the parts. Any other observation is under
    the key ``observation``.
    """
    if not parts:
        return observation
    own = observation if isinstance(observation, dict) else {"observation": observation}
    return {**own, **parts}


def augmented_finals(finals: Any, parts: dict[str, Any], mask: Mask) -> NDArray[np.object_]:
    """Add parts to the final observations of some environments of a vector.

    Args:
        finals: ``info["final_obs"]`` of the environments below: an array of N observations, or a
            batch.
        parts: The parts of all N environments, as a batch.
        mask: Which environments have a final observation, ``[N]``.

    Returns:
        An array of objects ``[N]``, as in Gymnasium; None outside the mask.
    """
    result = np.full(len(mask), None, object)
    for row in np.flatnonzero(mask).tolist():
        result[row] = augmented(take_rows(finals, row), take_rows(parts, row))
    return result


def fraction_space(largest: float = 1.0) -> spaces.Box:
    """Return the space of :func:`fraction`."""
    return spaces.Box(0.0, largest, (1,), np.float32)


def fraction(steps: Any, max_delay: int) -> NDArray[np.float32]:
    """Divide times in steps, ``[...]``, by M. The result has shape ``[..., 1]``."""
    return np.asarray(steps, np.float32)[..., None] / np.float32(max(max_delay, 1))


class RecentActions:
    """The last M actions given to each of N environments, and their encoding.

    Times are those of observations within an episode: the action given at t leads from observation
    t to observation t + 1.

    Attributes:
        space: The space of the encoded actions of one environment.
    """

    def __init__(self, space: spaces.Space[Any], max_delay: int, num_envs: int) -> None:
        self._encoder = PendingEncoder(space, max_delay, instead="age")
        self.space = self._encoder.space
        self._places = max(max_delay, 1)
        self._slots = np.arange(max_delay)
        self._rows = np.arange(num_envs)
        self._ring: NDArray[Any] = np.zeros(
            (num_envs, self._places, *(space.shape or ())), space.dtype
        )
        self._first = np.zeros(num_envs, np.int64)  # time of the oldest action on record

    def begin_episode(self, row: int) -> None:
        """Clear the record of one environment."""
        self._first[row] = 0

    def record(self, now: NDArray[np.int64], actions: Any) -> None:
        """Record the actions given at the times ``now``, ``[N]``."""
        self._ring[self._rows, now % self._places] = actions

    def encode(self, shown: NDArray[np.int64], now: NDArray[np.int64]) -> NDArray[np.float32]:
        """Encode the actions given since the observations shown.

        Args:
            shown: The time of each observation shown, ``[N]``.
            now: The time of each newest observation, ``[N]``.

        Returns:
            Shape ``[N, M, size + 1]``. Slot j holds the action given at ``shown + j``; slots from
            ``now - shown`` on are empty. Where ``now - shown`` exceeds M (this happens only with
            ``rule="latest-arrival"``), the slots hold the last M actions.
        """
        begin = np.maximum(shown, now - len(self._slots))
        times = begin[:, None] + self._slots
        filled = (times < now[:, None]) & (times >= self._first[:, None])
        return self._encoder.encode(self._ring[self._rows[:, None], times % self._places], filled)

    def state(self) -> dict[str, Any]:
        """Return the exact state; :meth:`restore` continues from it."""
        return {"ring": self._ring.copy(), "first": self._first.copy()}

    def restore(self, state: dict[str, Any] | None, now: NDArray[np.int64]) -> None:
        """Continue from a state; None leaves the slots of earlier actions empty."""
        if state is None:
            self._first = now.copy()
        else:
            self._ring = np.array(state["ring"], self._ring.dtype)
            self._first = np.array(state["first"], np.int64)
