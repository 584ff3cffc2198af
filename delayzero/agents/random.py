"""The agent that decides at random: it sees nothing, and searches nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from delayzero.planning import SearchResult


@dataclass(frozen=True)
class RandomAgent:
    """Decides uniformly; see :class:`~delayzero.agents.acting.Agent`."""

    num_actions: int

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
        """Every action with the same chance, whatever is seen, in evaluations too."""
        grid = stack.shape[0], self.num_actions
        return SearchResult(
            action=jax.random.randint(key, grid[:1], 0, self.num_actions),
            policy=jnp.full(grid, 1 / self.num_actions),
            value=jnp.zeros(grid[:1]),
            network_value=jnp.zeros(grid[:1]),
            visits=jnp.zeros(grid, jnp.int32),
        )

    def first_queue(
        self, variables: Any, stack: Array, key: Array, length: int, *, explore: bool
    ) -> Array:
        """Likewise."""
        return jax.random.randint(key, (stack.shape[0], length), 0, self.num_actions)
