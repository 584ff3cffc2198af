"""A small model for vectors, with layer normalisation."""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from jax import Array

from delayzero.actions import ActionSpec
from delayzero.model.layers import Linear, Norm
from delayzero.model.parts import Perceptron, PredictionNet, PrefixNet, encode_actions
from delayzero.model.scalars import Support
from delayzero.model.world_model import WorldModel
from delayzero.settings import ActionCode


class VectorDynamics(nn.Module):
    """Dynamics of latent vectors ``[B, D]``: the latent plus a predicted change, normalised.

    Attributes:
        actions: The action space.
        width: The size of every hidden layer.
        action_code: See :func:`~delayzero.model.parts.encode_actions`.
    """

    actions: ActionSpec
    width: int
    action_code: ActionCode = "one_hot"
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, latent: Array, action: Array, train: bool) -> Array:
        code = encode_actions(action, self.actions, self.action_code)
        x = jnp.concatenate([latent, code.astype(latent.dtype)], axis=-1)
        for _ in range(2):
            x = nn.relu(Norm("layer", self.dtype)(Linear(self.width, dtype=self.dtype)(x), train))
        x = latent + Linear(latent.shape[-1], dtype=self.dtype)(x)
        return Norm("layer", self.dtype)(x, train)


def mlp_model(
    actions: ActionSpec, support: Support, latent: int, width: int, memory: int, dtype: Any
) -> WorldModel:
    """Build the model for vectors.

    Args:
        actions: The action space.
        support: The support of value and value prefix.
        latent: The size of the latent state.
        width: The size of every hidden layer.
        memory: The size of the LSTM.
        dtype: The data type of latents and memory.
    """
    common: dict[str, Any] = {"norm": "layer", "dtype": dtype}
    return WorldModel(
        encoder=Perceptron((width, latent), norm_last=True, **common),
        dynamics=VectorDynamics(actions, width, dtype=dtype),
        prefix=PrefixNet(support.bins, memory, width, **common),
        prediction=PredictionNet(actions, support.bins, width, **common),
        projector=Perceptron((width, width), norm_last=True, **common),
        predictor=Perceptron((width // 2, width), **common),
        actions=actions,
        support=support,
        memory_size=memory,
        dtype=dtype,
    )
