"""Actions: validation, the initial queue, and the encoding of pending actions."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from delayzero.delays.law import DelayError

ARRAY_SPACES = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary, spaces.Box)


def is_array_space(space: spaces.Space[Any]) -> bool:
    """Return whether actions of the space are numbers or arrays of one shape."""
    return isinstance(space, ARRAY_SPACES)


def copied(value: Any) -> Any:
    """Copy an action or observation, so that later changes to the original do not reach it."""
    if isinstance(value, (np.generic, int)):  # immutable
        return value
    return value.copy() if isinstance(value, np.ndarray) else deepcopy(value)


def admitted(space: spaces.Space[Any], action: Any) -> Any:
    """Return a copy of an action in the space's type, or None if it is not in the space.

    As environments do, this accepts lists for arrays, and other types of the same kind.
    """
    if type(space) is spaces.Discrete:  # fast: Discrete.contains is slow
        if isinstance(action, (int, np.integer)):
            inside = space.start <= action < space.start + space.n  # a difference may overflow
            return space.dtype.type(action) if inside else None
        whole = isinstance(action, np.ndarray) and action.shape == () and action.dtype.kind in "iu"
        return admitted(space, action.item()) if whole else None
    if isinstance(space, ARRAY_SPACES):
        try:
            action = np.asarray(action).astype(space.dtype, casting="same_kind")
        except (TypeError, ValueError, OverflowError):
            return None
    return deepcopy(action) if space.contains(action) else None


def admitted_batch(env: VectorEnv[Any, Any, Any], actions: Any) -> NDArray[Any]:
    """Validate one action for each of N environments.

    Returns:
        The actions as an array, ``[N, ...]``.

    Raises:
        InvalidAction: They are not N actions of the space.
    """
    space = env.single_action_space
    try:
        array = np.asarray(actions)
    except ValueError:
        raise gym.error.InvalidAction(f"the actions {actions!r} do not form an array") from None
    if _all_valid(env, array):
        return array
    if array.shape[:1] != (env.num_envs,):
        raise gym.error.InvalidAction(
            f"{env.num_envs} actions are needed, one for each environment; "
            f"these have shape {array.shape}"
        )
    rows = [admitted(space, action) for action in array]
    for row, action in enumerate(rows):
        if action is None:
            raise gym.error.InvalidAction(
                f"the action {array[row]!r} of environment {row} is not in {space}"
            )
    return np.array(rows, space.dtype)


def _all_valid(env: VectorEnv[Any, Any, Any], actions: NDArray[Any]) -> bool:
    """Test what ``action_space.contains`` tests; fast for Discrete actions."""
    space = env.single_action_space
    if not isinstance(space, spaces.Discrete):
        return actions.dtype == space.dtype and env.action_space.contains(actions)
    if actions.dtype.kind not in "iu":
        return False
    first, last = space.start, space.start + space.n - 1
    return actions.shape == (env.num_envs,) and bool(
        actions.min() >= first and actions.max() <= last
    )


def check_action_space(env: VectorEnv[Any, Any, Any]) -> None:
    """Check that a vector environment takes one array for the actions of all environments."""
    space = env.single_action_space
    if not is_array_space(space) or env.action_space != batch_space(space, env.num_envs):
        raise DelayError(
            f"the {env.num_envs} environments should each take one Discrete, MultiDiscrete, "
            f"MultiBinary or Box action, not {env.action_space}"
        )


def default_action(space: spaces.Space[Any]) -> Any:
    """Return the action that fills the initial queue by default: the first one, or zero."""
    if isinstance(space, spaces.Discrete):
        return np.asarray(space.start, space.dtype)[()]
    if isinstance(space, spaces.MultiDiscrete):
        return np.array(space.start, space.dtype)
    if isinstance(space, spaces.MultiBinary):
        return np.zeros(space.shape, space.dtype)
    if isinstance(space, spaces.Box):
        return np.clip(np.zeros(space.shape, space.dtype), space.low, space.high)
    raise DelayError(
        f"there is no default action for {space}; pass initial_actions: one action, or {_QUEUE}"
    )


_QUEUE = "one action for each of the M steps"


def initial_queue(value: Any, space: spaces.Space[Any], max_delay: int) -> list[Any]:
    """Return the M actions of an initial queue, from one action or a sequence of M actions.

    Raises:
        DelayError: ``value`` is neither.
    """
    action = admitted(space, value)
    if action is not None:
        return [action] * max_delay
    try:
        actions = list(value)
    except TypeError:
        raise DelayError(f"initial_actions={value!r} is not an action of {space}") from None
    if len(actions) != max_delay:
        raise DelayError(
            f"initial_actions is not an action of {space}; as a sequence of {len(actions)} actions "
            f"it should have {_QUEUE}, M = {max_delay}"
        )
    queue = [admitted(space, action) for action in actions]
    for place, (given, action) in enumerate(zip(actions, queue, strict=True)):
        if action is None:
            raise DelayError(f"initial action {place}, {given!r}, is not in {space}")
    return queue


class PendingEncoder:
    """Encodes a queue of actions as one array: one-hot, or plain numbers for Box.

    Each slot holds the action as :func:`gymnasium.spaces.flatten` flattens it, and one more number
    that is 1 if the slot is empty. The other numbers of an empty slot are 0.

    Attributes:
        space: The space of the encoded queue: a Box of shape ``[M, size + 1]``.
    """

    def __init__(self, space: spaces.Space[Any], max_delay: int, instead: str = "delay") -> None:
        """Make the encoder of a queue.

        Args:
            space: The space of one action.
            max_delay: M, the number of slots.
            instead: The choice of ``observe`` that needs no encoding, for the error message.

        Raises:
            DelayError: Actions of the space have no encoding as one array.
        """
        if not is_array_space(space):
            raise DelayError(
                f"{type(space).__name__} actions can't be observed as an array; use "
                f"observe='{instead}', or a space Discrete, MultiDiscrete, MultiBinary or Box"
            )
        self._space = space
        self._size = int(spaces.flatdim(space))
        low, high = np.zeros(self._size), np.ones(self._size)
        if isinstance(space, spaces.Box):
            low, high = np.minimum(space.low.ravel(), 0), np.maximum(space.high.ravel(), 0)
        self.space = spaces.Box(
            np.tile(np.append(low, 0).astype(np.float32), (max_delay, 1)),
            np.tile(np.append(high, 1).astype(np.float32), (max_delay, 1)),
            dtype=np.float32,
        )

    def encode(self, actions: NDArray[Any], filled: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Encode padded queues.

        Args:
            actions: Shape ``[..., M, *action_shape]``; empty slots may hold anything.
            filled: Which slots hold an action, ``[..., M]``.

        Returns:
            Shape ``[..., M, size + 1]``.
        """
        encoded = np.zeros((*filled.shape, self._size + 1), np.float32)
        encoded[..., :-1] = self._flatten(actions)
        encoded[~filled] = 0
        encoded[..., -1] = ~filled
        return encoded

    def _flatten(self, actions: NDArray[Any]) -> Any:
        space = self._space
        if isinstance(space, spaces.Discrete):
            return np.eye(int(space.n), dtype=np.float32)[
                self._place(actions, space.start, space.n)
            ]
        if isinstance(space, spaces.MultiDiscrete):
            nvec, start = space.nvec.ravel(), np.asarray(space.start).ravel()
            flat = actions.reshape(*actions.shape[: actions.ndim - space.nvec.ndim], len(nvec))
            columns = [
                np.eye(int(n), dtype=np.float32)[self._place(flat[..., i], first, n)]
                for i, (n, first) in enumerate(zip(nvec, start, strict=True))
            ]
            return np.concatenate(columns, axis=-1)
        assert space.shape is not None
        return actions.reshape(*actions.shape[: actions.ndim - len(space.shape)], self._size)

    @staticmethod
    def _place(actions: NDArray[Any], start: Any, count: Any) -> Any:
        """Return rows of the identity matrix; padding outside the space is clipped."""
        return np.clip(actions - start, 0, count - 1)
