"""Acting without delay: stack the newest frames, encode, search."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from delayzero.planning import Planner, SearchResult


def first_stack(num_envs: int, stack: int, shape: tuple[int, ...], dtype: Any) -> Array:
    """A stack to begin with, ``[N, S, ...]``; the first observation of an episode fills it."""
    return jnp.zeros((num_envs, stack, *shape), dtype)


def act(
    planner: Planner,
    variables: Any,
    stack: Array,
    observation: Array,
    first: Array,
    key: Array,
    *,
    explore: bool,
    temperature: Array | float = 1.0,
    at_random: Array | bool = False,
) -> tuple[Array, SearchResult]:
    """Decide for ``N`` environments.

    Args:
        planner: The model and its search.
        variables: The model's.
        stack: The frames seen before, ``[N, S, ...]``.
        observation: The newest frames, ``[N, ...]``.
        first: Where an episode begins, ``[N]``.
        key: A random key.
        explore: With noise (self-play), or without (evaluation).
        temperature: Of PUCT's choice while exploring.
        at_random: Whether to decide uniformly instead, ``[]``.

    Returns:
        The new stack, and the search, whose ``action`` is the decision.
    """
    search_key, random_key = jax.random.split(key)
    repeated = jnp.broadcast_to(observation[:, None], stack.shape)
    moved = jnp.concatenate([stack[:, 1:], observation[:, None].astype(stack.dtype)], axis=1)
    begins = first.reshape(-1, *(1 for _ in stack.shape[1:]))
    stack = jnp.where(begins, repeated, moved)
    latent = planner.model.bind(variables).represent(stack)
    found = planner.search(variables, search_key, latent, explore=explore, temperature=temperature)
    uniform = jax.random.randint(random_key, found.action.shape, 0, planner.model.num_actions)
    return stack, found._replace(action=jnp.where(at_random, uniform, found.action))
