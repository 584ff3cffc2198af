"""A recorded episode, as plain data: what is drawn, and what the page shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

Ending = Literal["ended", "cut off", "goes on"]
"""By itself, by the environment's limit on its steps, or not within what was recorded."""


class Sent(NamedTuple):
    """A decision on its way, or an action of the first queue."""

    time: int
    """When it was decided; negative for the first queue."""
    action: int


@dataclass(frozen=True)
class Moment:
    """One decision, with what became of it. Times are steps of the episode."""

    time: int
    seen: int
    """The time of the observation that the agent acts on; earlier if observations are late."""
    delay: int
    """Steps until the decision arrives."""
    told: bool
    """Whether the agent knew the delay when it decided."""
    lane: tuple[Sent, ...]
    """What runs now and in the coming steps, up to this decision, which is the last."""
    dropped: tuple[Sent, ...]
    """Decisions that can no longer run, because of this one."""
    repeated: bool
    """Whether the action that runs now has run before."""
    action: int
    """What the agent decided."""
    policy: tuple[float, ...] | None
    """The searched policy; None for agents that do not search."""
    target: int
    """The time of the state that the agent decides for, as it believes."""
    foreseen: float | None
    """The value that the search gave that state."""
    realised: float | None
    """The discounted return from that state; None if the episode ended before it."""
    met: int | None
    """When the decision first ran; None if it never did."""
    there: int | None
    """What the agent chooses if it sees the state of that time, with nothing pending."""
    reward: float
    """Of the step that ran now."""
    score: float
    """The sum of rewards before it."""


@dataclass(frozen=True)
class Episode:
    """An episode of one run."""

    agent: str
    run: str
    """The name of the run's folder."""
    env: str
    law: str
    """Of the actions' delay; with the rule if it is not the usual one, and the observations'."""
    names: tuple[str, ...]
    """Of the actions."""
    longest: int
    """M, the longest delay."""
    number: int
    """Which of the recorded episodes, from 0."""
    moments: tuple[Moment, ...]
    frames: tuple[bytes, ...]
    """The picture of each time, one more than there are moments; PNG, or JPEG if that is large."""
    score: float
    """Of what was recorded."""
    ending: Ending

    @property
    def closing(self) -> str:
        """How the episode ended, in words."""
        count = len(self.moments)
        return f"{self.ending} after {count} step{'' if count == 1 else 's'}"

    def at(self, time: int) -> Moment:
        """The moment of a time; the last one after the end."""
        return self.moments[min(time, len(self.moments) - 1)]

    def fate(self, moment: Moment) -> tuple[bool, str]:
        """Whether a decision that did not run was dropped, and why it did not run."""
        if any(moment.time == one.time for later in self.moments for one in later.dropped):
            return True, "dropped: it never runs"
        if self.ending == "goes on":
            return False, "it runs after what is shown"
        return False, "the end comes before it"

    def agreement(self) -> tuple[int, int]:
        """How many decisions are what the agent chooses where they ran, and of how many."""
        compared = [moment for moment in self.moments if moment.there is not None]
        return sum(moment.there == moment.action for moment in compared), len(compared)
