"""The agents by name, and the settings of their runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from delayzero.arguments import UsageError
from delayzero.settings.run import (
    DelayedConfig,
    DelayedQConfig,
    LearningConfig,
    PlanningConfig,
    RandomConfig,
    TrainConfig,
    UndelayedConfig,
)
from delayzero.words import meant

AgentName = Literal[
    "dez",
    "oblivious",
    "oblivious-executed",
    "augmented",
    "delayed-q",
    "undelayed",
    "random",
]


@dataclass(frozen=True)
class AgentKind:
    """What tells an agent from the others."""

    about: str
    """In one line."""
    settings: type[TrainConfig] = PlanningConfig
    """What can be set about a run of it."""
    sees_queue: bool = False
    """Whether its networks see the pending actions: never more than in training."""

    @property
    def delayed(self) -> bool:
        """Whether there is a delay at all."""
        return issubclass(self.settings, DelayedConfig)

    @property
    def learns(self) -> bool:
        """Whether it learns."""
        return issubclass(self.settings, LearningConfig)


AGENTS: dict[AgentName, AgentKind] = {
    "dez": AgentKind("rolls its model through the pending actions, then searches"),
    "oblivious": AgentKind("ignores the delay, and learns from what it decided"),
    "oblivious-executed": AgentKind("ignores the delay, but learns from what was executed"),
    "augmented": AgentKind(
        "observes the pending actions, and learns from what it decided", sees_queue=True
    ),
    "delayed-q": AgentKind("Q-learning, acting at the state that a model predicts", DelayedQConfig),
    "undelayed": AgentKind("has no delay: an upper bound", UndelayedConfig),
    "random": AgentKind("decides at random: a lower bound", RandomConfig),
}


def agent_kind(name: str) -> AgentKind:
    """An agent by its name.

    Raises:
        UsageError: There is no such agent; the message names the nearest one.
    """
    for known, kind in AGENTS.items():
        if known == name:
            return kind
    guess = meant(name, AGENTS)
    hint = f"; did you mean '{guess}'? Choose" if guess else "; choose"
    raise UsageError(f"unknown agent '{name}'{hint} from {', '.join(AGENTS)}")
