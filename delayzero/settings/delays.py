"""Delay settings of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from delayzero.delays import Law, Rule, make_schedule, parse
from delayzero.delays.execution import Reveal

FirstQueue = Literal["planned", "default", "random"]


@dataclass(frozen=True)
class DelaySettings:
    """What is delayed in a run, and what the agent knows about it."""

    law: str = "constant:0"
    """Law of the delay between a decision and its execution."""
    rule: Rule = "latest-generated"
    """Which of the decisions that have arrived is executed."""
    reveal: Reveal = "before"
    """When the agent learns the delay of a decision."""
    observation_law: str | None = None
    """Law of the delay between an observation and its arrival; None: no delay."""
    observation_rule: Rule = "latest-generated"
    """Which of the observations that have arrived the agent acts on."""
    first_queue: FirstQueue = "planned"
    """Which actions run until the first decision arrives."""

    @property
    def max_delay(self) -> int:
        """M, the longest delay of a decision, in steps."""
        return parse(self.law).max_delay

    @property
    def max_observation_delay(self) -> int:
        """D, the greatest age of the observation that the agent acts on."""
        if self.observation_law is None:
            return 0
        return greatest_age(parse(self.observation_law), self.observation_rule)


def greatest_age(law: Law, rule: Rule) -> int:
    """Return the greatest age of what a rule shows: 2 M for ``latest-arrival``, otherwise M."""
    return make_schedule(rule, law.max_delay).places - 1
