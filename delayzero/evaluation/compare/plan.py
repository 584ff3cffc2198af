"""What a comparison consists of: its runs, each with the command that makes it."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from delayzero.arguments import UsageError
from delayzero.delays import Constant, parse
from delayzero.runs.run_folder import RunFolder
from delayzero.settings import AGENTS, AgentName, TrainConfig, agent_kind, compose

DELAYED_AGENTS: tuple[AgentName, ...] = ("dez", "oblivious-executed", "augmented", "delayed-q")
MOST_LAWS = 6
"""Constant delays under which runs are evaluated unless others are named."""


@dataclass(frozen=True)
class Run:
    """One run of a comparison."""

    agent: AgentName
    seed: int
    folder: RunFolder
    words: tuple[str, ...]
    """The arguments of ``delayzero`` that start or resume it."""

    @property
    def name(self) -> str:
        """The run's name in messages and file names."""
        return self.folder.path.name


@dataclass(frozen=True)
class Plan:
    """Every agent with every seed, all with the same budget."""

    folder: Path
    presets: tuple[str, ...] = ("cartpole",)
    env: str | None = None
    """By default that of the presets."""
    delay: str = "walk:5"
    """The law of training and of the final evaluation."""
    agents: tuple[AgentName, ...] = DELAYED_AGENTS
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    interactions: int | None = None
    """Of each run; by default those of the presets."""
    episodes: int | None = None
    """Of the final evaluation; by default those of the presets."""
    evaluations: int = 8
    """On the way."""
    evaluation_episodes: int = 8
    """Of each of those."""
    laws: tuple[str, ...] = ()
    """Further laws under which each run is evaluated."""
    law_episodes: int = 32
    """Under each of them, with each seed."""

    def config(self, agent: AgentName, seed: int) -> TrainConfig:
        """The configuration of a run.

        Raises:
            UsageError: It cannot be.
        """
        try:
            return replace(compose(self.presets, agent), **self._settings(agent, seed))
        except ValueError as error:
            raise UsageError(str(error)) from None

    def run(self, agent: AgentName, seed: int) -> Run:
        """A run, with its command."""
        settings = self._settings(agent, seed)
        words = ["train", *self.presets]
        for name, value in settings.items():
            words += [f"--{name.replace('_', '-')}", str(value)]
        return Run(agent, seed, RunFolder(Path(settings["folder"])), tuple(words))

    def runs(self) -> list[Run]:
        """All runs: seed by seed, so that neighbours differ in their agent and what it compiles."""
        return [self.run(agent, seed) for seed in self.seeds for agent in self.agents]

    def runs_of(self, agent: AgentName) -> list[Run]:
        """The runs of an agent, one for each seed."""
        return [self.run(agent, seed) for seed in self.seeds]

    def laws_of(self, agent: AgentName) -> list[str]:
        """The laws under which an agent's runs are evaluated.

        The bound has no delay. An agent that sees its queue sees none that is longer than in
        training, and after a constant law it has learned nothing of shorter ones.
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
        # The last one should not fall together with the evaluation at the end.
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


def typed(words: Sequence[str]) -> str:
    """A command as one would type it."""
    return shlex.join(["delayzero", *words])


def checked_agents(names: Sequence[str]) -> tuple[AgentName, ...]:
    """The agents of these names, each once.

    Raises:
        UsageError: One is unknown; the message names the nearest.
    """
    for name in names:
        agent_kind(name)
    return tuple(dict.fromkeys(agent for name in names for agent in AGENTS if agent == name))


def usual_laws(delay: str) -> tuple[str, ...]:
    """Constant delays from none to the longest of a law, evenly, at most ``MOST_LAWS``."""
    longest = parse(delay).max_delay
    count = min(longest + 1, MOST_LAWS)
    steps = [round(i * longest / max(1, count - 1)) for i in range(count)]
    return tuple(f"constant:{step}" for step in steps)
