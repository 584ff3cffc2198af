"""The plan of a comparison: its runs, each with the command that trains it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from delayzero.campaigns.run import Run, planned
from delayzero.delays import Constant, parse
from delayzero.settings import AGENTS, AgentName, TrainConfig, compose

DELAYED_AGENTS: tuple[AgentName, ...] = ("dez", "oblivious-executed", "augmented", "delayed-q")
MOST_LAWS = 6
"""The most constant delays under which runs are evaluated by default."""


@dataclass(frozen=True)
class Plan:
    """A comparison: every agent with every seed, with the same number of interactions."""

    folder: Path
    presets: tuple[str, ...] = ("cartpole",)
    env: str | None = None
    """The environment; by default the presets'."""
    delay: str = "walk:5"
    """The delay law of training and of the final evaluation."""
    agents: tuple[AgentName, ...] = DELAYED_AGENTS
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    interactions: int | None = None
    """Environment steps of each run; by default the presets'."""
    episodes: int | None = None
    """Episodes of each run's final evaluation; by default the presets'."""
    evaluations: int = 8
    """The number of evaluations during training."""
    evaluation_episodes: int = 8
    """Episodes of each evaluation during training."""
    laws: tuple[str, ...] = ()
    """Other delay laws under which each run is evaluated after training."""
    law_episodes: int = 32
    """Episodes of each run under each of these laws."""

    def config(self, agent: AgentName, seed: int) -> TrainConfig:
        """The configuration of a run.

        Raises:
            UsageError: A setting is invalid.
        """
        return self.run(agent, seed).config

    def run(self, agent: AgentName, seed: int) -> Run:
        """The run of an agent with a seed.

        Raises:
            UsageError: A setting is invalid.
        """
        return planned(self.presets, self._settings(agent, seed))

    def runs(self) -> list[Run]:
        """All runs, seed by seed.

        Runs that are trained at the same time then have different agents, so that they do not
        compile the same programs.
        """
        return [self.run(agent, seed) for seed in self.seeds for agent in self.agents]

    def runs_of(self, agent: AgentName) -> list[Run]:
        """The runs of an agent, one for each seed."""
        return [self.run(agent, seed) for seed in self.seeds]

    def laws_of(self, agent: AgentName) -> list[str]:
        """The other laws under which an agent's runs are evaluated.

        An agent without delay is evaluated under none. An agent that observes its pending actions
        cannot observe more of them than in training, and has seen no shorter queue if it was
        trained under a constant law.
        """
        kind, trained = AGENTS[agent], parse(self.delay)
        if not kind.delayed:
            return []
        if not kind.sees_queue:
            return list(self.laws)
        if isinstance(trained, Constant):
            return [law for law in self.laws if parse(law) == trained]
        return [law for law in self.laws if parse(law).max_delay <= trained.max_delay]

    def _settings(self, agent: AgentName, seed: int) -> dict[str, Any]:
        base = compose(self.presets, agent)
        interactions = self.interactions or base.interactions
        # Half an interval longer, so that the last one does not coincide with the final evaluation.
        every = math.ceil(interactions / (self.evaluations + 0.5)) if self.evaluations else 0
        return {
            "env": self.env or base.env,
            "agent": agent,
            **({"delay": self.delay} if AGENTS[agent].delayed else {}),
            "seed": seed,
            "interactions": interactions,
            "evaluate_every": every,
            "evaluate_episodes": self.evaluation_episodes,
            "final_episodes": self.episodes or base.final_episodes,
            "folder": str(self.folder / f"{agent}-seed{seed}"),
        }


def usual_laws(delay: str) -> tuple[str, ...]:
    """At most ``MOST_LAWS`` constant delays, evenly spaced from 0 to the largest delay of a law."""
    largest = parse(delay).max_delay
    count = min(largest + 1, MOST_LAWS)
    delays = [round(i * largest / max(1, count - 1)) for i in range(count)]
    return tuple(f"constant:{d}" for d in delays)
