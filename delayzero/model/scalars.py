"""Scalars as categories: the value transform and the two-hot support of value and prefix heads."""

from __future__ import annotations

from dataclasses import dataclass

import chex
import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

EPSILON = 0.001
"""The linear part of the transform; it makes the inverse Lipschitz."""
NEGLIGIBLE = 0.001
"""Decoded scalars of smaller magnitude become 0."""


def transform(x: ArrayLike) -> Array:
    """Compress a scalar: h(x) = sign(x) (sqrt(|x| + 1) - 1) + 0.001 x.

    Written as x (1 / (sqrt(|x| + 1) + 1) + 0.001), which does not cancel for small x.
    """
    x = jnp.asarray(x, jnp.float32)
    return x * (1 / (jnp.sqrt(jnp.abs(x) + 1) + 1) + EPSILON)


def inverse_transform(y: ArrayLike) -> Array:
    """Undo :func:`transform`.

    For y >= 0 let v = sqrt(x + 1) - 1. Then x = v (v + 2) and 0.001 v^2 + 1.002 v - y = 0. The
    positive root is computed in the form whose denominator only adds. The textbook form subtracts
    nearly equal numbers twice and loses all digits of a small y in float32.
    """
    y = jnp.asarray(y, jnp.float32)
    slope = 1 + 2 * EPSILON
    v = 2 * jnp.abs(y) / (slope + jnp.sqrt(slope**2 + 4 * EPSILON * jnp.abs(y)))
    return jnp.sign(y) * v * (v + 2)


@dataclass(frozen=True)
class Support:
    """The integers -size..size; a scalar is encoded as weights on the two nearest ones.

    Attributes:
        size: The largest magnitude, after the transform, that can be represented.
    """

    size: int = 300

    @property
    def bins(self) -> int:
        """The number of integers."""
        return 2 * self.size + 1

    def two_hot(self, x: ArrayLike) -> Array:
        """Return weights on the two nearest integers, whose mean is ``x``.

        Args:
            x: Transformed scalars ``[...]``, clipped to [-size, size].

        Returns:
            Weights ``[..., bins]``, float32.
        """
        low, weight = self._locate(x)
        below = jax.nn.one_hot(low, self.bins) * (1 - weight)[..., None]
        return below + jax.nn.one_hot(low + 1, self.bins) * weight[..., None]

    def cross_entropy(self, logits: Array, x: ArrayLike) -> Array:
        """Return the cross entropy to ``two_hot(transform(x))`` without building that array.

        Args:
            logits: ``[..., bins]``.
            x: Raw scalars ``[...]``.

        Returns:
            The cross entropies ``[...]``, float32.
        """
        chex.assert_shape(logits, (*jnp.shape(x), self.bins))
        low, weight = self._locate(transform(x))
        log_p = jax.nn.log_softmax(logits.astype(jnp.float32))
        below = jnp.take_along_axis(log_p, low[..., None], axis=-1)[..., 0]
        above = jnp.take_along_axis(log_p, low[..., None] + 1, axis=-1)[..., 0]
        return -((1 - weight) * below + weight * above)

    def decode(self, logits: Array) -> Array:
        """Decode logits ``[..., bins]`` to raw scalars ``[...]``, float32."""
        chex.assert_axis_dimension(logits, -1, self.bins)
        p = jax.nn.softmax(logits.astype(jnp.float32))
        integers = jnp.arange(-self.size, self.size + 1, dtype=jnp.float32)
        # Not a matrix product: a GPU may round its inputs, and the integers reach 300.
        x = inverse_transform(jnp.sum(p * integers, axis=-1))
        return jnp.where(jnp.abs(x) < NEGLIGIBLE, 0.0, x)

    def _locate(self, x: ArrayLike) -> tuple[Array, Array]:
        """Return the bin below each transformed scalar, and the weight of the bin above it."""
        position = jnp.clip(jnp.asarray(x, jnp.float32), -self.size, self.size) + self.size
        low = jnp.minimum(jnp.floor(position), self.bins - 2)
        return low.astype(jnp.int32), position - low
