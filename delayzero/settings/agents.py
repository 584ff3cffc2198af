"""The agents by name, with the settings class of each."""

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
    """Description and properties of an agent."""

    about: str
    """One-line description."""
    settings: type[TrainConfig] = PlanningConfig
    """The settings class of its runs."""
    sees_queue: bool = False
    """Whether its networks take the pending actions as input, so that no queue may be longer than
    in training."""

    @property
    def delayed(self) -> bool:
        """Whether its runs have delay settings."""
        return issubclass(self.settings, DelayedConfig)

    @property
    def learns(self) -> bool:
        """Whether it learns, as opposed to deciding at random."""
        return issubclass(self.settings, LearningConfig)


AGENTS: dict[AgentName, AgentKind] = {
    "dez": AgentKind("rolls its model through the pending actions, then searches"),
    "oblivious": AgentKind("ignores the delay; learns from the actions it decided"),
    "oblivious-executed": AgentKind(
        "ignores the delay; learns from the actions that were executed"
    ),
    "augmented": AgentKind(
        "observes the pending actions; learns from the actions it decided", sees_queue=True
    ),
    "delayed-q": AgentKind("Q-learning at the state that a forward model predicts", DelayedQConfig),
    "undelayed": AgentKind("acts without delay: an upper bound", UndelayedConfig),
    "random": AgentKind("decides at random: a lower bound", RandomConfig),
}


def agent_kind(name: str) -> AgentKind:
    """Return an agent by its name.

    Raises:
        UsageError: The agent is unknown; the message suggests the nearest name.
    """
    for agent, kind in AGENTS.items():
        if agent == name:
            return kind
    guess = meant(name, AGENTS)
    hint = f"; did you mean '{guess}'? Choose" if guess else "; choose"
    raise UsageError(f"unknown agent '{name}'{hint} from {', '.join(AGENTS)}")
