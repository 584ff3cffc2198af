"""Delay settings of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from delayzero.delays import Rule, parse
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
        """D, the longest delay of an observation, in steps."""
        return 0 if self.observation_law is None else parse(self.observation_law).max_delay
