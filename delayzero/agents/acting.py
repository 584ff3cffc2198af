"""Acting: stack the newest frames, and let an agent decide."""

from __future__ import annotations

from typing import Any, Protocol

import jax
import jax.numpy as jnp
from jax import Array

from delayzero.planning import SearchResult


class Agent(Protocol):
    """How decisions are made; pure functions of their arguments."""

    @property
    def num_actions(self) -> int:
        """How many actions there are; in a queue this number stands for no action."""

    def decide(
        self,
        variables: Any,
        stack: Array,
        queue: Array,
        key: Array,
        *,
        explore: bool,
        progress: Array | float,
    ) -> SearchResult:
        """Decide for ``N`` environments.

        Args:
            variables: What was learned.
            stack: The newest frames, ``[N, S, ...]``.
            queue: The actions under way, ``[N, M]``, then ``num_actions`` where there are none.
            key: A random key.
            explore: With noise (self-play), or without (evaluation).
            progress: The share of the training that is done, for schedules of exploration.
        """

    def first_queue(
        self, variables: Any, stack: Array, key: Array, length: int, *, explore: bool
    ) -> Array:
        """What runs until the first decision arrives, planned from first frames, ``[N, length]``.

        Args:
            variables: What was learned.
            stack: The first frames of episodes, ``[N, S, ...]``.
            key: A random key.
            length: How many actions.
            explore: With noise (self-play), or without (evaluation).
        """


def first_stack(num_envs: int, stack: int, shape: tuple[int, ...], dtype: Any) -> Array:
    """A stack to begin with, ``[N, S, ...]``; the first observation of an episode fills it."""
    return jnp.zeros((num_envs, stack, *shape), dtype)


def act(
    agent: Agent,
    variables: Any,
    stack: Array,
    observation: Array,
    first: Array,
    queue: Array,
    key: Array,
    *,
    explore: bool,
    progress: Array | float = 0.0,
    at_random: Array | bool = False,
    foreseen: tuple[Array, Array] | None = None,
) -> tuple[Array, SearchResult]:
    """Decide for ``N`` environments.

    Args:
        agent: Who decides.
        variables: What it has learned.
        stack: The frames seen before, ``[N, S, ...]``.
        observation: The newest frames, ``[N, ...]``.
        first: Where an episode begins, ``[N]``.
        queue: The actions under way, see :meth:`Agent.decide`.
        key: A random key.
        explore: With noise (self-play), or without (evaluation).
        progress: The share of the training that is done.
        at_random: Whether to decide uniformly instead, ``[]``.
        foreseen: Where the environments tell what the actions under way lead to: the last frames
            after them, ``[N, S, ...]``, and how many of those there are, ``[N]``. The agent then
            decides as if it saw them, with no action under way.

    Returns:
        The new stack, and the search, whose ``action`` is the decision.
    """
    decision_key, random_key = jax.random.split(key)
    moved = jnp.concatenate([stack[:, 1:], observation[:, None].astype(stack.dtype)], axis=1)
    begins = first.reshape(-1, *(1 for _ in stack.shape[1:]))
    stack = jnp.where(begins, _repeated(observation, stack), moved)
    seen = stack
    if foreseen is not None:
        seen, queue = _moved_on(stack, *foreseen), queue[:, :0]
    found = agent.decide(variables, seen, queue, decision_key, explore=explore, progress=progress)
    uniform = jax.random.randint(random_key, found.action.shape, 0, agent.num_actions)
    return stack, found._replace(action=jnp.where(at_random, uniform, found.action))


def plan_first_queue(
    agent: Agent,
    variables: Any,
    stack: Array,
    observation: Array,
    key: Array,
    *,
    length: int,
    explore: bool,
    at_random: Array | bool = False,
    foreseen: tuple[Array, Array] | None = None,
) -> Array:
    """The first queues of episodes that begin with these observations, ``[N, length]``.

    Args:
        agent: Who plans.
        variables: What it has learned.
        stack: Any stack, for its shape.
        observation: The first frames, ``[N, ...]``.
        key: A random key.
        length: How many actions.
        explore: With noise (self-play), or without (evaluation).
        at_random: Whether to decide uniformly instead, ``[]``.
        foreseen: Where the queues have begun: what their actions lead to, see :func:`act`. The
            agent then plans on from there.
    """
    plan_key, random_key = jax.random.split(key)
    seen = _repeated(observation, stack)
    if foreseen is not None:
        seen = _moved_on(seen, *foreseen)
    planned = agent.first_queue(variables, seen, plan_key, length, explore=explore)
    uniform = jax.random.randint(random_key, planned.shape, 0, agent.num_actions)
    return jnp.where(at_random, uniform, planned)


def _repeated(observation: Array, stack: Array) -> Array:
    """Stacks of one observation each."""
    return jnp.broadcast_to(observation[:, None], stack.shape).astype(stack.dtype)


def _moved_on(stack: Array, frames: Array, count: Array) -> Array:
    """The stacks after the last ``count`` of these frames, ``[N, S, ...]``."""
    size, places = stack.shape[1], jnp.arange(stack.shape[1])
    count = count[:, None]
    wanted = jnp.where(places < size - count, places + count, size + places)  # [N, S]
    wanted = wanted.reshape(*wanted.shape, *(1 for _ in stack.shape[2:]))
    both = jnp.concatenate([stack, frames.astype(stack.dtype)], axis=1)
    return jnp.take_along_axis(both, wanted, axis=1)
