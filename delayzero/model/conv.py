"""A small model for small images, such as MinAtar's 10x10; it trains on a CPU."""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from jax import Array

from delayzero.actions import ActionSpec
from delayzero.model.layers import ConvNorm, ResidualBlock
from delayzero.model.parts import ImageDynamics, Perceptron, PredictionNet, PrefixNet
from delayzero.model.scalars import Support
from delayzero.model.world_model import WorldModel


class ConvEncoder(nn.Module):
    """Encoder from images ``[B, H, W, S * C]`` to latents ``[B, H / 2, W / 2, channels]``."""

    channels: int
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x: Array, train: bool) -> Array:
        x = nn.relu(ConvNorm(self.channels // 2, dtype=self.dtype)(x, train))
        x = nn.relu(ConvNorm(self.channels, stride=2, dtype=self.dtype)(x, train))
        return ResidualBlock(self.channels, dtype=self.dtype)(x, train)


def conv_model(
    actions: ActionSpec, support: Support, channels: int, head: int, memory: int, dtype: Any
) -> WorldModel:
    """Build the model for small images.

    Args:
        actions: The action space.
        support: The support of value and value prefix.
        channels: The number of channels of the latent image.
        head: The size of the hidden layers of heads, projector and predictor.
        memory: The size of the LSTM.
        dtype: The data type of latents and memory.
    """
    common: dict[str, Any] = {"channels": 8, "dtype": dtype}
    return WorldModel(
        encoder=ConvEncoder(channels, dtype),
        dynamics=ImageDynamics(actions, dtype=dtype),
        prefix=PrefixNet(support.bins, memory, head, **common),
        prediction=PredictionNet(actions, support.bins, head, **common),
        projector=Perceptron((head, head), norm_last=True, dtype=dtype),
        predictor=Perceptron((head // 2, head), dtype=dtype),
        actions=actions,
        support=support,
        memory_size=memory,
        dtype=dtype,
    )
