"""Where frames are kept: in a device array, or on the host when the device has no room."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray


@jax.tree_util.register_static
class HostFrames:
    """Frames in the host's memory, ``[rows, N, ...]``, read by the device as it needs them.

    Inside a compiled function this is a constant, told from others by identity; only its contents
    change, and only between calls.
    """

    def __init__(self, frames: NDArray[Any]) -> None:
        self.array = frames

    @property
    def shape(self) -> tuple[int, ...]:
        """``[rows, N, ...]``, as of a device array."""
        return self.array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the numbers, as of a device array."""
        return self.array.dtype

    def gather(self, slots: Array, envs: Array) -> Array:
        """The frames at ``[slots, envs]``, which must have one shape."""
        shape = jax.ShapeDtypeStruct((*slots.shape, *self.shape[2:]), self.dtype)
        frames: Array = jax.pure_callback(
            lambda s, e: self.array[np.asarray(s), np.asarray(e)], shape, slots, envs
        )
        return frames

    def write(self, slots: NDArray[Any], rows: Sequence[NDArray[Any]]) -> None:
        """Store rows, each ``[N, ...]``. No compiled function may be reading meanwhile."""
        for slot, row in zip(slots, rows, strict=True):
            self.array[slot] = row


Frames = Array | HostFrames
"""Frames ``[rows, N, ...]`` on the device or on the host."""


def gather_frames(frames: Frames, slots: Array, envs: Array) -> Array:
    """The frames at ``[slots, envs]``, wherever they are kept."""
    if isinstance(frames, HostFrames):
        return frames.gather(slots, envs)
    # Apart from what follows: fused with it, every pixel of a later result would look itself up.
    gathered: Array = jax.lax.optimization_barrier(frames[slots, envs])
    return gathered


def empty_frames(
    rows: int, num_envs: int, shape: tuple[int, ...], dtype: Any, host: bool
) -> Frames:
    """Room for ``rows`` steps of ``num_envs`` environments."""
    if host:
        return HostFrames(np.zeros((rows, num_envs, *shape), dtype))
    return jnp.zeros((rows, num_envs, *shape), dtype)


class FrameWriter:
    """Writes the rows of a run again from their beginning, some hundred at a time.

    Attributes:
        frames: What was written so far, after :meth:`finish` all of it.
    """

    def __init__(self, frames: Frames, at_once: int = 256) -> None:
        self.frames = frames
        self._at_once = min(at_once, frames.shape[0])
        self._time = 0
        self._waiting: list[NDArray[Any]] = []

    def write(self, row: NDArray[Any]) -> None:
        """The next row, ``[N, ...]``; it may be overwritten afterwards."""
        self._waiting.append(np.array(row, self.frames.dtype))
        if len(self._waiting) == self._at_once:
            self.finish()

    def finish(self) -> None:
        """Write what is waiting."""
        if not self._waiting:
            return
        slots = (self._time + np.arange(len(self._waiting))) % self.frames.shape[0]
        if isinstance(self.frames, HostFrames):
            self.frames.write(slots, self._waiting)
        else:
            self.frames = _put(self.frames, slots, np.stack(self._waiting))
        self._time += len(self._waiting)
        self._waiting = []


@functools.partial(jax.jit, donate_argnums=0)
def _put(frames: Array, slots: Array, rows: Array) -> Array:
    return frames.at[slots].set(rows)
