"""Arrays on several devices: a replay by environment, a batch by position, weights on each device.

The program is written as for one device, and the compiler divides it (``jax.sharding``). Only where
it would collect a whole column of the replay on every device, the division is written out: in
:func:`gather_sharded` and in :mod:`delayzero.replay.sampling`. On one device there is no mesh, and
nothing of this module is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, NamedSharding, PartitionSpec

AXIS = "devices"
"""The only axis of a mesh."""
EVERYWHERE = PartitionSpec()
BY_ENVIRONMENT = PartitionSpec(None, AXIS)
"""Columns of the replay, ``[R, N, ...]``."""
BY_POSITION = PartitionSpec(AXIS)
"""Arrays of a batch, ``[B, ...]``."""

NOT_ADDED = (jnp.bool_, jnp.int16)
"""Types of columns that devices do not add: NCCL has no sums of them."""


def mesh_of(count: int) -> Mesh | None:
    """Return a mesh of the first ``count`` local devices; None for one device."""
    return None if count == 1 else Mesh(np.array(jax.local_devices()[:count]), (AXIS,))


def replicated(mesh: Mesh | None, shapes: Any) -> Any:
    """Return shapes of arrays that every device holds; the same shapes without a mesh."""
    if mesh is None:
        return shapes
    return jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=everywhere(mesh)), shapes
    )


def everywhere(mesh: Mesh | None) -> NamedSharding | None:
    """Return the place of arrays that every device holds; None without a mesh."""
    return None if mesh is None else NamedSharding(mesh, EVERYWHERE)


def by_environment(mesh: Mesh | None) -> NamedSharding | None:
    """Return where new columns ``[R, N, ...]`` are: divided by environment; None without a mesh."""
    return None if mesh is None else NamedSharding(mesh, BY_ENVIRONMENT)


def keep_everywhere(mesh: Mesh | None, tree: Any) -> Any:
    """Return arrays of a traced function, of which every device holds the whole."""
    return tree if mesh is None else _constrained(mesh, tree, lambda _: EVERYWHERE)


def keep_columns(mesh: Mesh | None, tree: Any) -> Any:
    """Return columns ``[R, N, ...]`` of a traced function, divided by environment.

    Every device holds whatever has no such axes.
    """
    if mesh is None:
        return tree
    return _constrained(mesh, tree, lambda x: BY_ENVIRONMENT if x.ndim > 1 else EVERYWHERE)


def divide_batch(mesh: Mesh | None, tree: Any) -> Any:
    """Return arrays ``[B, ...]`` of a traced function, divided by :func:`positions`."""
    return tree if mesh is None else _constrained(mesh, tree, lambda x: positions(mesh, x))


def _constrained(mesh: Mesh, tree: Any, spec: Callable[[Any], PartitionSpec]) -> Any:
    return jax.tree.map(
        lambda x: jax.lax.with_sharding_constraint(x, NamedSharding(mesh, spec(x))), tree
    )


def positions(mesh: Mesh, x: Array) -> PartitionSpec:
    """Return how an array ``[B, ...]`` is divided.

    By position; if the devices do not divide B, every one holds the whole.
    """
    return BY_POSITION if x.shape[0] % mesh.size == 0 else EVERYWHERE


def gather_sharded(mesh: Mesh, columns: Any, slots: Array, envs: Array) -> Any:
    """Return the rows at ``[slots, envs]`` of columns that are divided by environment.

    Each device looks up all rows, with zeros for those of other devices, and receives the sum of
    its share of the batch (a reduce-scatter). So what moves is the batch, never a column.

    Args:
        mesh: The devices.
        columns: A tree of ``[R, N, ...]``.
        slots: ``[B, ...]``.
        envs: ``[B, ...]``.
    """
    out = positions(mesh, slots)

    def share(shard: Array, slots: Array, envs: Array) -> Array:
        count = shard.shape[1]
        mine = envs - jax.lax.axis_index(AXIS) * count
        own = (mine >= 0) & (mine < count)
        # The barrier prevents fusion with later operations, which would look up each pixel alone.
        rows = jax.lax.optimization_barrier(shard[slots, jnp.clip(mine, 0, count - 1)])
        own = own.reshape(*own.shape, *(1 for _ in shard.shape[2:]))
        rows = jnp.where(own, rows, jnp.zeros((), rows.dtype))
        numbers = rows.astype(jnp.int32) if rows.dtype in NOT_ADDED else rows
        total: Array
        if out == EVERYWHERE:
            total = jax.lax.psum(numbers, AXIS)
        else:
            total = jax.lax.psum_scatter(numbers, AXIS, scatter_dimension=0, tiled=True)
        return total.astype(rows.dtype)

    return jax.shard_map(
        lambda shards, *places: jax.tree.map(lambda shard: share(shard, *places), shards),
        mesh=mesh,
        in_specs=(BY_ENVIRONMENT, EVERYWHERE, EVERYWHERE),
        out_specs=out,
    )(columns, slots, envs)
