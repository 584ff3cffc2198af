"""EfficientZero's network for Atari, layer by layer as published.

Two parts of the published code never receive a gradient and are omitted here: a convolution in the
encoder and a second stack of residual blocks in the dynamics.
"""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from jax import Array

from delayzero.actions import ActionSpec
from delayzero.model.layers import ConvNorm, ResidualBlock, mean_pool
from delayzero.model.parts import ImageDynamics, Perceptron, PredictionNet, PrefixNet
from delayzero.model.scalars import Support
from delayzero.model.world_model import WorldModel

MEMORY = 512
HEAD = 32
PROJECTION = 1024


class AtariEncoder(nn.Module):
    """Encoder from images ``[B, 96, 96, S * C]`` to latents ``[B, 6, 6, 64]``."""

    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x: Array, train: bool) -> Array:
        x = nn.relu(ConvNorm(32, stride=2, dtype=self.dtype)(x, train))
        x = ResidualBlock(32, dtype=self.dtype)(x, train)
        x = ResidualBlock(64, stride=2, dtype=self.dtype)(x, train)
        x = ResidualBlock(64, dtype=self.dtype)(x, train)
        x = mean_pool(x)
        x = ResidualBlock(64, dtype=self.dtype)(x, train)
        x = mean_pool(x)
        return ResidualBlock(64, dtype=self.dtype)(x, train)


def atari_model(actions: ActionSpec, support: Support, dtype: Any) -> WorldModel:
    """Build EfficientZero's model; it has 8.35 million parameters for 18 actions.

    Args:
        actions: The action space.
        support: The support of value and value prefix; its size is 300 in the paper.
        dtype: The data type of latents and memory.
    """
    return WorldModel(
        encoder=AtariEncoder(dtype),
        dynamics=ImageDynamics(actions, dtype=dtype),
        prefix=PrefixNet(support.bins, MEMORY, HEAD, dtype=dtype),
        prediction=PredictionNet(actions, support.bins, HEAD, blocks=1, dtype=dtype),
        projector=Perceptron((PROJECTION,) * 3, norm_last=True, dtype=dtype),
        predictor=Perceptron((PROJECTION // 2, PROJECTION), dtype=dtype),
        actions=actions,
        support=support,
        memory_size=MEMORY,
        dtype=dtype,
    )
