"""Random changes to images that should not change what they mean."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

SHIFT = 4
INTENSITY = 0.05


def augmented(key: Array, frames: Array, dtype: Any) -> Array:
    """Pixels shifted by up to 4 and scaled by about 5 %, the same for all frames of a sample.

    Args:
        key: A random key.
        frames: Bytes, ``[B, F, H, W, C]``.
        dtype: Of the result.

    Returns:
        Numbers around [0, 1], ``[B, F, H, W, C]``. What a shift uncovers repeats the edge.
    """
    batch, count, height, width, channels = frames.shape
    shift_key, intensity_key = jax.random.split(key)
    offsets = jax.random.randint(shift_key, (batch, 2), -SHIFT, SHIFT + 1)
    rows = jnp.clip(jnp.arange(height) + offsets[:, :1], 0, height - 1)
    columns = jnp.clip(jnp.arange(width) + offsets[:, 1:], 0, width - 1)

    def shifted(image: Array, row: Array, column: Array) -> Array:
        return image[row][:, column]

    moved = from_words(jax.vmap(shifted)(to_words(frames), rows, columns))
    noise = jnp.clip(jax.random.normal(intensity_key, (batch, 1, 1, 1)), -2, 2)
    scale = (1 + INTENSITY * noise) / 255
    # Apart from what follows, for the same reason as gathered frames.
    changed = jax.lax.optimization_barrier(moved.astype(dtype) * scale.astype(dtype))
    return jnp.moveaxis(changed.reshape(batch, height, width, count, channels), 3, 1)


def to_words(frames: Array) -> Array:
    """All bytes of a pixel, of all frames, in words of four, from ``[B, F, H, W, C]``.

    Shifts look up where every number comes from; in words there is a quarter of them. Where the
    bytes do not come out even each is a word of its own.
    """
    pixels = jnp.moveaxis(frames, 1, 3).reshape(frames.shape[0], *frames.shape[2:4], -1)
    size = pixels.shape[-1]
    if size % 4:
        return pixels
    quarters = pixels.reshape(*pixels.shape[:-1], size // 4, 4)
    words: Array = jax.lax.optimization_barrier(jax.lax.bitcast_convert_type(quarters, jnp.uint32))
    return words


def from_words(words: Array) -> Array:
    """The bytes of words, ``[B, H, W, F * C]``."""
    if words.dtype == jnp.uint8:
        return words
    apart = jax.lax.bitcast_convert_type(jax.lax.optimization_barrier(words), jnp.uint8)
    return apart.reshape(*apart.shape[:-2], -1)
