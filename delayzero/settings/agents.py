"""The agents: what each one sees, what it learns from, and what can be set about it."""

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
    SearchingConfig,
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
    logs: Literal["executed", "decided"] = "executed"
    """The actions that its replay holds: those that ran, or those that it chose."""
    rolls: bool = False
    """Whether it decides for the state that its action will meet, by rolling its model."""
    sees_queue: bool = False
    """Whether the actions under way are part of what it observes."""

    @property
    def delayed(self) -> bool:
        """Whether there is a delay at all."""
        return issubclass(self.settings, DelayedConfig)

    @property
    def learns(self) -> bool:
        """Whether it learns."""
        return issubclass(self.settings, LearningConfig)

    @property
    def searches(self) -> bool:
        """Whether it learns a world model and searches with it."""
        return issubclass(self.settings, SearchingConfig)


AGENTS: dict[AgentName, AgentKind] = {
    "dez": AgentKind("rolls its model through the actions under way, then searches", rolls=True),
    "oblivious": AgentKind("takes no notice, and logs what it decided", logs="decided"),
    "oblivious-executed": AgentKind("takes no notice, but logs what really ran"),
    "augmented": AgentKind(
        "observes the actions under way, and models its decisions", logs="decided", sees_queue=True
    ),
    "delayed-q": AgentKind(
        "Q-learning, acting at the state that a model predicts", DelayedQConfig, rolls=True
    ),
    "undelayed": AgentKind("has no delay: the bound", UndelayedConfig),
    "random": AgentKind("decides at random: the floor", RandomConfig),
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
    hint = f"; did you mean '{guess}'?" if guess else ";"
    raise UsageError(f"'{name}' is no agent{hint} valid: {', '.join(AGENTS)}")
