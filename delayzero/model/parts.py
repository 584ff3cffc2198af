"""The parts that the networks share: heads, dynamics of images, projector and predictor.

Every part takes ``train`` as its last argument: whether batch normalisation uses the statistics of
the batch.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import Array

from delayzero.actions import ActionSpec, Queue
from delayzero.model.layers import (
    LSTM,
    Conv,
    ConvNorm,
    Linear,
    LSTMInput,
    Memory,
    Norm,
    NormKind,
    ResidualBlock,
)
from delayzero.settings import ActionCode


class Prediction(NamedTuple):
    """The policy and the value that the model predicts for a latent state.

    Attributes:
        policy_logits: ``[B, A]``, float32.
        value_logits: ``[B, bins]``, float32.
        end_logits: The logit of the probability that the return ended with the step to this state,
            ``[B]``, float32; None for a model that does not predict ends.
    """

    policy_logits: Array
    value_logits: Array
    end_logits: Array | None = None


class Perceptron(nn.Module):
    """Linear layers with normalisation and ReLU between them; the input is flattened.

    Attributes:
        widths: The size of each layer's output.
        norm: The kind of normalisation.
        norm_last: Whether the last layer is normalised too (no ReLU follows it).
        logits: Whether the last layer outputs logits, see
            :class:`~delayzero.model.layers.Linear`.
    """

    widths: tuple[int, ...]
    norm: NormKind = "batch"
    norm_last: bool = False
    logits: bool = False
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x: Array, train: bool) -> Array:
        x = x.reshape(x.shape[0], -1)
        for width in self.widths[:-1]:
            x = Linear(width, dtype=self.dtype)(x)
            x = nn.relu(Norm(self.norm, self.dtype)(x, train))
        x = Linear(self.widths[-1], logits=self.logits, dtype=self.dtype)(x)
        return Norm(self.norm, self.dtype)(x, train) if self.norm_last else x


class Flatten(nn.Module):
    """Latents as vectors ``[B, D]``; a 1x1 convolution first reduces the channels of an image.

    Attributes:
        channels: The number of channels to which an image is reduced.
    """

    channels: int = 16
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x: Array, train: bool) -> Array:
        if x.ndim == 4:
            x = Conv(self.channels, size=1, dtype=self.dtype)(x)
            x = nn.relu(Norm("batch", self.dtype)(x, train))
        return x.reshape(x.shape[0], -1)


class Head(nn.Module):
    """Logits ``[B, outputs]`` from a latent; all equal before training."""

    outputs: int
    width: int
    channels: int = 16
    norm: NormKind = "batch"
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, latent: Array, train: bool) -> Array:
        x = Flatten(self.channels, self.dtype)(latent, train)
        layers = (self.width, self.outputs)
        return Perceptron(layers, self.norm, logits=True, dtype=self.dtype)(x, train)


RARE_END = 4.0
"""Subtracted from the logits of ends: before training their probability is 0.018, not 0.5."""


class PredictionNet(nn.Module):
    """Policy, value and perhaps the end of a latent: shared residual blocks, then one head each.

    Attributes:
        actions: The action space.
        bins: The size of the value's support.
        width: The hidden size of the heads.
        channels: The number of channels of an image that reach the heads.
        blocks: The number of shared residual blocks; only for images.
        predicts_ends: Whether there is a head for ends.
    """

    actions: ActionSpec
    bins: int
    width: int
    channels: int = 16
    blocks: int = 0
    norm: NormKind = "batch"
    dtype: Any = jnp.float32
    predicts_ends: bool = False

    @nn.compact
    def __call__(self, latent: Array, train: bool) -> Prediction:
        x = latent
        for _ in range(self.blocks):
            x = ResidualBlock(x.shape[-1], dtype=self.dtype)(x, train)
        sizes = (self.width, self.channels, self.norm, self.dtype)
        policy = Head(self.actions.count, *sizes, name="policy")(x, train)
        value = Head(self.bins, *sizes, name="value")(x, train)
        if not self.predicts_ends:
            return Prediction(policy, value)
        return Prediction(policy, value, Head(1, *sizes, name="ends")(x, train)[:, 0] - RARE_END)


class PrefixNet(nn.Module):
    """Logits of the value prefix: the sum of rewards since the memory was last zero.

    Attributes:
        bins: The size of the support.
        memory_size: The size of the LSTM.
        width: The hidden size after the LSTM.
        channels: The number of channels of an image that reach the LSTM.
    """

    bins: int
    memory_size: int
    width: int
    channels: int = 16
    norm: NormKind = "batch"
    dtype: Any = jnp.float32

    def setup(self) -> None:
        self.flatten = Flatten(self.channels, self.dtype)
        self.lstm_input = LSTMInput(self.memory_size, self.dtype)
        self.lstm = LSTM(self.memory_size, self.dtype)
        self.out_norm = Norm(self.norm, self.dtype)
        layers = (self.width, self.bins)
        self.out = Perceptron(layers, self.norm, logits=True, dtype=self.dtype)

    def __call__(self, latent: Array, memory: Memory, train: bool) -> tuple[Array, Memory]:
        memory = self.next_memory(self.input_gates(latent, train), memory)
        return self.logits(memory[0], train), memory

    def input_gates(self, latent: Array, train: bool) -> Array:
        """Return the latents' contribution to the LSTM's gates, ``[B, 4 * memory_size]``."""
        gates: Array = self.lstm_input(self.flatten(latent, train))
        return gates

    def next_memory(self, gates: Array, memory: Memory) -> Memory:
        """Return the memory after one LSTM step, from :meth:`input_gates`."""
        following: Memory = self.lstm(gates, memory)
        return following

    def logits(self, hidden: Array, train: bool) -> Array:
        """Return the logits of the prefix, ``[B, bins]``, from the memory's hidden state."""
        logits: Array = self.out(nn.relu(self.out_norm(hidden, train)), train)
        return logits


def encode_actions(action: Array, actions: ActionSpec, code: ActionCode) -> Array:
    """Encode actions as network inputs, ``[B, P]``.

    Args:
        action: ``[B]``.
        actions: The action space.
        code: ``"plane"``: the single number a / A, as in EfficientZero; actions with neighbouring
            indices look alike, whatever they do. ``"one_hot"``: one number for each action.
    """
    if code == "plane":
        return (action / actions.count)[:, None]
    return jax.nn.one_hot(action, actions.count)


class ImageDynamics(nn.Module):
    """Dynamics of latent images ``[B, H, W, C]``.

    Attributes:
        actions: The action space.
        action_code: See :func:`encode_actions`; each number becomes a plane.
        blocks: The number of residual blocks.
    """

    actions: ActionSpec
    action_code: ActionCode = "one_hot"
    blocks: int = 1
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, latent: Array, action: Array, train: bool) -> Array:
        code = encode_actions(action, self.actions, self.action_code)
        x = ConvNorm(latent.shape[-1], dtype=self.dtype)(latent, train, code)
        x = nn.relu(x + latent)
        for _ in range(self.blocks):
            x = ResidualBlock(x.shape[-1], dtype=self.dtype)(x, train)
        return x


class QueueFusion(nn.Module):
    """Latents that include the pending actions and their number.

    Attributes:
        actions: The action space.
        width: The size of the queue's embedding.
        norm: The normalisation of the embedding and of latent vectors.
    """

    actions: ActionSpec
    width: int = 64
    norm: NormKind = "batch"
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, latent: Array, queue: Queue, train: bool) -> Array:
        empty = self.actions.count  # one more class, for empty slots
        slots = jnp.where(queue.mask, queue.action, empty)
        slots = jax.nn.one_hot(slots, empty + 1).reshape(slots.shape[0], -1)
        delay = jnp.mean(queue.mask, axis=1, keepdims=True)
        code = jnp.concatenate([slots, delay], axis=-1).astype(latent.dtype)
        code = Linear(self.width, dtype=self.dtype)(code)
        code = nn.relu(Norm(self.norm, self.dtype)(code, train))
        if latent.ndim == 2:
            change = Linear(latent.shape[-1], dtype=self.dtype)(
                jnp.concatenate([latent, code], axis=-1)
            )
            return Norm(self.norm, self.dtype)(latent + change, train)
        planes = jnp.broadcast_to(code[:, None, None], (*latent.shape[:3], self.width))
        change = Conv(latent.shape[-1], size=1, dtype=self.dtype)(
            jnp.concatenate([latent, planes], axis=-1)
        )
        return nn.relu(latent + Norm("batch", self.dtype)(change, train))
