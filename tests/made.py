"""Queues and spaces for tests."""

import numpy as np

from delayzero.actions import ActionSpec, Queue
from delayzero.spaces import Spaces


def queue_of(actions, nothing):
    """A queue from an array in which a number stands for no action."""
    actions = np.asarray(actions)
    return Queue(np.where(actions < nothing, actions, 0), actions < nothing)


def full_queue(actions):
    """A queue without an empty slot."""
    return Queue(actions, np.ones(actions.shape, bool))


def no_queue(count):
    """Queues without slots."""
    return Queue(np.zeros((count, 0), np.int32), np.zeros((count, 0), bool))


def spaces_of(shape, dtype, actions):
    return Spaces(tuple(shape), np.dtype(dtype), ActionSpec(actions))
