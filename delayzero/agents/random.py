"""The agent that decides at random: it observes nothing, and searches nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jax import Array

from delayzero.actions import ActionSpec
from delayzero.agents.acting import uniform_actions
from delayzero.agents.agent import Decision, Logs, Observed, State


@dataclass(frozen=True)
class RandomAgent:
    """Decides uniformly, in evaluations too; see :class:`~delayzero.agents.agent.Agent`."""

    actions: ActionSpec
    logs: Logs = "executed"
    needs_delay: bool = False
    looks_ahead: bool = False
    queue_width: int | None = None
    longest_queue: int | None = None
    foresees: bool = False
    takes_late_observations: bool = True

    def init_state(self, num_envs: int) -> State:
        """Return nothing."""
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
        """Choose every action with the same chance."""
        return state, Decision(uniform_actions(self.actions, key, observed.first.shape))

    def first_queue(
        self, variables: Any, stack: Array, key: Array, length: int, *, explore: bool
    ) -> Array:
        """Choose every action with the same chance."""
        return uniform_actions(self.actions, key, (stack.shape[0], length))
