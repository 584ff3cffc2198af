"""The networks of Delayed-Q: the values of actions, and for vectors what is seen after one.

An observation is a stack of vectors ``[B, S, D]`` or of images ``[B, S, H, W, C]``, the newest
last.
"""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import Array

from delayzero.model.layers import Linear
from delayzero.model.parts import Perceptron


class ForwardNet(nn.Module):
    """Two hidden layers without normalisation, which would blur sizes: ``[B, D]`` to vectors."""

    width: int
    outputs: int

    @nn.compact
    def __call__(self, x: Array) -> Array:
        for _ in range(2):
            x = nn.relu(Linear(self.width)(x))
        out: Array = Linear(self.outputs)(x)
        return out


class QModel(nn.Module):
    """What Delayed-Q learns: Q-values, and a forward model of the observations themselves.

    Attributes:
        num_actions: How many actions there are.
        size: D, of one observation.
        width: Of the hidden layers.
    """

    num_actions: int
    size: int
    width: int

    def setup(self) -> None:
        """Make the networks."""
        # Layer norm: without it Q runs away unless targets are renewed too seldom to learn much.
        self.q = Perceptron((self.width, self.width, 1 + self.num_actions), norm="layer")
        self.forward = ForwardNet(self.width, self.size)

    def values(self, stack: Array) -> Array:
        """The return that each action promises, ``[B, A]``: a value and centred advantages."""
        out = self.q(stack, False)
        return _dueling(out[:, :1], out[:, 1:])

    def change(self, stack: Array, action: Array) -> Array:
        """The predicted difference of the next vector from the newest, ``[B, D]``."""
        code = jax.nn.one_hot(action, self.num_actions, dtype=stack.dtype)
        out: Array = self.forward(jnp.concatenate([stack.reshape(len(stack), -1), code], axis=1))
        return out

    def step(self, stack: Array, action: Array) -> Array:
        """The stacks that the actions ``[B]`` are predicted to lead to."""
        newest = stack[:, -1] + self.change(stack, action)
        return jnp.concatenate([stack[:, 1:], newest[:, None]], axis=1)

    def everything(self, stack: Array, action: Array) -> tuple[Array, Array]:
        """Run every part once; what ``init`` traces."""
        return self.values(stack), self.step(stack, action)


class ImageQModel(nn.Module):
    """Q-values of pixels (uint8): the Nature network with the heads of the paper's code.

    Three convolutions and 512 hidden units; linear advantages, and a value from two layers of 64
    with layer norm.

    Attributes:
        num_actions: How many actions there are.
    """

    num_actions: int

    @nn.compact
    def values(self, stack: Array) -> Array:
        """The return that each action promises, ``[B, A]``: a value and centred advantages."""
        batch, frames, height, width, channels = stack.shape
        x = jnp.moveaxis(stack, 1, 3).reshape(batch, height, width, frames * channels)
        x = x.astype(jnp.float32) / 255
        for features, size, stride in ((32, 8, 4), (64, 4, 2), (64, 3, 1)):
            convolution = nn.Conv(features, (size, size), stride, padding="VALID")
            x = nn.relu(convolution(x))
        x = nn.relu(Linear(512)(x.reshape(batch, -1)))
        value = Perceptron((64, 64, 1), norm="layer")(x, False)
        return _dueling(value, Linear(self.num_actions)(x))

    def everything(self, stack: Array, action: Array) -> Array:
        """What ``init`` traces."""
        del action
        return self.values(stack)


def _dueling(value: Array, advantage: Array) -> Array:
    """Q-values ``[B, A]`` from a value ``[B, 1]`` and advantages ``[B, A]``, which are centred."""
    return value + advantage - jnp.mean(advantage, axis=1, keepdims=True)
