"""What an action is, and the pending actions of an environment.

Works with numpy and with JAX arrays alike: nothing here imports either's functions for the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

MOST_ACTIONS = 2**15 - 1
"""The replay keeps pending actions in 16 bits."""


@dataclass(frozen=True)
class ActionSpec:
    """Discrete actions ``0 .. count - 1``.

    Models, replay, queues and agents are built for a spec. Its shape and data type are where
    vectors of real numbers will come in; replay and search take discrete actions only.
    """

    count: int
    shape: ClassVar[tuple[int, ...]] = ()
    """Of one action."""
    dtype: ClassVar[Any] = np.int32
    """Of one action."""

    def __post_init__(self) -> None:
        """Validate the fields."""
        if not 1 <= self.count <= MOST_ACTIONS:
            raise ValueError(
                f"the number of actions is at least 1 and at most {MOST_ACTIONS}, not {self.count}"
            )


class Queue(NamedTuple):
    """Pending actions of ``N`` environments, in the order in which they will run."""

    action: Any
    """``[N, W, ...]``; meaningless where the mask is False."""
    mask: Any
    """Which slots hold an action, ``[N, W]``: the first ones of each row."""

    @property
    def width(self) -> int:
        """The number of slots W."""
        return int(self.mask.shape[-1])

    @property
    def lengths(self) -> Any:
        """The number of pending actions, ``[N]``."""
        return self.mask.sum(axis=-1)

    def row(self, index: int) -> list[Any]:
        """The pending actions of one environment."""
        actions: list[Any] = self.action[index][self.mask[index]].tolist()
        return actions


def empty_queue(num_envs: int, width: int, actions: ActionSpec) -> Queue:
    """Return queues without a pending action, as numpy arrays."""
    shape = (num_envs, width)
    return Queue(np.zeros((*shape, *actions.shape), actions.dtype), np.zeros(shape, bool))


def resized(queue: Queue, width: int) -> Queue:
    """Return numpy queues with another number of slots; the last ones are cut or empty."""
    kept = min(width, queue.width)
    shape = (queue.mask.shape[0], width)
    action = np.zeros((*shape, *queue.action.shape[2:]), queue.action.dtype)
    mask = np.zeros(shape, bool)
    action[:, :kept], mask[:, :kept] = queue.action[:, :kept], queue.mask[:, :kept]
    return Queue(action, mask)


def joined(first: Queue, second: Queue) -> Queue:
    """Return numpy queues that hold the actions of one, then those of the other, ``[N, V + W]``."""
    action = np.concatenate([first.action, second.action], axis=1)
    mask = np.concatenate([first.mask, second.mask], axis=1)
    order = np.argsort(~mask, axis=1, kind="stable")  # what is pending moves to the front
    rows = np.arange(len(mask))[:, None]
    return Queue(action[rows, order], mask[rows, order])
