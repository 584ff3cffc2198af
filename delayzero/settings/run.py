"""Settings of a run: frozen dataclasses, every field of which is a command-line option.

Every run has the settings in :class:`TrainConfig`, and those of its kind of agent: see
:data:`~delayzero.settings.agents.AGENTS`. The docstrings under the fields are the options' help.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import ClassVar, Literal

from delayzero.bounds import (
    COUNT,
    LARGEST,
    NOT_NEGATIVE,
    PARALLEL,
    POSITIVE,
    SHARE,
    Bounds,
    check_choice,
    check_numbers,
    option,
)
from delayzero.delays import Rule
from delayzero.delays.channel import resolve_law
from delayzero.delays.execution import Reveal, check_choices
from delayzero.files import file_name
from delayzero.settings.delays import DelaySettings, FirstQueue
from delayzero.settings.learning import LearnerConfig, QConfig, ReanalysisConfig
from delayzero.settings.model import ModelConfig
from delayzero.settings.replay import ReplayConfig
from delayzero.settings.search import SearchConfig

EngineName = Literal["local", "ray"]
MOST_PREDICTION_ROWS = 10_000
"""The largest --prediction-rows: all of them are kept in memory, and 512 positions are drawn."""


@dataclass(frozen=True)
class TrainConfig:
    """Settings of every run."""

    env: str = "CartPole-v1"
    """Environment: atari:GAME, minatar:GAME, a Gymnasium id, module:ID or module:FUNCTION."""
    agent: str = ""
    """Agent: dez, oblivious, oblivious-executed, augmented, delayed-q, undelayed or random.
    Agents differ in their settings: --agent NAME --help lists those of another one."""
    seed: int = 0
    """Seed of all randomness in the run."""
    envs: int = 8
    """Environments played in parallel."""
    rows: int = 16
    """Steps of every environment per round; the updates due are made after each round."""
    stack: int = 1
    """Frames stacked in an observation."""
    max_steps: int | None = None
    """Steps after which a training episode is truncated; None: the environment's limit."""
    interactions: int = 8000
    """Total steps of all environments."""
    evaluate_every: int = 0
    """Interactions between evaluations; 0: evaluate only at the end."""
    evaluate_episodes: int = 16
    """Episodes per evaluation during training."""
    evaluate_max_steps: int | None = None
    """Like --max-steps, for evaluations during training; None: --max-steps."""
    final_episodes: int = 32
    """Episodes of the final evaluation."""
    final_max_steps: int | None = None
    """Like --max-steps, for the final evaluation; None: --max-steps."""
    log_every: int = 500
    """Interactions between lines of metrics; after the last interaction, updates."""
    audit: bool = False
    """Check at every step that the right action was executed and stored; slow."""
    checkpoint_minutes: float = 5.0
    """Minutes between checkpoints; inf: only at the end or when interrupted."""
    engine: EngineName = "local"
    """Where environments are played: local, in this process; ray, in actors of a Ray cluster."""
    actors: int | None = None
    """With --engine ray: the number of actors, which share the environments equally."""
    address: str | None = None
    """With --engine ray: the cluster's address, auto for this machine's; None: start one here."""
    actor_cores: float = 1.0
    """With --engine ray: cores that an actor takes; less than 1 where simulators mostly wait."""
    actor_gpus: float = 0.0
    """With --engine ray: the share of a GPU that an actor takes; 0: it uses the CPU."""
    memory_gigabytes: float | None = None
    """Device memory that the run may use, in GB; None: all that is free.
    Frames that would take more than their share of it stay on the host, which is slower."""
    folder: str | None = None
    """Folder of the run; None: runs/ENV-AGENT-DELAY-seedSEED, with -LABEL if there is one."""
    label: str | None = None
    """Suffix of the default folder; the preset debug sets one, to keep its runs apart."""

    agents: ClassVar[tuple[str, ...]] = ()
    """The agents with these settings; the first one is the default."""

    def __post_init__(self) -> None:
        """Validate the fields; messages say what to type."""
        if self.agent not in self.agents:
            raise ValueError(f"{type(self).__name__} is for the agents {', '.join(self.agents)}")
        bounds = {
            COUNT: (
                *("rows", "stack", "interactions", "log_every"),
                *("max_steps", "evaluate_max_steps", "final_max_steps"),
            ),
            PARALLEL: ("envs", "evaluate_episodes", "final_episodes"),  # one environment for each
            NOT_NEGATIVE: ("seed", "evaluate_every"),
            Bounds(0, math.inf, above=True): ("checkpoint_minutes",),
            POSITIVE: ("memory_gigabytes", "actor_cores"),
            SHARE: ("actor_gpus",),
        }
        check_numbers(self, "", bounds)
        check_choice("engine", self.engine, EngineName)
        self._check_actors()

    def _check_actors(self) -> None:
        """Check that the settings of actors go together, and that they can share the work."""
        if self.engine == "local":
            own = {field.name: field.default for field in fields(TrainConfig)}
            for name in ("actors", "address", "actor_cores", "actor_gpus"):
                if getattr(self, name) != own[name]:
                    raise ValueError(f"{option(name)} is for Ray; type --engine ray too")
            return
        if self.actors is None:
            raise ValueError("--engine ray needs the number of actors; type --actors 2, or more")
        check_numbers(self, "", {COUNT: ("actors",)})
        if self.envs % self.actors:
            shares = [n for n in range(1, self.envs + 1) if self.envs % n == 0]
            raise ValueError(
                f"--actors is {self.actors}, which cannot share {self.envs} environments equally; "
                f"type --actors {_nearest(shares, self.actors)}, or another --envs"
            )

    @property
    def shares(self) -> int:
        """The number of parts into which the environments are divided."""
        return self.actors or 1

    @property
    def delays(self) -> DelaySettings | None:
        """The delays of the run; None without delay settings."""
        return None

    @property
    def law(self) -> str | None:
        """The law of the execution delay; None without delay settings."""
        return None if self.delays is None else self.delays.law

    @property
    def max_delay(self) -> int:
        """M, the longest delay of a decision, in steps."""
        return 0 if self.delays is None else self.delays.max_delay

    @property
    def max_observation_delay(self) -> int:
        """D, the greatest age of the observation that the agent acts on, in steps."""
        return 0 if self.delays is None else self.delays.max_observation_delay

    @property
    def longest_way(self) -> int:
        """The most steps from an observation to the decision that it leads to: D + M."""
        return self.max_observation_delay + self.max_delay

    @property
    def total_updates(self) -> int:
        """Total number of updates in the run."""
        return 0

    @property
    def updates_per_round(self) -> int:
        """Updates per round of self-play, rounded; also per round after the last interaction."""
        return 0

    def updates_due(self, interactions: int) -> int:
        """Return the number of updates due after a number of interactions."""
        return 0

    @property
    def run_folder(self) -> str:
        """The folder of the run."""
        words = [self.env, self.agent]
        if self.delays is not None:
            words += _delay_words(self.delays)
        name = file_name(*words)
        label = f"-{file_name(self.label)}" if self.label else ""
        return self.folder or f"runs/{name}-seed{self.seed}{label}"


def _nearest(numbers: Sequence[int], wanted: int) -> int:
    """Return the number that is nearest to the wanted one."""
    return min(numbers, key=lambda number: abs(number - wanted))


def _delay_words(delays: DelaySettings) -> list[str]:
    """Return words for the default folder: the law, and settings that differ from the default."""
    usual, words = DelaySettings(), [delays.law]
    for name in ("rule", "reveal", "observation_law", "observation_rule", "first_queue"):
        value = getattr(delays, name)
        if value != getattr(usual, name):
            words += ["observed", value] if name.startswith("observation") else [name, value]
    return words


@dataclass(frozen=True)
class DelayedConfig(TrainConfig):
    """Settings of a run whose actions take effect late."""

    delay: str = "constant:0"
    """Law of the delay from decision to execution, in steps, such as walk:15.
    List the laws with: delayzero delays list."""
    rule: Rule = "latest-generated"
    """Which of the decisions that have arrived is executed; see docs/delays.md."""
    reveal: Reveal = "before"
    """When the agent learns the delay of a decision: before it decides, after, or never."""
    observation_delay: str | None = None
    """Law of the delay from an observation to its arrival, in steps; None: no delay."""
    observation_rule: Rule = "latest-generated"
    """Which of the observations that have arrived the agent acts on."""
    first_queue: FirstQueue = "planned"
    """Actions until the first decision arrives: planned by the agent, all 0, or random."""

    def __post_init__(self) -> None:
        """Validate the fields; messages say what to type."""
        super().__post_init__()
        for name, choices in (
            *(("rule", Rule), ("reveal", Reveal), ("observation_rule", Rule)),
            ("first_queue", FirstQueue),
        ):
            check_choice(name, getattr(self, name), choices)
        law, _ = resolve_law(self.delay, None)  # raises DelayError, which says what to type
        check_choices(law, self.rule, self.reveal, "plain")
        if self.observation_delay is not None:
            resolve_law(self.observation_delay, None)

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
    """Settings of an agent that learns."""

    overlap: bool = False
    """Learn in a thread while the next round is played with weights that are one round older."""
    clip_rewards: bool = False
    """Learn from the sign of each reward; scores stay raw."""
    random_interactions: int = 1000
    """Interactions with random actions before learning begins."""
    update_ratio: float = 0.5
    """Updates per interaction once learning has begun."""
    tail_updates: int = 0
    """Additional updates after the last interaction."""
    devices: int | None = None
    """Devices of this machine that share the replay, the batches and the sweeps.
    They divide --envs, the batch size and the roots of a sweep. None: as many as do."""
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    """Capacity and sampling of the replay."""

    def __post_init__(self) -> None:
        """Validate the fields; messages say what to type."""
        super().__post_init__()
        bounds = {NOT_NEGATIVE: ("update_ratio", "tail_updates"), COUNT: ("devices",)}
        check_numbers(self, "", bounds)
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
                f"smaller one: the limit is {LARGEST} updates"
            )

    @property
    def batch_size(self) -> int:
        """Positions sampled per update."""
        raise NotImplementedError

    @property
    def window(self) -> int:
        """Rows after a sampled position that its targets need."""
        raise NotImplementedError

    @property
    def needed_at_start(self) -> int:
        """Interactions after which a batch can always be sampled.

        Up to half of the rows may be the last rows of episodes, which are never sampled.
        """
        return 2 * self.batch_size + (self.window + self.stack + 1) * self.envs

    @property
    def total_updates(self) -> int:
        """Total number of updates in the run."""
        return self.updates_due(self.interactions) + self.tail_updates

    @property
    def updates_per_round(self) -> int:
        """Updates per round of self-play, rounded; also per round after the last interaction."""
        return max(1, round(self.update_ratio * self.rows * self.envs))

    def updates_due(self, interactions: int) -> int:
        """Return the number of updates due after a number of interactions."""
        learned_from = min(interactions, self.interactions) - self.random_interactions
        return max(0, int(Fraction(str(self.update_ratio)) * learned_from))  # 0.29 * 100 is 29


@dataclass(frozen=True)
class SearchingConfig(LearningConfig):
    """Settings of an agent that learns a world model and searches with it."""

    discount: float = 0.997
    """Discount of rewards, per step."""
    prediction_rows: int = 256
    """Steps of 8 environments played after training to measure how well the model predicts.
    0: never measure it, not even in evaluations during training."""
    model: ModelConfig = field(default_factory=ModelConfig)
    """Networks of the world model."""
    search: SearchConfig = field(default_factory=SearchConfig)
    """Tree search."""
    learner: LearnerConfig = field(default_factory=LearnerConfig)
    """Targets, losses and optimiser of the updates."""
    reanalysis: ReanalysisConfig = field(default_factory=ReanalysisConfig)
    """Searching stored positions again with newer weights, for better targets."""

    def __post_init__(self) -> None:
        """Validate the fields; messages say what to type."""
        super().__post_init__()
        bounds = {
            Bounds(0, MOST_PREDICTION_ROWS): ("prediction_rows",),
            Bounds(0, 1, above=True): ("discount",),
        }
        check_numbers(self, "", bounds)

    @property
    def batch_size(self) -> int:
        """Positions sampled per update."""
        return self.learner.batch_size

    @property
    def window(self) -> int:
        """Rows after a sampled position that its targets need."""
        return self.learner.window

    @property
    def sweep_roots(self) -> int:
        """Positions in a chunk of a sweep, never more than are stored when learning begins."""
        return min(self.reanalysis.roots, self.random_interactions)


@dataclass(frozen=True)
class PlanningConfig(SearchingConfig, DelayedConfig):
    """Settings of an agent that searches with a learned model, under delay."""

    agent: str = "dez"
    agents: ClassVar = ("dez", "oblivious", "oblivious-executed", "augmented")


@dataclass(frozen=True)
class UndelayedConfig(SearchingConfig):
    """Settings of an agent that searches with a learned model, without delay."""

    agent: str = "undelayed"
    agents: ClassVar = ("undelayed",)


@dataclass(frozen=True)
class DelayedQConfig(LearningConfig, DelayedConfig):
    """Settings of Delayed-Q."""

    agent: str = "delayed-q"
    q: QConfig = field(default_factory=QConfig)
    """Networks, optimiser and exploration of Delayed-Q."""
    agents: ClassVar = ("delayed-q",)

    @property
    def batch_size(self) -> int:
        """Positions sampled per update."""
        return self.q.batch_size

    @property
    def window(self) -> int:
        """Rows after a sampled position that its targets need."""
        return 1


@dataclass(frozen=True)
class RandomConfig(DelayedConfig):
    """Settings of an agent that decides at random."""

    agent: str = "random"
    agents: ClassVar = ("random",)
