"""The direct forecaster: the latent that a decision meets, in one call, whatever its delay.

Rolling the dynamics adds the errors of all steps up. This network maps the latent of an observation
and the actions since then to the latent after them, without the states in between. It is a small
transformer over one token for each place of a latent image (one in all for a vector) and one for
each action, in the spirit of DFBT (Wu et al., ICML 2025), which forecasts observations.
"""

from __future__ import annotations

import math
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import Array

from delayzero.actions import ActionSpec, Queue
from delayzero.model.layers import Linear, Norm

PERIOD = 1000.0
"""The longest period of the encoding of numbers of steps, over 2 pi."""


class Forecaster(nn.Module):
    """From latents ``[B, ...]`` and queues ``[B, W]`` to the latents after the queues' actions.

    The number of slots W may differ from call to call.

    Attributes:
        actions: The action space.
        width: The size of a token.
        layers: The number of layers of the transformer.
        heads: The number of attention heads.
    """

    actions: ActionSpec
    width: int = 128
    layers: int = 2
    heads: int = 4
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, latent: Array, queue: Queue, train: bool) -> Array:
        size, channels = latent.shape[0], latent.shape[-1]
        places = latent.reshape(size, -1, channels)
        count = places.shape[1]
        state = Linear(self.width, dtype=self.dtype, name="state")(places)
        where = self.param("places", nn.initializers.normal(0.02), (count, self.width))
        tokens = jnp.concatenate([state + where.astype(self.dtype), self._actions(queue)], axis=1)
        mask = jnp.concatenate([jnp.ones((size, count), bool), queue.mask], axis=1)
        for _ in range(self.layers):
            tokens = self._layer(tokens, mask, train)
        tokens = Norm("layer", self.dtype)(tokens[:, :count], train)
        change = Linear(channels, logits=True, dtype=self.dtype, name="change")(tokens)
        after = latent + change.astype(self.dtype).reshape(latent.shape)
        return Norm("layer", self.dtype)(after, train) if latent.ndim == 2 else nn.relu(after)

    def _actions(self, queue: Queue) -> Array:
        """Return a token for each slot, ``[B, W, width]``: its action, and when it runs."""
        since = jnp.broadcast_to(jnp.arange(queue.width), queue.mask.shape)
        left = queue.mask.sum(axis=1, keepdims=True) - since
        code = [
            jax.nn.one_hot(queue.action, self.actions.count),
            step_code(since, self.width // 4),
            step_code(left, self.width // 4),
        ]
        tokens: Array = Linear(self.width, dtype=self.dtype, name="actions")(
            jnp.concatenate(code, axis=-1)
        )
        return tokens

    def _layer(self, tokens: Array, mask: Array, train: bool) -> Array:
        """Apply attention and a perceptron, each on normalised tokens and added to them."""
        attention = nn.MultiHeadDotProductAttention(self.heads, dtype=self.dtype)
        normed = Norm("layer", self.dtype)(tokens, train)
        tokens = tokens + attention(normed, mask=mask[:, None, None, :])
        x = Linear(2 * self.width, dtype=self.dtype)(Norm("layer", self.dtype)(tokens, train))
        return tokens + Linear(self.width, dtype=self.dtype)(nn.relu(x))


def step_code(steps: Array, size: int) -> Array:
    """Encode numbers of steps ``[...]`` by sines and cosines, ``[..., size]``."""
    rates = jnp.exp(-math.log(PERIOD) * jnp.arange(size // 2) / (size // 2))
    angles = steps[..., None] * rates
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)
