"""What an agent is: a thing that decides, with a state that it carries from step to step."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Protocol

from jax import Array

from delayzero.actions import ActionSpec, Queue
from delayzero.planning import SearchResult
from delayzero.settings import DelaySettings

State = Any
"""What an agent carries from step to step: any tree of arrays ``[N, ...]``; often none, ``()``."""
Logs = Literal["executed", "decided"]
"""Which actions a replay holds: those that ran, or those that the agent chose."""


class Observed(NamedTuple):
    """What ``N`` environments show before a decision."""

    stack: Array
    """The newest frames that have arrived, ``[N, S, ...]``."""
    first: Array
    """Where an episode begins, ``[N]``: a carried state begins anew there."""
    queue: Queue
    """The actions that run between the newest frame and this decision, ``[N, W]``."""


class Decision(NamedTuple):
    """What an agent decides for ``N`` environments."""

    action: Array
    """``[N, ...]``."""
    search: SearchResult | None = None
    """The search behind it, of agents that search."""


class Agent(Protocol):
    """Makes decisions: pure functions of their arguments, compiled by whoever calls them."""

    @property
    def actions(self) -> ActionSpec:
        """What an action is."""

    @property
    def logs(self) -> Logs:
        """Which actions its replay holds."""

    @property
    def needs_delay(self) -> bool:
        """Whether it must know the delay and the pending actions before it decides."""

    @property
    def looks_ahead(self) -> bool:
        """Whether it decides for a later state: its searches are not about the observed one."""

    @property
    def queue_width(self) -> int | None:
        """The width of the queues that its networks see; None if they see none."""

    @property
    def longest_queue(self) -> int | None:
        """The most pending actions that it can act on; None: any number."""

    @property
    def foresees(self) -> bool:
        """Whether the environment must tell it what the pending actions lead to."""

    @property
    def takes_late_observations(self) -> bool:
        """Whether it can act on observations that arrive late."""

    def init_state(self, num_envs: int) -> State:
        """Return the state before the first step of ``N`` environments."""

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
        """Decide for ``N`` environments.

        Args:
            variables: What was learned.
            state: What :meth:`init_state` or the last decision returned.
            observed: What the environments show.
            key: A random key.
            explore: With noise (self-play), or without (evaluation).
            progress: The share of the training that is done, for schedules of exploration.
        """

    def first_queue(
        self, variables: Any, stack: Array, key: Array, length: int, *, explore: bool
    ) -> Array:
        """Plan what runs until the first decision arrives, ``[N, length, ...]``.

        Args:
            variables: What was learned.
            stack: The first frames of episodes, ``[N, S, ...]``.
            key: A random key.
            length: The number of actions.
            explore: With noise (self-play), or without (evaluation).
        """


def obstacle(agent: Agent, delays: DelaySettings) -> Literal["hidden", "late"] | None:
    """Return why an agent cannot act under delays: they are hidden, or observations are late."""
    if agent.needs_delay and delays.reveal != "before":
        return "hidden"
    if not agent.takes_late_observations and delays.observation_law is not None:
        return "late"
    return None
