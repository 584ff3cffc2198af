"""Agents that search with a learned model: DEZ, the oblivious ones, the augmented one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from delayzero.model import WorldModel
from delayzero.planning import Planner, SearchResult, plan_queue, roll

TEMPERATURES = ((0.5, 1.0), (0.75, 0.5), (1.0, 0.25))
"""PUCT's temperature until each share of self-play."""


@dataclass(frozen=True)
class PlanningAgent:
    """Encodes what it sees, rolls it through the actions under way if it should, and searches.

    Attributes:
        planner: The model and its search.
        rolls: Whether to search from the state that the decision will meet.
        queue: The length of the queue that the model itself sees.
    """

    planner: Planner
    rolls: bool = False
    queue: int = 0

    @property
    def num_actions(self) -> int:
        """How many actions there are."""
        return self.planner.model.num_actions

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
        """See :class:`~delayzero.agents.acting.Agent`."""
        model = self.planner.model
        latent = model.bind(variables).represent(stack, queue)
        if self.rolls:
            latent = roll(model, variables, latent, queue)
        return self.planner.search(
            variables, key, latent, explore=explore, temperature=temperature(progress)
        )

    def first_queue(
        self, variables: Any, stack: Array, key: Array, length: int, *, explore: bool
    ) -> Array:
        """See :class:`~delayzero.agents.acting.Agent`.

        To a model that sees the queue a step means that one more action is under way, so it is not
        rolled: action k is what its policy says where the k actions before it are.
        """
        model = self.planner.model

        def choose(bound: WorldModel, latent: Array, key: Array) -> Array:
            logits = bound.predict(latent).policy_logits
            return jax.random.categorical(key, logits) if explore else jnp.argmax(logits, axis=-1)

        if not self.queue:
            latent = model.bind(variables).represent(stack)
            return plan_queue(model, variables, key, latent, length, choose)

        def append(queue: Array, step: tuple[Array, Array]) -> tuple[Array, None]:
            place, key = step
            bound = model.bind(variables)
            chosen = choose(bound, bound.represent(stack, queue), key)
            return queue.at[:, place].set(chosen.astype(queue.dtype)), None

        assert length <= self.queue, "the model sees no longer queue"
        nothing = jnp.full((stack.shape[0], self.queue), self.num_actions, jnp.int32)
        steps = jnp.arange(length), jax.random.split(key, length)
        return jax.lax.scan(append, nothing, steps)[0][:, :length]


def temperature(progress: Array | float) -> Array:
    """PUCT's temperature after a share of self-play, ``[]``."""
    until, values = (jnp.array(column) for column in zip(*TEMPERATURES, strict=True))
    return values[jnp.minimum(jnp.searchsorted(until, progress), len(TEMPERATURES) - 1)]
