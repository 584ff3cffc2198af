"""Agents that search with a learned model: DEZ, the oblivious ones, the augmented one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from delayzero.actions import ActionSpec, Queue
from delayzero.agents.agent import Decision, Logs, Observed, State
from delayzero.model import WorldModel
from delayzero.planning import Planner, plan_queue, roll

TEMPERATURES = ((0.5, 1.0), (0.75, 0.5), (1.0, 0.25))
"""PUCT's temperature until each share of self-play."""


@dataclass(frozen=True)
class PlanningAgent:
    """Encodes what it observes, rolls it through the pending actions if it should, and searches.

    Implements :class:`~delayzero.agents.agent.Agent`.

    Attributes:
        planner: The model and its search.
        looks_ahead: Whether to search from the state that the decision will meet.
        queue_width: The width of the queues that the model itself sees, if it sees any.
        longest_queue: The most pending actions that it can act on; None: any number.
        logs: Which actions its replay holds.
        takes_late_observations: Whether it can act on late observations.
        foresees: Whether the environment tells it what the pending actions lead to, so that none
            is left to roll through.
    """

    planner: Planner
    looks_ahead: bool = False
    queue_width: int | None = None
    longest_queue: int | None = None
    logs: Logs = "executed"
    takes_late_observations: bool = True
    foresees: bool = False

    @property
    def actions(self) -> ActionSpec:
        """What an action is."""
        return self.planner.model.actions

    @property
    def needs_delay(self) -> bool:
        """Whether it must know the delay and the pending actions before it decides."""
        return self.looks_ahead or self.queue_width is not None

    def init_state(self, num_envs: int) -> State:
        """Return nothing: the observation and the queue say all."""
        return ()

    def decide(
        self,
        variables: Any,
        state: State,
        observed: Observed,
        key: Array,
        *,
        explore: bool,
        progress: Array | float,
    ) -> tuple[State, Decision]:
        """See :class:`~delayzero.agents.agent.Agent`."""
        model = self.planner.model
        latent = model.bind(variables).represent(observed.stack, observed.queue)
        if self.looks_ahead:
            latent = roll(model, variables, latent, observed.queue)
        result = self.planner.search(
            variables, key, latent, explore=explore, temperature=temperature(progress)
        )
        return state, Decision(result.action, result)

    def first_queue(
        self, variables: Any, stack: Array, key: Array, length: int, *, explore: bool
    ) -> Array:
        """See :class:`~delayzero.agents.agent.Agent`.

        To a model that sees the queue a step means that one more action is pending, so it is not
        rolled: action k is what its policy chooses where the k actions before it are pending.
        """
        model = self.planner.model

        def choose(bound: WorldModel, latent: Array, key: Array) -> Array:
            logits = bound.predict(latent).policy_logits
            return jax.random.categorical(key, logits) if explore else jnp.argmax(logits, axis=-1)

        if self.queue_width is None:
            latent = model.bind(variables).represent(stack)
            return plan_queue(model, variables, key, latent, length, choose)

        def append(queue: Queue, step: tuple[Array, Array]) -> tuple[Queue, None]:
            place, key = step
            bound = model.bind(variables)
            action = choose(bound, bound.represent(stack, queue), key)
            chosen = queue.action.at[:, place].set(action.astype(queue.action.dtype))
            return Queue(chosen, queue.mask.at[:, place].set(True)), None

        assert length <= self.queue_width, "the model sees no longer queue"
        shape = (stack.shape[0], self.queue_width)
        nothing = Queue(jnp.zeros(shape, jnp.int32), jnp.zeros(shape, bool))
        steps = jnp.arange(length), jax.random.split(key, length)
        queue: Queue = jax.lax.scan(append, nothing, steps)[0]
        planned: Array = queue.action[:, :length]
        return planned


def temperature(progress: Array | float) -> Array:
    """Return PUCT's temperature after a share of self-play, ``[]``."""
    until, values = (jnp.array(column) for column in zip(*TEMPERATURES, strict=True))
    return values[jnp.minimum(jnp.searchsorted(until, progress), len(TEMPERATURES) - 1)]
