"""The world model: six networks behind one interface, whatever the observations are."""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from jax import Array

from delayzero.actions import ActionSpec, Queue
from delayzero.model.layers import Memory, scale_to_unit
from delayzero.model.parts import Prediction, PrefixNet
from delayzero.model.scalars import Support


class WorldModel(nn.Module):
    """A latent model of the environment, of EfficientZero's form.

    A latent state is encoded from a stack of observations, moved by actions, and read by heads for
    the policy, the value and the value prefix (the sum of rewards since the memory was zero).

    ::

        variables = model.init(key, observation, action, method="everything")
        latent = model.bind(variables).represent(observation)

    Training takes ``model.clone(train=True)``: same parameters, but batch normalisation uses the
    statistics of each batch and updates the running ones in ``batch_stats``, at every call in turn.

    Attributes:
        encoder: From images ``[B, H, W, S * C]`` or vectors ``[B, S * D]`` to latents.
        dynamics: From latents and actions ``[B]`` to the next latents.
        prefix: From latents and memory to prefix logits and the next memory.
        prediction: From latents to a :class:`Prediction`.
        projector: From latents to ``[B, P]``, where consistency is measured.
        predictor: From ``[B, P]`` to ``[B, P]``, on the side of the dynamics only.
        queue: From latents and the pending actions to latents that know them; None for models of
            the environment alone.
        actions: What an action is.
        support: The support of the value and of the value prefix.
        memory_size: The size H of the memory.
        scales: Whether every latent, encoded or imagined, is scaled to [0, 1]. Batch normalisation
            hides it from all losses when imagined latents drift away from encoded ones; outside
            training, and beyond the steps that are unrolled in it, such a model is lost.
        dtype: Of latents and memory. Parameters and logits are float32.
        train: Whether batch normalisation uses the batch, or the running statistics.
    """

    encoder: nn.Module
    dynamics: nn.Module
    prefix: PrefixNet
    prediction: nn.Module
    projector: nn.Module
    predictor: nn.Module
    actions: ActionSpec
    support: Support
    memory_size: int
    queue: nn.Module | None = None
    scales: bool = False
    dtype: Any = jnp.float32
    train: bool = False

    def represent(self, observation: Array, queue: Queue | None = None) -> Array:
        """Encode observations.

        Args:
            observation: Stacks ``[B, S, *shape]``, the oldest first. Those in uint8 are pixels and
                are divided by 255; all others are taken as they are.
            queue: The pending actions, ``[B, W]``, for a model that sees them.

        Returns:
            Latents ``[B, ...]``.
        """
        latent: Array = self.encoder(self._input(observation), self.train)
        if self.queue is not None:
            assert queue is not None, "this model needs the pending actions"
            latent = self.queue(latent, queue, self.train)
        return self._in_range(latent)

    def _input(self, frames: Array) -> Array:
        """What the encoder sees of frames ``[B, F, *shape]``."""
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
        """The next latents after the actions ``[B]``."""
        return self._in_range(self.dynamics(latent, action, self.train))

    def value_prefix(self, latent: Array, memory: Memory) -> tuple[Array, Memory]:
        """The logits ``[B, bins]`` of the value prefix up to these latents, and the next memory."""
        logits, memory = self.prefix(latent, memory, self.train)
        return logits, memory

    def prefix_input(self, latent: Array) -> Array:
        """What latents add to the prefix memory; with the next two, value_prefix in three steps."""
        gates: Array = self.prefix.read(latent, self.train)
        return gates

    def prefix_memory(self, gates: Array, memory: Memory) -> Memory:
        """The next memory of the prefix, from :meth:`prefix_input`."""
        following: Memory = self.prefix.remember(gates, memory)
        return following

    def prefix_logits(self, hidden: Array) -> Array:
        """The logits of the value prefix, from the hidden state of its memory."""
        logits: Array = self.prefix.tell(hidden, self.train)
        return logits

    def predict(self, latent: Array) -> Prediction:
        """Policy and value of the latents."""
        prediction: Prediction = self.prediction(latent, self.train)
        return prediction

    def project(self, latent: Array) -> Array:
        """Project latents to ``[B, P]``; for a target the caller stops the gradient."""
        projection: Array = self.projector(latent, self.train)
        return projection

    def predict_projection(self, projection: Array) -> Array:
        """Predict the target's projection ``[B, P]`` from the dynamics' one."""
        prediction: Array = self.predictor(projection, self.train)
        return prediction

    def initial_memory(self, batch_size: int) -> Memory:
        """The memory at the beginning of a prefix: zeros, each ``[batch_size, H]``."""
        zeros = jnp.zeros((batch_size, self.memory_size), self.dtype)
        return zeros, zeros

    def everything(
        self, observation: Array, action: Array, queue: Queue | None = None
    ) -> tuple[Array, Array, Memory, Prediction, Array]:
        """Run every part once; what ``init`` traces.

        Returns:
            The next latents, prefix logits, memory, prediction and predicted projection.
        """
        latent = self.step(self.represent(observation, queue), action)
        logits, memory = self.value_prefix(latent, self.initial_memory(latent.shape[0]))
        projection = self.predict_projection(self.project(latent))
        return latent, logits, memory, self.predict(latent), projection
