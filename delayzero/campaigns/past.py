"""How long runs take, judged by past ones."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files

from delayzero.campaigns.run import Run, read_result
from delayzero.settings import DelayedQConfig, SearchingConfig, TrainConfig

KINDS = ("atari", "minatar")
"""Environments of a kind take about the same time."""


@dataclass(frozen=True)
class Past:
    """A past run, or the projection of one to come."""

    like: str
    """See :func:`likeness`."""
    device: str
    interactions: int
    updates: int
    seconds: float
    """From the start to the result, with compiling and evaluations, alone on the device."""


def likeness(config: TrainConfig) -> str:
    """What the time of an update depends on: runs with the same text take about the same.

    Those are the kind of environment and of agent, the search and the size of batches. The delay
    is left out: ``walk:25`` makes an update in Atari 1.17 times as long as ``constant:0``, by
    positions with a lead (docs/performance.md), and the rest of a round hardly longer.
    """
    kind = config.env.partition(":")[0].lower()
    words = [kind if kind in KINDS else config.env]
    if isinstance(config, SearchingConfig):
        search, learner = config.search, config.learner
        words += [
            search.method,
            f"{search.simulations or 'usual'} simulations",
            f"batch {learner.batch_size}",
        ]
        words += [f"unroll {learner.unroll}", config.reanalysis.mode]
    elif isinstance(config, DelayedQConfig):
        words += ["delayed-q", f"batch {config.q.batch_size}"]
    else:
        words += [config.agent]
    return ", ".join(words)


def packaged_past() -> list[Past]:
    """The past runs in the package: those of ``results/`` in the repository that ran alone."""
    text = files("delayzero.campaigns").joinpath("past_runs.csv").read_text()
    return [
        Past(
            row["like"],
            row["device"],
            int(row["interactions"]),
            int(row["updates"]),
            float(row["seconds"]),
        )
        for row in csv.DictReader(text.splitlines())
    ]


def finished_past(runs: Iterable[Run], beside: int) -> list[Past]:
    """Those of some runs that have finished.

    Args:
        runs: The runs.
        beside: How many ran at the same time. Each counts with its share of the time.

    Raises:
        UsageError: A result is damaged.
    """
    past = []
    for run in runs:
        if run.finished:
            result = read_result(run.folder)
            parts = ("train_seconds", "compile_seconds", "evaluate_seconds")
            seconds = sum(float(result.get(part, 0.0)) for part in parts)
            device = str(result.get("versions", {}).get("device", "an unknown device"))
            made = int(result["interactions"]), int(result["updates"])
            past.append(Past(likeness(run.config), device, *made, seconds / beside))
    return past


def projected(config: TrainConfig, past: Sequence[Past]) -> Past | None:
    """Project the time of a run from the first device that has past runs like it.

    Args:
        config: The run.
        past: Past runs; those that should count most come first.

    Returns:
        None if no past run is like it.
    """
    like = likeness(config)
    alike = [run for run in past if run.like == like and _units(run.interactions, run.updates)]
    if not alike:
        return None
    device = alike[0].device
    paces = [
        run.seconds / _units(run.interactions, run.updates) for run in alike if run.device == device
    ]
    pace = sum(paces) / len(paces)
    seconds = pace * _units(config.interactions, config.total_updates)
    return Past(like, device, config.interactions, config.total_updates, seconds)


def _units(interactions: int, updates: int) -> int:
    """What the time of a run is proportional to: its updates, without them its interactions."""
    return updates or interactions
