"""The networks of Delayed-Q: the values of actions, and a model of what is seen after one.

An observation is a stack of vectors ``[B, S, D]`` or of images ``[B, S, H, W, C]``, the newest
last. It may come in any type of numbers; the networks see it :func:`as_floats`.
"""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import Array

from delayzero.actions import ActionSpec
from delayzero.model.layers import Conv, Linear
from delayzero.model.parts import Perceptron

STAYS = 4.0
"""The logit, or its negative, with which an untrained model expects ones and zeros to stay."""


class VectorForward(nn.Module):
    """A vector's predicted change, ``[B, outputs]``, from stacks ``[B, S * D]`` and coded actions.

    Two hidden layers without normalisation, which would blur sizes.
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
    """What is added to an image's logits, ``[B, H, W, outputs]``, from ``[B, H, W, S * C]``.

    Two 3x3 convolutions see what is at most two pixels away; the actions, a plane for each, also
    tell where the edges are.
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
    """Numbers ``[B, outputs]`` from a small image: a convolution, and a hidden layer."""

    channels: int
    width: int
    outputs: int

    @nn.compact
    def __call__(self, x: Array, train: bool) -> Array:
        x = nn.relu(Conv(self.channels)(x))
        return Perceptron((self.width, self.outputs), norm="layer")(x, train)


class QModel(nn.Module):
    """What Delayed-Q learns: Q-values, and a forward model of the observations themselves.

    Attributes:
        actions: What an action is.
        q: From stacks ``[B, S * D]`` or ``[B, H, W, S * C]`` to a value and advantages,
            ``[B, 1 + A]``.
        forward: From such stacks and one-hot actions ``[B, A]`` to what :meth:`said` is.
    """

    actions: ActionSpec
    q: nn.Module
    forward: nn.Module

    def values(self, stack: Array) -> Array:
        """The return that each action promises, ``[B, A]``: a value and centred advantages."""
        out = self.q(_joined(stack), False)
        return _dueling(out[:, :1], out[:, 1:])

    def said(self, stack: Array, action: Array) -> Array:
        """What the forward model says of the next frame.

        Returns:
            A vector's difference from the newest, ``[B, D]``; an image's logits, ``[B, H, W, C]``.
        """
        code = jax.nn.one_hot(action, self.actions.count, dtype=jnp.float32)
        out: Array = self.forward(_joined(stack), code)
        return out + STAYS * (2 * as_floats(stack[:, -1]) - 1) if _images(stack) else out

    def step(self, stack: Array, action: Array) -> Array:
        """The stacks, as floats, that the actions ``[B]`` are predicted to lead to."""
        stack, said = as_floats(stack), self.said(stack, action)
        newest = nn.sigmoid(said) if _images(stack) else stack[:, -1] + said
        return jnp.concatenate([stack[:, 1:], newest[:, None]], axis=1)

    def everything(self, stack: Array, action: Array) -> tuple[Array, Array]:
        """Run every part once; what ``init`` traces."""
        return self.values(stack), self.step(stack, action)


def vector_q_model(actions: ActionSpec, size: int, width: int) -> QModel:
    """The networks for vectors.

    Args:
        actions: What an action is.
        size: D, of one observation.
        width: Of the hidden layers.
    """
    # Layer norm: without it Q runs away unless targets are renewed too seldom to learn much.
    q = Perceptron((width, width, 1 + actions.count), norm="layer")
    return QModel(actions, q, VectorForward(width, size))


def image_q_model(actions: ActionSpec, planes: int, width: int) -> QModel:
    """The networks for small images, whose numbers are in [0, 1] as floats.

    Args:
        actions: What an action is.
        planes: C, of one observation.
        width: Of the hidden layer; convolutions have an eighth of it as channels.
    """
    channels = max(1, width // 8)
    q = ImageValues(channels, width, 1 + actions.count)
    return QModel(actions, q, ImageForward(channels, planes))


class AtariQModel(nn.Module):
    """Q-values of pixels (uint8): the Nature network with the heads of the paper's code.

    Three convolutions and 512 hidden units; linear advantages, and a value from two layers of 64
    with layer norm. There is no forward model: the emulator is one.

    Attributes:
        actions: What an action is.
    """

    actions: ActionSpec

    @nn.compact
    def values(self, stack: Array) -> Array:
        """The return that each action promises, ``[B, A]``: a value and centred advantages."""
        x = _joined(stack)
        for features, size, stride in ((32, 8, 4), (64, 4, 2), (64, 3, 1)):
            convolution = nn.Conv(features, (size, size), stride, padding="VALID")
            x = nn.relu(convolution(x))
        x = nn.relu(Linear(512)(x.reshape(len(x), -1)))
        value = Perceptron((64, 64, 1), norm="layer")(x, False)
        return _dueling(value, Linear(self.actions.count)(x))

    def everything(self, stack: Array, action: Array) -> Array:
        """What ``init`` traces."""
        del action
        return self.values(stack)


def as_floats(observation: Array) -> Array:
    """Observations as networks see them: float32; those in uint8 are divided by 255."""
    x = observation.astype(jnp.float32)
    return x / 255 if observation.dtype == jnp.uint8 else x


def _images(stack: Array) -> bool:
    return stack.ndim == 5


def _joined(stack: Array) -> Array:
    """The frames of each stack as one, in floats: ``[B, H, W, S * C]`` or ``[B, S * D]``."""
    x = as_floats(stack)
    if _images(x):
        batch, frames, height, width, channels = x.shape
        return jnp.moveaxis(x, 1, 3).reshape(batch, height, width, frames * channels)
    return x.reshape(len(x), -1)


def _dueling(value: Array, advantage: Array) -> Array:
    """Q-values ``[B, A]`` from a value ``[B, 1]`` and advantages ``[B, A]``, which are centred."""
    return value + advantage - jnp.mean(advantage, axis=1, keepdims=True)
