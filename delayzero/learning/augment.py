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
    batch, _, height, width, channels = frames.shape
    shift_key, intensity_key = jax.random.split(key)
    offsets = jax.random.randint(shift_key, (batch, 2), -SHIFT, SHIFT + 1)
    rows = jnp.clip(jnp.arange(height) + offsets[:, :1], 0, height - 1)
    columns = jnp.clip(jnp.arange(width) + offsets[:, 1:], 0, width - 1)

    def shifted(image: Array, row: Array, column: Array) -> Array:
        return image[row][:, column]

    moved = from_words(jax.vmap(shifted)(to_words(frames), rows, columns), channels)
    noise = jnp.clip(jax.random.normal(intensity_key, (batch, 1, 1, 1, 1)), -2, 2)
    scale = (1 + INTENSITY * noise) / 255
    # Apart from what follows: fused with it, a pixel would be looked up again for each use.
    changed = jax.lax.optimization_barrier(moved.astype(dtype) * scale.astype(dtype))
    return jnp.moveaxis(changed, 3, 1)


def to_words(frames: Array) -> Array:
    """The channels of each pixel in words of four bytes, ``[B, F, H, W, C]`` to ``[B, H, W, n]``.

    Shifts look up where every number comes from, and there are fewer words than bytes. The frames
    of a pixel stand side by side, as convolutions want them.
    """
    missing = -frames.shape[-1] % 4
    padded = jnp.pad(frames, (*((0, 0) for _ in range(4)), (0, missing)))
    quarters = padded.reshape(*padded.shape[:-1], -1, 4)
    words = jax.lax.bitcast_convert_type(quarters, jnp.uint32)  # [B, F, H, W, words]
    words = jnp.moveaxis(words, 1, 3)
    return words.reshape(*words.shape[:3], -1)


def from_words(words: Array, channels: int) -> Array:
    """The channels of each pixel again, ``[B, H, W, F, C]``."""
    # Whole words are looked up first: fused with this, each byte would look up its own.
    apart = jax.lax.bitcast_convert_type(jax.lax.optimization_barrier(words), jnp.uint8)
    padded = channels + -channels % 4
    return apart.reshape(*words.shape[:3], -1, padded)[..., :channels]
