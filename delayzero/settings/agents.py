"""The agents: what each one sees, and what it learns from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
    logs: Literal["executed", "decided"] = "executed"
    """The actions that its replay holds: those that ran, or those that it chose."""
    rolls: bool = False
    """Whether it decides for the state that its action will meet, by rolling its model."""
    sees_queue: bool = False
    """Whether the actions under way are part of what it observes."""
    delayed: bool = True
    """Whether there is a delay at all."""
    learns: bool = True
    searches: bool = True
    """Whether it has a latent model and searches with it; if not, it learns Q-values."""

    @property
    def has_model(self) -> bool:
        """Whether it learns a latent model."""
        return self.learns and self.searches


AGENTS: dict[AgentName, AgentKind] = {
    "dez": AgentKind("rolls its model through the actions under way, then searches", rolls=True),
    "oblivious": AgentKind("takes no notice, and logs what it decided", logs="decided"),
    "oblivious-executed": AgentKind("takes no notice, but logs what really ran"),
    "augmented": AgentKind(
        "observes the actions under way, and models its decisions", logs="decided", sees_queue=True
    ),
    "delayed-q": AgentKind(
        "Q-learning, acting at the state that a model predicts", rolls=True, searches=False
    ),
    "undelayed": AgentKind("has no delay: the bound", delayed=False),
    "random": AgentKind("decides at random: the floor", learns=False),
}
