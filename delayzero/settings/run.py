"""The configuration of a run: frozen dataclasses, every field of which is on the command line."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

from delayzero.bounds import COUNT, LARGEST, NOT_NEGATIVE, POSITIVE, Bounds, check_numbers
from delayzero.delays import parse
from delayzero.files import file_name
from delayzero.settings.agents import AGENTS, AgentName
from delayzero.settings.learning import LearnerConfig, QConfig, ReanalysisConfig
from delayzero.settings.model import ModelConfig
from delayzero.settings.replay import ReplayConfig
from delayzero.settings.search import SearchConfig
from delayzero.words import meant

BOUNDS = {
    COUNT: (
        *("envs", "rows", "stack", "interactions", "log_every"),
        *("evaluate_episodes", "final_episodes"),
        *("max_steps", "evaluate_max_steps", "final_max_steps"),
    ),
    NOT_NEGATIVE: ("seed", "update_ratio", "tail_updates", "evaluate_every", "prediction_rows"),
    Bounds(0, 1, above=True): ("discount",),
    Bounds(0, math.inf, above=True): ("checkpoint_minutes",),
    POSITIVE: ("memory",),
}


@dataclass(frozen=True)
class TrainConfig:
    """A training run."""

    env: str = "CartPole-v1"
    """The environment: atari:Breakout, minatar:Breakout, or any Gymnasium id."""
    agent: AgentName = "dez"
    """Who acts: dez, a baseline, undelayed (no delay at all) or random."""
    delay: str = "constant:0"
    """The delay law, see: delayzero delays list."""
    seed: int = 0
    """Of everything random in the run."""
    envs: int = 8
    """Environments played side by side."""
    rows: int = 16
    """Steps of all environments between two rounds of learning."""
    overlap: bool = False
    """Learn while the next round is played, in a thread: the round then has weights a round older,
    and nobody waits for the environments."""
    stack: int = 1
    """Frames in an observation."""
    max_steps: int | None = None
    """Steps after which a training episode is cut off; by default the environment's own limit."""
    clip_rewards: bool = False
    """Learn from the sign of rewards."""
    discount: float = 0.997
    """Of rewards, per step."""
    interactions: int = 8000
    """Steps taken in the environments, all together."""
    random_interactions: int = 1000
    """The first so many are random; learning begins after them."""
    update_ratio: float = 0.5
    """Updates for each interaction after that."""
    tail_updates: int = 0
    """Further updates after the last interaction."""
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
    prediction_rows: int = 256
    """Steps of 8 environments played at the end to measure how well the model foresees; 0: none,
    and none on the way."""
    log_every: int = 500
    """Interactions between lines of metrics; updates, when all is played."""
    audit: bool = False
    """Check with every step that what ran is what should have run; slow."""
    checkpoint_minutes: float = 5.0
    """Minutes between checkpoints; inf: only at the end."""
    memory: float | None = None
    """Gigabytes of the device's memory to plan for: frames stay on the host where they would take
    more than their share of it, which is slower. None: all that is free."""
    folder: str | None = None
    """Where the run is kept; by default runs/ENV-AGENT-DELAY-seedSEED, with -LABEL if there is
    one."""
    label: str | None = None
    """Part of the default folder's name; the preset debug has one, to be in no other run's way."""
    model: ModelConfig = field(default_factory=ModelConfig)
    """The networks."""
    search: SearchConfig = field(default_factory=SearchConfig)
    """The tree search."""
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    """What is kept and sampled."""
    learner: LearnerConfig = field(default_factory=LearnerConfig)
    """The updates."""
    reanalysis: ReanalysisConfig = field(default_factory=ReanalysisConfig)
    """Searching stored positions again."""
    q: QConfig = field(default_factory=QConfig)
    """The agent delayed-q, in the place of model, search, learner (but its batch) and reanalysis.
    """

    def __post_init__(self) -> None:
        """Refuse what cannot be, and say what to type."""
        check_numbers(self, "", BOUNDS)
        if self.agent not in AGENTS:
            guess = meant(self.agent, AGENTS)
            hint = f"; did you mean '{guess}'?" if guess else ""
            raise ValueError(f"'{self.agent}' is no agent{hint} valid: {', '.join(AGENTS)}")
        parse(self.delay)  # raises DelayError, which says what to type
        if self.random_interactions < self.needed_at_start:
            raise ValueError(
                f"--random-interactions is {self.random_interactions}; a batch of "
                f"{self.learner.batch_size} and its windows need {self.needed_at_start}; type "
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
    def needed_at_start(self) -> int:
        """Interactions after which a batch can surely be sampled.

        Up to half of the rows may be the last ones of episodes, which are not sampled.
        """
        return 2 * self.learner.batch_size + (self.learner.window + self.stack + 1) * self.envs

    @property
    def total_updates(self) -> int:
        """Updates of the whole run."""
        tail = self.tail_updates if AGENTS[self.agent].learns else 0
        return self.updates_due(self.interactions) + tail

    @property
    def updates_per_round(self) -> int:
        """Updates that go with a round of self-play, about; as many at once when all is played."""
        return max(1, round(self.update_ratio * self.rows * self.envs))

    def updates_due(self, interactions: int) -> int:
        """Updates that should have been made after so many interactions."""
        if not AGENTS[self.agent].learns:
            return 0
        learned_from = min(interactions, self.interactions) - self.random_interactions
        return max(0, int(Fraction(str(self.update_ratio)) * learned_from))  # 0.29 * 100 is 29

    @property
    def law(self) -> str | None:
        """The delay law, or None for an agent without delay."""
        return self.delay if AGENTS[self.agent].delayed else None

    @property
    def max_delay(self) -> int:
        """M, the largest delay."""
        return 0 if self.law is None else parse(self.law).max_delay

    @property
    def run_folder(self) -> str:
        """Where the run is kept."""
        words = [self.env, self.agent, *([] if self.law is None else [self.law])]
        name = file_name(*words)
        label = f"-{self.label}" if self.label else ""
        return self.folder or f"runs/{name}-seed{self.seed}{label}"
