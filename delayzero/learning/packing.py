"""Many small arrays in one."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

SMALL = 4096
"""Numbers up to which an array is small."""


class Packed(NamedTuple):
    """A tree of arrays."""

    small: Array
    """All small arrays of float32, one behind the other, ``[n]``."""
    others: list[Array]


class Packing:
    """Keeps the small arrays of a tree in one vector, and takes them out again.

    What changes every one of them costs a GPU as many launches as there are arrays, of some
    microseconds each, whatever their size; in a vector it costs one. Reading a piece of it costs
    nothing.
    """

    def __init__(self, example: Any) -> None:
        """Know the shapes of a tree's arrays."""
        leaves, self._form = jax.tree.flatten(example)
        self._shapes = [leaf.shape for leaf in leaves]
        self._small = [
            leaf.dtype == jnp.float32 and math.prod(leaf.shape) <= SMALL for leaf in leaves
        ]

    def pack(self, tree: Any) -> Packed:
        """A tree like the example, packed."""
        pairs = list(zip(self._small, jax.tree.leaves(tree), strict=True))
        pieces = [leaf.reshape(-1) for small, leaf in pairs if small]
        vector = jnp.concatenate(pieces) if pieces else jnp.zeros(0)
        return Packed(vector, [leaf for small, leaf in pairs if not small])

    def unpack(self, packed: Packed) -> Any:
        """The tree."""
        others, leaves, begin = iter(packed.others), [], 0
        for small, shape in zip(self._small, self._shapes, strict=True):
            if small:
                end = begin + math.prod(shape)
                leaves.append(packed.small[begin:end].reshape(shape))
                begin = end
            else:
                leaves.append(next(others))
        return jax.tree.unflatten(self._form, leaves)
