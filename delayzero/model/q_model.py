"""The networks of Delayed-Q: action values, and a forward model of the next observation.

An observation is a stack of vectors ``[B, S, D]`` or of images ``[B, S, H, W, C]``, the newest
last, of any data type; the networks convert it with :func:`as_floats`.
"""

from __future__ import annotations

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import Array

from delayzero.actions import ActionSpec
from delayzero.model.layers import Conv, Linear
from delayzero.model.parts import Perceptron

STAYS = 4.0
"""An untrained model predicts with this logit, or its negative, that ones and zeros stay."""


class VectorForward(nn.Module):
    """The predicted change of a vector, ``[B, outputs]``, from stacks ``[B, S * D]`` and actions.

    It has two hidden layers, without normalisation, which would blur magnitudes. Actions are
    one-hot, ``[B, A]``.
    """

    width: int
    outputs: int

    @nn.compact
    def __call__(self, x: Array, code: Array) -> Array:
        x = jnp.concatenate([x, code], axis=1)
        for _ in range(2):
            x = nn.relu(Linear(self.width)(x))
        out: Array = Linear(self.outputs)(x)
        return out


class ImageForward(nn.Module):
    """The predicted change of an image's logits, ``[B, H, W, outputs]``, from ``[B, H, W, S * C]``.

    Two 3x3 convolutions cover pixels at most two away. Each action has a plane, which also shows
    where the edges are.
    """

    channels: int
    outputs: int

    @nn.compact
    def __call__(self, x: Array, code: Array) -> Array:
        planes = jnp.broadcast_to(code[:, None, None], (*x.shape[:3], code.shape[1]))
        x = jnp.concatenate([x, planes], axis=3)
        for _ in range(2):
            x = nn.relu(Conv(self.channels)(x))
        out: Array = Conv(self.outputs, size=1)(x)
        return out


class ImageValues(nn.Module):
    """Outputs ``[B, outputs]`` from a small image: one convolution and one hidden layer."""

    channels: int
    width: int
    outputs: int

    @nn.compact
    def __call__(self, x: Array, train: bool) -> Array:
        x = nn.relu(Conv(self.channels)(x))
        return Perceptron((self.width, self.outputs), norm="layer")(x, train)


class QModel(nn.Module):
    """The networks that Delayed-Q learns: Q-values, and a forward model of observations.

    Attributes:
        actions: The action space.
        q: From stacks ``[B, S * D]`` or ``[B, H, W, S * C]`` to a value and advantages,
            ``[B, 1 + A]``.
        forward: From such stacks and one-hot actions ``[B, A]`` to a vector's change or the change
            of an image's logits, see :meth:`forward_output`.
    """

    actions: ActionSpec
    q: nn.Module
    forward: nn.Module

    def values(self, stack: Array) -> Array:
        """Return the Q-values of stacks, ``[B, A]``: a value plus centred advantages."""
        out = self.q(_joined(stack), False)
        return _dueling(out[:, :1], out[:, 1:])

    def forward_output(self, stack: Array, action: Array) -> Array:
        """Predict the next frame, as a change or as logits.

        Args:
            stack: ``[B, S, D]`` or ``[B, S, H, W, C]``.
            action: ``[B]``.

        Returns:
            For vectors the difference from the newest one, ``[B, D]``; for images the logits of the
            next one, ``[B, H, W, C]``.
        """
        chex.assert_shape(action, stack.shape[:1])
        chex.assert_type(action, int)
        code = jax.nn.one_hot(action, self.actions.count, dtype=jnp.float32)
        out: Array = self.forward(_joined(stack), code)
        return out + STAYS * (2 * as_floats(stack[:, -1]) - 1) if _images(stack) else out

    def step(self, stack: Array, action: Array) -> Array:
        """Predict the stacks after the actions ``[B]``, as floats."""
        stack, output = as_floats(stack), self.forward_output(stack, action)
        newest = nn.sigmoid(output) if _images(stack) else stack[:, -1] + output
        return jnp.concatenate([stack[:, 1:], newest[:, None]], axis=1)

    def everything(self, stack: Array, action: Array) -> tuple[Array, Array]:
        """Run every part once; ``init`` traces this method."""
        return self.values(stack), self.step(stack, action)


def vector_q_model(actions: ActionSpec, size: int, width: int) -> QModel:
    """Build the networks for vectors.

    Args:
        actions: The action space.
        size: The size D of one observation.
        width: The size of the hidden layers.
    """
    # Without layer norm Q diverges, unless targets are renewed too rarely to learn much.
    q = Perceptron((width, width, 1 + actions.count), norm="layer")
    return QModel(actions, q, VectorForward(width, size))


def image_q_model(actions: ActionSpec, planes: int, width: int) -> QModel:
    """Build the networks for small images, whose values are in [0, 1] as floats.

    Args:
        actions: The action space.
        planes: The number of channels C of one observation.
        width: The size of the hidden layer; convolutions have an eighth as many channels.
    """
    channels = max(1, width // 8)
    q = ImageValues(channels, width, 1 + actions.count)
    return QModel(actions, q, ImageForward(channels, planes))


class AtariQModel(nn.Module):
    """Q-values of pixels (uint8): the Nature network with the heads of the paper's code.

    It has three convolutions and 512 hidden units; the advantages are linear in them, and the value
    has two hidden layers of 64 with layer norm. There is no forward model: the emulator is one.

    Attributes:
        actions: The action space.
    """

    actions: ActionSpec

    @nn.compact
    def values(self, stack: Array) -> Array:
        """Return the Q-values of stacks, ``[B, A]``: a value plus centred advantages."""
        x = _joined(stack)
        for features, size, stride in ((32, 8, 4), (64, 4, 2), (64, 3, 1)):
            convolution = nn.Conv(features, (size, size), stride, padding="VALID")
            x = nn.relu(convolution(x))
        x = nn.relu(Linear(512)(x.reshape(len(x), -1)))
        value = Perceptron((64, 64, 1), norm="layer")(x, False)
        return _dueling(value, Linear(self.actions.count)(x))

    def everything(self, stack: Array, action: Array) -> Array:
        """Run the network once; ``init`` traces this method."""
        del action
        return self.values(stack)


def as_floats(observation: Array) -> Array:
    """Convert observations to the networks' input: float32; uint8 is divided by 255."""
    x = observation.astype(jnp.float32)
    return x / 255 if observation.dtype == jnp.uint8 else x


def _images(stack: Array) -> bool:
    return stack.ndim == 5


def _joined(stack: Array) -> Array:
    """Join the frames of each stack, as floats: ``[B, H, W, S * C]`` or ``[B, S * D]``."""
    chex.assert_rank(stack, {3, 5})
    x = as_floats(stack)
    if _images(x):
        batch, frames, height, width, channels = x.shape
        return jnp.moveaxis(x, 1, 3).reshape(batch, height, width, frames * channels)
    return x.reshape(len(x), -1)


def _dueling(value: Array, advantage: Array) -> Array:
    """Combine values ``[B, 1]`` and advantages ``[B, A]``, centred here, into Q-values."""
    return value + advantage - jnp.mean(advantage, axis=1, keepdims=True)
