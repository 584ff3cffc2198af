"""Moving latents through actions: those under way, and those of a first queue."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from delayzero.model import WorldModel


def roll(model: WorldModel, variables: Any, latent: Array, queue: Array) -> Array:
    """The latents after the actions under way; those with an empty queue stay as they are.

    Only the dynamics run, as many steps as the longest queue has.

    Args:
        model: The world model.
        variables: Its own.
        latent: ``[B, ...]``.
        queue: The actions under way, ``[B, M]``, then ``num_actions`` where there are none.
    """
    if queue.shape[1] == 0:
        return latent
    lengths = jnp.sum(queue < model.num_actions, axis=1)

    def further(carry: tuple[Array, Array]) -> Array:
        return carry[0] < jnp.max(lengths)

    def move(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        k, latent = carry
        action = jnp.minimum(queue[:, k], model.num_actions - 1)
        moved = model.bind(variables).step(latent, action)
        under_way = (k < lengths).reshape(-1, *(1 for _ in latent.shape[1:]))
        return k + 1, jnp.where(under_way, moved, latent)

    return jax.lax.while_loop(further, move, (jnp.zeros((), jnp.int32), latent))[1]


def plan_queue(
    model: WorldModel, variables: Any, key: Array, latent: Array, length: int, *, explore: bool
) -> Array:
    """The first actions of an episode, by the policy along its own imagined way, ``[B, length]``.

    Args:
        model: The world model.
        variables: Its own.
        key: A random key.
        latent: Of the first observations, ``[B, ...]``.
        length: How many actions.
        explore: Drawn from the policy (self-play), or the most likely ones (evaluation).
    """

    def decide(latent: Array, key: Array) -> tuple[Array, Array]:
        bound = model.bind(variables)
        logits = bound.predict(latent).policy_logits
        drawn = jax.random.categorical(key, logits) if explore else jnp.argmax(logits, axis=-1)
        return bound.step(latent, drawn), drawn.astype(jnp.int32)

    return jax.lax.scan(decide, latent, jax.random.split(key, length))[1].T
