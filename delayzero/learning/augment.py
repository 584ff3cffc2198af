"""Image augmentation: random shifts and changes of intensity."""

from __future__ import annotations

from typing import Any

import chex
import jax
import jax.numpy as jnp
from jax import Array

SHIFT = 4
INTENSITY = 0.05


def augmented(key: Array, frames: Array, dtype: Any) -> Array:
    """Shift images by up to 4 pixels and scale them by about 5 %, alike in all frames of a sample.

    Args:
        key: A random key.
        frames: Pixels in uint8, ``[B, F, H, W, C]``.
        dtype: The data type of the result.

    Returns:
        Images with values around [0, 1], ``[B, F, H, W, C]``. Shifts repeat the edge pixels.
    """
    chex.assert_rank(frames, 5)
    chex.assert_type(frames, jnp.uint8)
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
    # The barrier prevents fusion with later operations, which would look up a pixel for each use.
    changed = jax.lax.optimization_barrier(moved.astype(dtype) * scale.astype(dtype))
    return jnp.moveaxis(changed, 3, 1)


def to_words(frames: Array) -> Array:
    """Pack the channels of pixels into 4-byte words, ``[B, F, H, W, C]`` to ``[B, H, W, n]``.

    A shift looks up every element, and there are fewer words than bytes. The frames of a pixel
    become adjacent, which is the layout that convolutions need.
    """
    missing = -frames.shape[-1] % 4
    padded = jnp.pad(frames, (*((0, 0) for _ in range(4)), (0, missing)))
    quarters = padded.reshape(*padded.shape[:-1], -1, 4)
    words = jax.lax.bitcast_convert_type(quarters, jnp.uint32)  # [B, F, H, W, words]
    words = jnp.moveaxis(words, 1, 3)
    return words.reshape(*words.shape[:3], -1)


def from_words(words: Array, channels: int) -> Array:
    """Unpack words ``[B, H, W, n]`` to the channels of pixels, ``[B, H, W, F, C]``."""
    # The barrier prevents fusion with the lookup of words, which would then be done for each byte.
    apart = jax.lax.bitcast_convert_type(jax.lax.optimization_barrier(words), jnp.uint8)
    padded = channels + -channels % 4
    return apart.reshape(*words.shape[:3], -1, padded)[..., :channels]
