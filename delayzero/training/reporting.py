"""What a run tells: metrics, warnings, messages, callbacks, and where its time went."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from delayzero.playing import Ending
from delayzero.progress import say
from delayzero.runs.run_folder import RunFolder
from delayzero.training.alarms import Alarms
from delayzero.training.learning import Learning
from delayzero.training.metrics import SCORE, MetricsLog, OnMetrics

RECENT = 20
"""Episodes of self-play in the mean score that is logged."""


class Round(NamedTuple):
    """A round of self-play and learning, as a callback gets it."""

    number: int
    """Rounds so far."""
    interactions: int
    """Steps taken in the environments so far."""
    updates: int
    """Updates made so far."""
    endings: list[Ending]
    """Episodes of self-play that ended in this round."""
    metrics: Mapping[str, Any]
    """Averages over the last updates, by name (docs/runs.md)."""
    seconds: float
    """Since training began, without compiling."""


class Evaluation(NamedTuple):
    """An evaluation, as a callback gets it."""

    interactions: int
    """Steps taken in the environments so far."""
    updates: int
    """Updates made so far."""
    summary: Mapping[str, Any]
    """``score``, ``standard_error``, ``episodes``, ``lowest``, ``highest``, ``length``, ..."""
    final: bool
    """Whether it is the one at the end of training."""


@dataclass(frozen=True)
class Callbacks:
    """Functions that a run calls; what they return is ignored, what they raise ends the run."""

    on_round: Callable[[Round], Any] | None = None
    on_evaluation: Callable[[Evaluation], Any] | None = None
    on_metrics: OnMetrics | None = None


def score_text(summary: Mapping[str, Any]) -> str:
    """Return a score with its standard error."""
    spread = summary["standard_error"]
    return f"{summary['score']:.1f}" + ("" if spread is None else f" ± {spread:.1f}")


def episodes_text(summary: Mapping[str, Any]) -> str:
    """Return the number of episodes, and how many are distinct if that is fewer."""
    count, distinct = summary["episodes"], summary["distinct"]
    return f"{count} episodes" + (
        "" if distinct == count else f", only {distinct} of them distinct"
    )


class Stopwatch:
    """Where the time of a run goes, over all its starts.

    Attributes:
        spent: Seconds by kind of work.
        compile_seconds: What compiling took, which :meth:`elapsed` leaves out.
    """

    def __init__(self, compile_seconds: float) -> None:
        self.spent = {"acting": 0.0, "evaluating": 0.0}
        self.compile_seconds = compile_seconds
        self._before, self._begun = 0.0, time.monotonic()

    def elapsed(self) -> float:
        """Return the seconds of training so far."""
        return self._before + time.monotonic() - self._begun

    @contextmanager
    def measure(self, work: str, but: Mapping[str, float] | None = None) -> Iterator[None]:
        """Count the time of some work.

        Args:
            work: Its kind.
            but: Times that grow meanwhile, by kind, and are not counted here.
        """
        others = dict(but) if but is not None else {}
        begun = time.monotonic()
        yield
        elsewhere = sum((but or {}).values()) - sum(others.values())
        self.spent[work] += time.monotonic() - begun - elsewhere

    def restore(self, seconds: float, compile_seconds: float, spent: Mapping[str, float]) -> None:
        """Continue with the times of earlier starts."""
        self._before, self._begun = seconds, time.monotonic()
        self.compile_seconds += compile_seconds
        self.spent |= {name: spent.get(name, 0.0) for name in self.spent}


class Reporter:
    """Writes the metrics of a run, warns, and calls back.

    Attributes:
        watch: Where the time goes.
        recent: The last episodes of self-play.
        log: The metrics on disk.
        alarms: What warns.
    """

    def __init__(
        self,
        folder: RunFolder,
        learning: Learning,
        watch: Stopwatch,
        alarms: Alarms,
        on_metrics: OnMetrics | None = None,
    ) -> None:
        self.watch, self.alarms = watch, alarms
        self.recent: list[Ending] = []
        self.log = MetricsLog(folder.metrics, folder.path / "tensorboard", on_metrics)
        self._learning = learning
        self._warned: set[str] = set()

    def count(self, endings: Sequence[Ending]) -> None:
        """Take note of episodes that ended."""
        self.recent = [*self.recent, *endings][-RECENT:]

    def spent(self) -> dict[str, float]:
        """Return seconds by kind of work; acting is what it takes beyond learning."""
        return {**self.watch.spent, **self._learning.times}

    def write_metrics(self, interactions: int) -> None:
        """Write a line of metrics, and warn of what it says."""
        learning = self._learning
        values: dict[str, Any] = {
            "updates": learning.updates,
            "seconds": round(self.watch.elapsed(), 3),
            **{name: np.asarray(value) for name, value in learning.metrics.items()},
            **learning.health(),
            **learning.fresh(),
            **{f"seconds/{name}": round(spent, 3) for name, spent in self.spent().items()},
        }
        if self.recent:
            values["selfplay/score"] = float(np.mean([e.score for e in self.recent]))
            values["selfplay/length"] = float(np.mean([e.length for e in self.recent]))
        warnings = self.alarms.check(values, learning.updates)
        if warnings:
            values["warnings"] = warnings
        self._warn(warnings)
        self.log.write(interactions, values)

    def _warn(self, warnings: Sequence[str]) -> None:
        """Print warnings of metrics that the last line did not warn of."""
        by_metric = {warning.partition(":")[0]: warning for warning in warnings}
        for metric in by_metric.keys() - self._warned:
            say(f"warning: {by_metric[metric]}")
        self._warned = set(by_metric)

    def write_evaluation(self, interactions: int, values: Mapping[str, Any]) -> None:
        """Write a line with the figures of an evaluation on the way."""
        learning = self._learning
        line = {"updates": learning.updates, "seconds": round(self.watch.elapsed(), 3)}
        self.log.write(interactions, {**values, **line})

    def note(self) -> str:
        """Return what stands beside the bar of progress."""
        parts = [f"updates {self._learning.updates}"]
        if self.recent:
            parts.append(f"score {np.mean([e.score for e in self.recent]):.1f}")
        if self.log.evaluations:
            last = self.log.evaluations[-1]
            parts.append(f"evaluation {last[SCORE]:.1f} at {last['interactions']}")
        if "loss" in self._learning.metrics:
            parts.append(f"loss {float(self._learning.metrics['loss']):.3f}")
        return ", ".join(parts)

    def close(self) -> None:
        """Close the files."""
        self.log.close()
