"""The world model: six networks behind one interface, for all kinds of observations."""

from __future__ import annotations

from typing import Any

import chex
import flax.linen as nn
import jax.numpy as jnp
from jax import Array

from delayzero.actions import ActionSpec, Queue
from delayzero.model.layers import Memory, scale_to_unit
from delayzero.model.parts import Prediction, PredictionNet, PrefixNet
from delayzero.model.scalars import Support


class WorldModel(nn.Module):
    """A latent model of the environment with EfficientZero's structure.

    An encoder maps a stack of observations to a latent state, the dynamics move it by actions, and
    heads predict its policy, its value and its value prefix (the sum of rewards since the memory
    was zero).

    ::

        variables = model.init(key, observation, action, method="everything")
        latent = model.bind(variables).represent(observation)

    Training uses ``model.clone(train=True)``: it has the same parameters, but batch normalisation
    uses the statistics of each batch, and every call updates the running ones in ``batch_stats``.

    Attributes:
        encoder: From images ``[B, H, W, S * C]`` or vectors ``[B, S * D]`` to latents.
        dynamics: From latents and actions ``[B]`` to the next latents.
        prefix: From latents and memory to prefix logits and the next memory.
        prediction: From latents to a :class:`Prediction`.
        projector: From latents to ``[B, P]``, where consistency is measured.
        predictor: From ``[B, P]`` to ``[B, P]``, on the side of the dynamics only.
        queue: From latents and the pending actions to latents that include them; None for models
            of the environment alone.
        decoder: From latents to frames; None for models that decode none.
        actions: The action space.
        support: The support of the value and of the value prefix.
        memory_size: The size H of the memory.
        scales: Whether every latent, encoded or imagined, is scaled to [0, 1]. Without scaling,
            imagined latents may drift away from encoded ones, and batch normalisation hides the
            drift from all losses. Such a model fails outside training, and beyond the number of
            steps unrolled in training.
        dtype: The data type of latents and memory. Parameters and logits are float32.
        train: Whether batch normalisation uses the statistics of the batch or the running ones.
    """

    encoder: nn.Module
    dynamics: nn.Module
    prefix: PrefixNet
    prediction: PredictionNet
    projector: nn.Module
    predictor: nn.Module
    actions: ActionSpec
    support: Support
    memory_size: int
    queue: nn.Module | None = None
    decoder: nn.Module | None = None
    scales: bool = False
    dtype: Any = jnp.float32
    train: bool = False

    @property
    def predicts_ends(self) -> bool:
        """Whether a :class:`Prediction` has the probability of an end."""
        return self.prediction.predicts_ends

    def represent(self, observation: Array, queue: Queue | None = None) -> Array:
        """Encode observations.

        Args:
            observation: Stacks ``[B, S, *shape]`` of vectors or images, the oldest first. Those in
                uint8 are pixels and are divided by 255; other data types are not rescaled.
            queue: The pending actions, ``[B, W]``, for a model that sees them.

        Returns:
            Latents ``[B, ...]``.
        """
        chex.assert_rank(observation, {3, 5})
        latent: Array = self.encoder(self._input(observation), self.train)
        if self.queue is not None:
            assert queue is not None, "this model needs the pending actions: pass a queue"
            chex.assert_shape([queue.action, queue.mask], (observation.shape[0], queue.width))
            latent = self.queue(latent, queue, self.train)
        return self._in_range(latent)

    def _input(self, frames: Array) -> Array:
        """Join frames ``[B, F, *shape]`` to the encoder's input."""
        x = frames.astype(self.dtype)
        if frames.dtype == jnp.uint8:
            x = x / 255
        if x.ndim == 5:
            batch, count, height, width, channels = x.shape
            return jnp.moveaxis(x, 1, 3).reshape(batch, height, width, count * channels)
        return x.reshape(x.shape[0], -1)

    def _in_range(self, latent: Array) -> Array:
        return scale_to_unit(latent) if self.scales else latent

    def step(self, latent: Array, action: Array) -> Array:
        """Predict the next latents ``[B, ...]`` after the actions ``[B]``."""
        _assert_latents(latent)
        chex.assert_shape(action, latent.shape[:1])
        chex.assert_type(action, int)
        return self._in_range(self.dynamics(latent, action, self.train))

    def value_prefix(self, latent: Array, memory: Memory) -> tuple[Array, Memory]:
        """Predict the value prefix up to these latents.

        Args:
            latent: ``[B, ...]``.
            memory: The memory before them, each ``[B, H]``.

        Returns:
            The logits of the value prefix, ``[B, bins]``, and the next memory.
        """
        _assert_latents(latent)
        chex.assert_shape(list(memory), (latent.shape[0], self.memory_size))
        logits, memory = self.prefix(latent, memory, self.train)
        return logits, memory

    def prefix_input(self, latent: Array) -> Array:
        """Return the latents' contribution to the gates of the prefix memory, ``[B, 4 * H]``.

        With :meth:`prefix_memory` and :meth:`prefix_logits` it is :meth:`value_prefix` in three
        steps.
        """
        _assert_latents(latent)
        gates: Array = self.prefix.input_gates(latent, self.train)
        return gates

    def prefix_memory(self, gates: Array, memory: Memory) -> Memory:
        """Return the next memory of the prefix, each ``[B, H]``, from :meth:`prefix_input`."""
        chex.assert_shape(gates, (None, 4 * self.memory_size))
        chex.assert_shape(list(memory), (gates.shape[0], self.memory_size))
        following: Memory = self.prefix.next_memory(gates, memory)
        return following

    def prefix_logits(self, hidden: Array) -> Array:
        """Return the value prefix as logits ``[B, bins]``, from the hidden state ``[B, H]``."""
        chex.assert_shape(hidden, (None, self.memory_size))
        logits: Array = self.prefix.logits(hidden, self.train)
        return logits

    def predict(self, latent: Array) -> Prediction:
        """Predict policy and value of latents ``[B, ...]``, and whether an end led to them."""
        _assert_latents(latent)
        prediction: Prediction = self.prediction(latent, self.train)
        return prediction

    def project(self, latent: Array) -> Array:
        """Project latents to ``[B, P]``; the caller stops the gradient of a target."""
        _assert_latents(latent)
        projection: Array = self.projector(latent, self.train)
        return projection

    def predict_projection(self, projection: Array) -> Array:
        """Predict the target's projection ``[B, P]`` from that of imagined latents."""
        chex.assert_rank(projection, 2)
        prediction: Array = self.predictor(projection, self.train)
        return prediction

    def decode(self, latent: Array) -> Array:
        """Decode latents ``[B, ...]`` to the newest frames that they stand for, ``[B, h, w, C]``.

        The frames have the decoder's resolution, not that of observations.
        """
        _assert_latents(latent)
        assert self.decoder is not None, "this model decodes no frames: build it with decodes=True"
        frames: Array = self.decoder(latent)
        return frames

    def initial_memory(self, batch_size: int) -> Memory:
        """Return the memory at the start of a prefix: zeros, each ``[batch_size, H]``."""
        zeros = jnp.zeros((batch_size, self.memory_size), self.dtype)
        return zeros, zeros

    def everything(
        self, observation: Array, action: Array, queue: Queue | None = None
    ) -> tuple[Array, Array, Memory, Prediction, Array]:
        """Run every part once; ``init`` traces this method.

        Returns:
            The next latents, prefix logits, memory, prediction and predicted projection.
        """
        latent = self.represent(observation, queue)
        latent = self.step(latent, action)
        if self.decoder is not None:
            self.decode(latent)
        logits, memory = self.value_prefix(latent, self.initial_memory(latent.shape[0]))
        projection = self.predict_projection(self.project(latent))
        return latent, logits, memory, self.predict(latent), projection


def _assert_latents(latent: Array) -> None:
    """Check that latents are a batch of vectors ``[B, D]`` or of images ``[B, H, W, C]``."""
    chex.assert_rank(latent, {2, 4})
