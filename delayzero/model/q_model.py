"""The networks of Delayed-Q for vectors: the values of actions, and what is seen after one.

An observation is a stack ``[B, S, D]`` of vectors, the newest last.
"""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import Array

from delayzero.model.layers import Linear


class PlainPerceptron(nn.Module):
    """Two hidden layers of a width with ReLU, without normalisation: ``[B, D]`` to vectors."""

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
        self.q = PlainPerceptron(self.width, 1 + self.num_actions)
        self.forward = PlainPerceptron(self.width, self.size)

    def values(self, stack: Array) -> Array:
        """The return that each action promises, ``[B, A]``: a value and centred advantages."""
        out = self.q(stack.reshape(stack.shape[0], -1))
        advantage = out[:, 1:]
        return out[:, :1] + advantage - jnp.mean(advantage, axis=1, keepdims=True)

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
