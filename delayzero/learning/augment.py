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
    batch, _, height, width, _ = frames.shape
    shift_key, intensity_key = jax.random.split(key)
    offsets = jax.random.randint(shift_key, (batch, 2), -SHIFT, SHIFT + 1)
    rows = jnp.clip(jnp.arange(height) + offsets[:, :1], 0, height - 1)
    columns = jnp.clip(jnp.arange(width) + offsets[:, 1:], 0, width - 1)

    def shifted(image: Array, row: Array, column: Array) -> Array:
        return image[:, row][:, :, column]

    moved = jax.vmap(shifted)(frames, rows, columns)
    noise = jnp.clip(jax.random.normal(intensity_key, (batch, 1, 1, 1, 1)), -2, 2)
    scale = (1 + INTENSITY * noise) / 255
    # Apart from what follows, for the same reason as gathered frames.
    changed: Array = jax.lax.optimization_barrier(moved.astype(dtype) * scale.astype(dtype))
    return changed
