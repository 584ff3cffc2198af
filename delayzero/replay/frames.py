"""Storage of frames: in a device array, or on the host when the device has too little memory."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh
from numpy.typing import NDArray

from delayzero.replay.sharding import by_environment, gather_sharded, positions


@jax.tree_util.register_static
class HostFrames:
    """Frames in host memory, ``[rows, N, ...]``, which the device reads on demand.

    A compiled function treats this object as a constant, compared by identity. Its contents may
    change between calls, but not during one.
    """

    def __init__(self, frames: NDArray[Any]) -> None:
        self.array = frames

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape ``[rows, N, ...]``, as of a device array."""
        return self.array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The data type, as of a device array."""
        return self.array.dtype

    def gather(self, slots: Array, envs: Array) -> Array:
        """Return the frames at ``[slots, envs]``; both indices must have the same shape."""
        chex.assert_equal_shape([slots, envs])
        shape = jax.ShapeDtypeStruct((*slots.shape, *self.shape[2:]), self.dtype)
        frames: Array = jax.pure_callback(
            lambda s, e: self.array[np.asarray(s), np.asarray(e)], shape, slots, envs
        )
        return frames

    def gather_sharded(self, mesh: Mesh, slots: Array, envs: Array) -> Array:
        """Return the same, where each device reads the share of the batch that it needs."""
        spec = positions(mesh, slots)
        frames: Array = jax.shard_map(
            self.gather, mesh=mesh, in_specs=(spec, spec), out_specs=spec
        )(slots, envs)
        return frames

    def write(self, slots: NDArray[Any], rows: Sequence[NDArray[Any]]) -> None:
        """Store rows, each ``[N, ...]``. No compiled function may read at the same time."""
        for slot, row in zip(slots, rows, strict=True):
            self.array[slot] = row


Frames = Array | HostFrames
"""Frames ``[rows, N, ...]`` on the device or on the host."""


def gather_frames(frames: Frames, slots: Array, envs: Array, mesh: Mesh | None = None) -> Array:
    """Return the frames at ``[slots, envs]`` from the devices or the host.

    Args:
        frames: ``[R, N, ...]``.
        slots: ``[B, ...]``.
        envs: ``[B, ...]``.
        mesh: The devices, if there are several; each gets its share of the batch.
    """
    if isinstance(frames, HostFrames):
        return (
            frames.gather(slots, envs) if mesh is None else frames.gather_sharded(mesh, slots, envs)
        )
    if mesh is not None:
        shares: Array = gather_sharded(mesh, frames, slots, envs)
        return shares
    # The barrier prevents fusion with later operations, which would look up each pixel separately.
    gathered: Array = jax.lax.optimization_barrier(frames[slots, envs])
    return gathered


def empty_frames(
    rows: int,
    num_envs: int,
    shape: tuple[int, ...],
    dtype: Any,
    host: bool,
    mesh: Mesh | None = None,
) -> Frames:
    """Allocate frames for ``rows`` steps of ``num_envs`` environments."""
    if host:
        return HostFrames(np.zeros((rows, num_envs, *shape), dtype))
    return jnp.zeros((rows, num_envs, *shape), dtype, device=by_environment(mesh))


class FrameWriter:
    """Rewrites the rows of a run from the first one on, a few hundred at a time.

    Attributes:
        frames: The frames with the rows written so far; complete after :meth:`finish`.
    """

    def __init__(self, frames: Frames, at_once: int = 256) -> None:
        self.frames = frames
        self._at_once = min(at_once, frames.shape[0])
        self._time = 0
        self._waiting: list[NDArray[Any]] = []

    def write(self, row: NDArray[Any]) -> None:
        """Add the next row, ``[N, ...]``; the caller may reuse its memory."""
        chex.assert_shape(row, self.frames.shape[1:])
        self._waiting.append(np.array(row, self.frames.dtype))
        if len(self._waiting) == self._at_once:
            self.finish()

    def finish(self) -> None:
        """Write the rows that are still buffered."""
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
