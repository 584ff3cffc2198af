"""The settings of a run: frozen dataclasses, every field of which is on the command line.

What every run has is in :class:`TrainConfig`. A run of an agent has the settings of its kind of
agent too, and no others: see :data:`~delayzero.settings.agents.AGENTS`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

from delayzero.bounds import (
    COUNT,
    LARGEST,
    NOT_NEGATIVE,
    POSITIVE,
    Bounds,
    check_choice,
    check_numbers,
)
from delayzero.delays import Rule, parse
from delayzero.delays.execution import Reveal, check_choices
from delayzero.files import file_name
from delayzero.settings.delays import DelaySettings, FirstQueue
from delayzero.settings.learning import LearnerConfig, QConfig, ReanalysisConfig
from delayzero.settings.model import ModelConfig
from delayzero.settings.replay import ReplayConfig
from delayzero.settings.search import SearchConfig


@dataclass(frozen=True)
class TrainConfig:
    """What can be set about every run."""

    env: str = "CartPole-v1"
    """The environment: atari:Breakout, minatar:Breakout, or any Gymnasium id."""
    agent: str = ""
    """Who acts: dez, a baseline, undelayed (no delay at all) or random."""
    seed: int = 0
    """Of everything random in the run."""
    envs: int = 8
    """Environments played side by side."""
    rows: int = 16
    """Steps of all environments between two rounds of learning."""
    stack: int = 1
    """Frames in an observation."""
    max_steps: int | None = None
    """Steps after which a training episode is cut off; by default the environment's own limit."""
    interactions: int = 8000
    """Steps taken in the environments, all together."""
    evaluate_every: int = 0
    """Interactions between evaluations; 0: only at the end."""
    evaluate_episodes: int = 16
    """Episodes of an evaluation on the way."""
    evaluate_max_steps: int | None = None
    """Steps after which an episode of an evaluation on the way is cut off; see max_steps."""
    final_episodes: int = 32
    """Episodes of the evaluation at the end."""
    final_max_steps: int | None = None
    """Steps after which an episode of the evaluation at the end is cut off; see max_steps."""
    log_every: int = 500
    """Interactions between lines of metrics; updates, when all is played."""
    audit: bool = False
    """Check with every step that what ran is what should have run; slow."""
    checkpoint_minutes: float = 5.0
    """Minutes between checkpoints; inf: only at the end."""
    memory_gigabytes: float | None = None
    """Gigabytes of the device's memory to plan for: frames stay on the host where they would take
    more than their share of it, which is slower. None: all that is free."""
    folder: str | None = None
    """Where the run is kept; by default runs/ENV-AGENT-DELAY-seedSEED, with -LABEL if there is
    one."""
    label: str | None = None
    """Part of the default folder's name; the preset debug has one, to be in no other run's way."""

    agents: ClassVar[tuple[str, ...]] = ()
    """The agents that have these settings; the first one is the default."""

    def __post_init__(self) -> None:
        """Check the fields; a message says what to type."""
        if self.agent not in self.agents:
            raise ValueError(f"{type(self).__name__} is for the agents {', '.join(self.agents)}")
        bounds = {
            COUNT: (
                *("envs", "rows", "stack", "interactions", "log_every"),
                *("evaluate_episodes", "final_episodes"),
                *("max_steps", "evaluate_max_steps", "final_max_steps"),
            ),
            NOT_NEGATIVE: ("seed", "evaluate_every"),
            Bounds(0, math.inf, above=True): ("checkpoint_minutes",),
            POSITIVE: ("memory_gigabytes",),
        }
        check_numbers(self, "", bounds)

    @property
    def delays(self) -> DelaySettings | None:
        """The delays of the run; None if nothing is ever late."""
        return None

    @property
    def law(self) -> str | None:
        """The law of the delay of decisions; None without delay."""
        return None if self.delays is None else self.delays.law

    @property
    def max_delay(self) -> int:
        """M, the longest delay of a decision."""
        return 0 if self.delays is None else self.delays.max_delay

    @property
    def longest_way(self) -> int:
        """The most steps from an observation to the decision that it leads to: D + M."""
        return 0 if self.delays is None else self.max_delay + self.delays.max_observation_delay

    @property
    def total_updates(self) -> int:
        """Updates of the whole run."""
        return 0

    @property
    def updates_per_round(self) -> int:
        """Updates that go with a round of self-play, about; as many at once when all is played."""
        return 0

    def updates_due(self, interactions: int) -> int:
        """Updates that should have been made after so many interactions."""
        return 0

    @property
    def run_folder(self) -> str:
        """Where the run is kept."""
        words = [self.env, self.agent]
        if self.delays is not None:
            words += _told_apart(self.delays)
        name = file_name(*words)
        label = f"-{self.label}" if self.label else ""
        return self.folder or f"runs/{name}-seed{self.seed}{label}"


def _told_apart(delays: DelaySettings) -> list[str]:
    """Words for the default folder: the law, and what differs from the default settings."""
    usual, words = DelaySettings(), [delays.law]
    for name in ("rule", "reveal", "observation_law", "observation_rule", "first_queue"):
        value = getattr(delays, name)
        if value != getattr(usual, name):
            words += ["observed", value] if name.startswith("observation") else [name, value]
    return words


@dataclass(frozen=True)
class DelayedConfig(TrainConfig):
    """A run whose actions take effect late."""

    delay: str = "constant:0"
    """The law of the delay between a decision and its execution, see: delayzero delays list."""
    rule: Rule = "latest-generated"
    """Which of the decisions that have arrived runs: see docs/delays.md."""
    reveal: Reveal = "before"
    """When the agent learns the delay of a decision: before it decides, after, or never."""
    observation_delay: str | None = None
    """The law of the delay between an observation and its arrival; None: it arrives at once."""
    observation_rule: Rule = "latest-generated"
    """Which of the observations that have arrived the agent acts on."""
    first_queue: FirstQueue = "planned"
    """What runs until the first decision arrives: what the agent plans, action 0, or actions at
    random."""

    def __post_init__(self) -> None:
        """Validate the fields; a message says what to type."""
        super().__post_init__()
        for name, choices in (
            *(("rule", Rule), ("reveal", Reveal), ("observation_rule", Rule)),
            ("first_queue", FirstQueue),
        ):
            check_choice(name, getattr(self, name), choices)
        law = parse(self.delay)  # raises DelayError, which says what to type
        check_choices(law, self.rule, self.reveal, "plain")
        if self.observation_delay is not None:
            parse(self.observation_delay)

    @property
    def delays(self) -> DelaySettings:
        """The delays of the run."""
        return DelaySettings(
            law=self.delay,
            rule=self.rule,
            reveal=self.reveal,
            observation_law=self.observation_delay,
            observation_rule=self.observation_rule,
            first_queue=self.first_queue,
        )


@dataclass(frozen=True)
class LearningConfig(TrainConfig):
    """A run of an agent that learns."""

    overlap: bool = False
    """Learn while the next round is played, in a thread: the round then has weights a round older,
    and nobody waits for the environments."""
    clip_rewards: bool = False
    """Learn from the sign of rewards."""
    random_interactions: int = 1000
    """The first so many are random; learning begins after them."""
    update_ratio: float = 0.5
    """Updates for each interaction after that."""
    tail_updates: int = 0
    """Further updates after the last interaction."""
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    """What is kept and sampled."""

    def __post_init__(self) -> None:
        """Check the fields; a message says what to type."""
        super().__post_init__()
        check_numbers(self, "", {NOT_NEGATIVE: ("update_ratio", "tail_updates")})
        if self.random_interactions < self.needed_at_start:
            raise ValueError(
                f"--random-interactions is {self.random_interactions}; a batch of "
                f"{self.batch_size} and its windows need {self.needed_at_start}; type "
                f"--random-interactions {self.needed_at_start}"
            )
        if self.interactions <= self.random_interactions:
            raise ValueError(
                f"--interactions is {self.interactions}, of which the first "
                f"{self.random_interactions} are random: nothing would be learned; type "
                f"--interactions {2 * self.random_interactions}, or a smaller "
                "--random-interactions"
            )
        if self.replay.capacity is not None and self.replay.capacity < self.random_interactions:
            raise ValueError(
                f"--replay.capacity is {self.replay.capacity}, less than the "
                f"{self.random_interactions} interactions before learning begins; type "
                f"--replay.capacity {self.random_interactions} or more"
            )
        if self.total_updates > LARGEST:
            raise ValueError(
                f"--update-ratio {self.update_ratio} makes {self.total_updates} updates; type a "
                f"smaller one: at most {LARGEST} updates can be made"
            )

    @property
    def batch_size(self) -> int:
        """Positions that an update learns from."""
        raise NotImplementedError

    @property
    def window(self) -> int:
        """Rows that a position needs behind its own."""
        raise NotImplementedError

    @property
    def needed_at_start(self) -> int:
        """Interactions after which a batch can surely be sampled.

        Up to half of the rows may be the last ones of episodes, which are not sampled.
        """
        return 2 * self.batch_size + (self.window + self.stack + 1) * self.envs

    @property
    def total_updates(self) -> int:
        """Updates of the whole run."""
        return self.updates_due(self.interactions) + self.tail_updates

    @property
    def updates_per_round(self) -> int:
        """Updates that go with a round of self-play, about; as many at once when all is played."""
        return max(1, round(self.update_ratio * self.rows * self.envs))

    def updates_due(self, interactions: int) -> int:
        """Updates that should have been made after so many interactions."""
        learned_from = min(interactions, self.interactions) - self.random_interactions
        return max(0, int(Fraction(str(self.update_ratio)) * learned_from))  # 0.29 * 100 is 29


@dataclass(frozen=True)
class SearchingConfig(LearningConfig):
    """A run of an agent that learns a world model and searches with it."""

    discount: float = 0.997
    """Of rewards, per step."""
    prediction_rows: int = 256
    """Steps of 8 environments played at the end to measure how well the model foresees; 0: none,
    and none on the way."""
    model: ModelConfig = field(default_factory=ModelConfig)
    """The networks."""
    search: SearchConfig = field(default_factory=SearchConfig)
    """The tree search."""
    learner: LearnerConfig = field(default_factory=LearnerConfig)
    """The updates."""
    reanalysis: ReanalysisConfig = field(default_factory=ReanalysisConfig)
    """Searching stored positions again."""

    def __post_init__(self) -> None:
        """Check the fields; a message says what to type."""
        super().__post_init__()
        bounds = {NOT_NEGATIVE: ("prediction_rows",), Bounds(0, 1, above=True): ("discount",)}
        check_numbers(self, "", bounds)

    @property
    def batch_size(self) -> int:
        """Positions that an update learns from."""
        return self.learner.batch_size

    @property
    def window(self) -> int:
        """Rows that a position needs behind its own."""
        return self.learner.window


@dataclass(frozen=True)
class PlanningConfig(SearchingConfig, DelayedConfig):
    """A run of an agent that searches, under delay."""

    agent: str = "dez"
    agents: ClassVar = ("dez", "oblivious", "oblivious-executed", "augmented")


@dataclass(frozen=True)
class UndelayedConfig(SearchingConfig):
    """A run of an agent that searches, without delay."""

    agent: str = "undelayed"
    agents: ClassVar = ("undelayed",)


@dataclass(frozen=True)
class DelayedQConfig(LearningConfig, DelayedConfig):
    """A run of Delayed-Q."""

    agent: str = "delayed-q"
    q: QConfig = field(default_factory=QConfig)
    """What it learns with, and how it explores."""
    agents: ClassVar = ("delayed-q",)

    @property
    def batch_size(self) -> int:
        """Positions that an update learns from."""
        return self.q.batch_size

    @property
    def window(self) -> int:
        """Rows that a position needs behind its own."""
        return 1


@dataclass(frozen=True)
class RandomConfig(DelayedConfig):
    """A run of an agent that decides at random."""

    agent: str = "random"
    agents: ClassVar = ("random",)
