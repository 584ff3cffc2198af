"""The decoder: frames from latents. It trains latents to keep what frames show; acting ignores it.

Policies, values and rewards say little about most objects, and the consistency loss compares
imagined latents with those of the same encoder, so it cannot restore what the encoder drops. A
decoded frame has to show every object at its place.
"""

from __future__ import annotations

from typing import Any

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import Array

from delayzero.model.layers import Conv
from delayzero.model.q_model import as_floats

DETAIL = 8
"""The most pixels along each side of a place of the latent image."""


class Decoder(nn.Module):
    """From latent images ``[B, h, w, F]`` to frames ``[B, h * detail, w * detail, channels]``.

    Attributes:
        channels: The number of channels of a frame.
        detail: Pixels along each side of a place of the latent image.
        width: The number of hidden channels.
    """

    channels: int
    detail: int
    width: int = 64
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, latent: Array) -> Array:
        (count, height, width), size = latent.shape[:3], self.detail
        x = nn.relu(Conv(self.width, dtype=self.dtype)(latent))
        x = Conv(size * size * self.channels, size=1, dtype=self.dtype)(x).astype(jnp.float32)
        x = x.reshape(count, height, width, size, size, self.channels).swapaxes(2, 3)
        x = x.reshape(count, height * size, width * size, self.channels)
        # What is the same in all frames need not be in the latents.
        return x + self.param("background", nn.initializers.zeros, x.shape[1:])


def detail_of(image: int, latent: int) -> int:
    """Return the detail of a decoder, from the heights of observations and latents."""
    return min(DETAIL, -(-image // latent))


def resized(frames: Array, shape: tuple[int, ...]) -> Array:
    """Resize frames ``[..., H, W, C]`` to ``[..., *shape]``: linear, antialiased, in float32.

    Frames of uint8 are pixels and are divided by 255.
    """
    chex.assert_equal(frames.shape[-1], shape[-1])
    smaller: Array = jax.image.resize(as_floats(frames), (*frames.shape[:-3], *shape), "linear")
    return smaller
