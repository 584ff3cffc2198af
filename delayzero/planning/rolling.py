"""Moving states through actions: those under way, and those of a first queue.

A state is whatever the model steps: a latent of the world model, or a stack of observations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import jax
import jax.numpy as jnp
from jax import Array


class Rollable(Protocol):
    """A model that can be rolled: bound to variables it has ``step(state, action)``."""

    num_actions: int

    def bind(self, variables: Any) -> Any:
        """The model with its variables."""


def roll(model: Rollable, variables: Any, state: Array, queue: Array) -> Array:
    """The states after the actions under way; those with an empty queue stay as they are.

    Only the dynamics run, as many steps as the longest queue has.

    Args:
        model: The model.
        variables: Its own.
        state: ``[B, ...]``.
        queue: The actions under way, ``[B, M]``, then ``num_actions`` where there are none.
    """
    if queue.shape[1] == 0:
        return state
    lengths = jnp.sum(queue < model.num_actions, axis=1)

    def further(carry: tuple[Array, Array]) -> Array:
        return carry[0] < jnp.max(lengths)

    def move(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        k, state = carry
        action = jnp.minimum(queue[:, k], model.num_actions - 1)
        moved = model.bind(variables).step(state, action)
        under_way = (k < lengths).reshape(-1, *(1 for _ in state.shape[1:]))
        return k + 1, jnp.where(under_way, moved, state)

    return jax.lax.while_loop(further, move, (jnp.zeros((), jnp.int32), state))[1]


def plan_queue(
    model: Rollable,
    variables: Any,
    key: Array,
    state: Array,
    length: int,
    choose: Callable[[Any, Array, Array], Array],
) -> Array:
    """The first actions of an episode, chosen along their own imagined way, ``[B, length]``.

    Args:
        model: The model.
        variables: Its own.
        key: A random key.
        state: Of the first observations, ``[B, ...]``.
        length: How many actions.
        choose: ``(bound model, state, key) -> action``.
    """

    def decide(state: Array, key: Array) -> tuple[Array, Array]:
        bound = model.bind(variables)
        chosen = choose(bound, state, key)
        return bound.step(state, chosen), chosen.astype(jnp.int32)

    return jax.lax.scan(decide, state, jax.random.split(key, length))[1].T
