"""What a report shows of one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from delayzero.evaluation.over_seeds import Points
from delayzero.evaluation.paper.tables import paper_game


@dataclass(frozen=True)
class Start:
    """A start or a resumption of a run."""

    command: str
    commit: str
    device: str


@dataclass(frozen=True)
class Warned:
    """A warning of a run: the last one about a metric, and when there were some."""

    metric: str
    text: str
    first: int
    """Interactions at the first one."""
    last: int
    """Interactions at the last one."""
    lasts: bool
    """Whether the last line of metrics has it."""


@dataclass(frozen=True)
class Run:
    """What a report shows of one run.

    Attributes:
        name: The folder's or the record's name.
        path: Its folder or its record. Of a run that only a comparison knows: the comparison's
            folder or file, and in it the run's name.
        env: The environment, as typed.
        delay: The text of its delay law; ``"none"`` without delay.
        agent: The agent's name.
        seed: The seed.
        config: Its settings, as stored; empty if unknown.
        finished: Whether the final evaluation is there.
        interactions: Interactions made.
        share: The part of training that is done, from 0 to 1; None if unknown.
        seconds: Seconds of training.
        scores: Of the episodes of the final evaluation.
        evaluations: Mean scores of evaluations by interactions, with the final one.
        selfplay: Mean scores of recent self-play by interactions.
        health: Health metrics by name.
        warnings: What the run warned of.
        prediction: Curves of prediction quality by horizon.
        by_delay: Scores under other laws.
        starts: Its commands.
        videos: Files of videos and pages in its folder.
        modified: When its metrics were last written, in seconds; None if unknown.
    """

    name: str
    path: Path
    env: str
    delay: str
    agent: str
    seed: int
    config: Mapping[str, Any] = field(default_factory=dict)
    finished: bool = True
    interactions: int = 0
    share: float | None = None
    seconds: float = 0.0
    scores: Sequence[float] = ()
    evaluations: Points = field(default_factory=list)
    selfplay: Points = field(default_factory=list)
    health: Mapping[str, Points] = field(default_factory=dict)
    warnings: Sequence[Warned] = ()
    prediction: Mapping[str, Any] = field(default_factory=dict)
    by_delay: Mapping[str, Sequence[float]] = field(default_factory=dict)
    starts: Sequence[Start] = ()
    videos: Sequence[Path] = ()
    modified: float | None = None

    @property
    def game(self) -> str:
        """The environment's name as the paper writes it, or as it was typed."""
        kind, _, name = self.env.partition(":")
        return (paper_game(name) if kind.lower() == "atari" else None) or self.env

    @property
    def left(self) -> float | None:
        """The seconds of training that are left at the pace so far; None if unknown."""
        if not self.share or not self.seconds or self.finished:
            return None
        return self.seconds / self.share - self.seconds

    @property
    def last_evaluation(self) -> tuple[float, float] | None:
        """The interactions and the score of the last evaluation; None if there was none."""
        return self.evaluations[-1] if self.evaluations else None
