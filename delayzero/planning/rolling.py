"""Rolling a model through actions: the pending ones, and those of an episode's first queue.

A state is whatever the model steps: a latent of the world model, or a stack of observations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import chex
import jax
import jax.numpy as jnp
from jax import Array

from delayzero.actions import Queue


class Rollable(Protocol):
    """A model that can be rolled: once bound to variables, it has ``step(state, action)``."""

    def bind(self, variables: Any) -> Any:
        """Return the model bound to its variables."""


def roll(model: Rollable, variables: Any, state: Array, queue: Queue) -> Array:
    """Return the states after the pending actions; a state with an empty queue does not change.

    Only the dynamics run, for as many steps as the longest queue has actions.

    Args:
        model: The model.
        variables: The model's variables.
        state: ``[B, ...]``.
        queue: The pending actions, ``[B, W]``.
    """
    chex.assert_rank(queue.mask, 2)
    chex.assert_equal_shape_prefix([queue.action, queue.mask], 2)
    chex.assert_equal_shape_prefix([state, queue.mask], 1)
    if queue.width == 0:
        return state
    actions, lengths = jnp.asarray(queue.action), jnp.asarray(queue.lengths)

    def pending(carry: tuple[Array, Array]) -> Array:
        return carry[0] < jnp.max(lengths)

    def move(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        k, state = carry
        next_state = model.bind(variables).step(state, actions[:, k])
        moves = (k < lengths).reshape(-1, *(1 for _ in state.shape[1:]))
        return k + 1, jnp.where(moves, next_state, state)

    return jax.lax.while_loop(pending, move, (jnp.zeros((), jnp.int32), state))[1]


def plan_queue(
    model: Rollable,
    variables: Any,
    key: Array,
    state: Array,
    length: int,
    choose: Callable[[Any, Array, Array], Array],
) -> Array:
    """Choose the first actions of an episode, each in the state predicted after those before it.

    Args:
        model: The model.
        variables: The model's variables.
        key: A random key.
        state: The states of the first observations, ``[B, ...]``.
        length: The number of actions.
        choose: ``(bound model, state, key) -> action``, with actions ``[B]``.

    Returns:
        The actions, ``[B, length]``.
    """

    def decide(state: Array, key: Array) -> tuple[Array, Array]:
        bound = model.bind(variables)
        action = choose(bound, state, key)
        chex.assert_shape(action, state.shape[:1])
        return bound.step(state, action), action.astype(jnp.int32)

    return jax.lax.scan(decide, state, jax.random.split(key, length))[1].T
