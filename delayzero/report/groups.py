"""Runs grouped over seeds: which differ in nothing else, their curves, their scores."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delayzero.arguments import UsageError
from delayzero.evaluation.statistics import bootstrap_interval, iqm, mean_intervals
from delayzero.report.runs import Points, Run
from delayzero.settings import AGENTS
from delayzero.settings.stored import FREE_FIELDS, code_named, flat, from_json

WATCHING = ("evaluate_every", "evaluate_episodes", "evaluate_max_steps", "prediction_rows", "audit")
"""Settings of what is measured during training."""
APART = ("seed", "env", "agent", "delay", *WATCHING, *FREE_FIELDS)
"""Settings that have columns of their own, or no effect on what is learned."""
MOST_NAMED = 2
"""Settings that the label of a group names."""
NEAR = 0.03
"""Share of a curve's length by which the ends of seeds may differ and still count as one place."""
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Group:
    """Runs that differ only in their seed.

    Attributes:
        cell: The environment and the law.
        agent: The agent's name.
        label: The agent, and what distinguishes this group from others of the same agent.
        place: The number of the group among those of the same cell and agent.
        runs: The runs, by seed.
    """

    cell: tuple[str, str]
    agent: str
    label: str
    place: int
    runs: Sequence[Run]

    @property
    def scores(self) -> list[Sequence[float]]:
        """The scores of each finished run's final episodes."""
        return [run.scores for run in self.runs if run.scores]


@dataclass(frozen=True)
class Score:
    """The final score of a group.

    Attributes:
        mean: The mean over seeds of the mean scores.
        spread: The standard deviation of the seeds' mean scores; with one seed, of the scores of
            its episodes; None for one episode.
        seeds: The number of seeds.
        iqm: The interquartile mean of all scores.
        interval: Its 95 % bootstrap interval; None for one seed.
    """

    mean: float
    spread: float | None
    seeds: int
    iqm: float
    interval: tuple[float, float] | None

    def __str__(self) -> str:
        """The mean and the spread, which is in brackets if it is that of one seed's episodes."""
        if self.spread is None:
            return shown(self.mean)
        spread = f"± {shown(self.spread)}"
        return f"{shown(self.mean)} " + (spread if self.seeds > 1 else f"({spread})")


@dataclass(frozen=True)
class Band:
    """A curve over seeds; each list has an entry for each x, None where there is no value."""

    x: list[float]
    mean: list[float | None]
    low: list[float | None]
    high: list[float | None]
    each: list[list[float | None]]
    """The curve of each run."""


def shown(value: float) -> str:
    """A number with as many digits as matter."""
    if not math.isfinite(value):
        return "-"
    return f"{value:,.0f}".replace(",", " ") if abs(value) >= 1000 else f"{value:.4g}"


def group_runs(runs: Sequence[Run]) -> list[Group]:
    """Group runs over seeds, in the order of environment, law (by its longest delay) and agent."""
    ordered = sorted(runs, key=lambda run: (run.game, law_order(run.delay), _rank(run), run.seed))
    by_agent: dict[tuple[str, str, str], dict[str, list[Run]]] = {}
    for run in ordered:
        settings = json.dumps(comparable(run.config), sort_keys=True, default=str)
        key = (run.game, run.delay, run.agent)
        by_agent.setdefault(key, {}).setdefault(settings, []).append(run)
    groups = []
    for (game, delay, agent), variants in by_agent.items():
        labels = _labels(agent, [json.loads(settings) for settings in variants])
        for place, (label, same) in enumerate(zip(labels, variants.values(), strict=True)):
            groups.append(Group((game, delay), agent, label, place, same))
    return groups


def cells(groups: Sequence[Group]) -> dict[tuple[str, str], list[Group]]:
    """The groups of each environment and law."""
    found: dict[tuple[str, str], list[Group]] = {}
    for group in groups:
        found.setdefault(group.cell, []).append(group)
    return found


def best_groups(groups: Sequence[Group]) -> dict[tuple[str, str, str], Group]:
    """For each environment, law and agent, the group with the most finished seeds."""
    best: dict[tuple[str, str, str], Group] = {}
    for group in groups:
        key = (*group.cell, group.agent)
        if group.scores and (key not in best or len(group.scores) > len(best[key].scores)):
            best[key] = group
    return best


def comparable(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that distinguish groups, on one level; those of older versions as today's."""
    return dict(_comparable(json.dumps(config, default=str)))


@lru_cache(maxsize=4096)
def _comparable(stored: str) -> Mapping[str, Any]:
    config = values = json.loads(stored)
    try:
        if config and not code_named(config, with_env=False):  # reading them would run it
            values = asdict(from_json(config))
    except (UsageError, ValueError, TypeError):
        pass  # of another version, or damaged: compared as they are
    return {name: value for name, value in flat(values).items() if name not in APART}


def law_order(law: str) -> tuple[str, float, str]:
    """Sorts laws by kind, then by their first number."""
    kind, _, rest = law.partition(":")
    return kind, longest(law) or 0, rest


def longest(law: str) -> int | None:
    """The longest delay of ``walk:M`` or ``constant:M``; None for other laws."""
    kind, _, rest = law.partition(":")
    return int(rest) if kind in ("walk", "constant") and rest.isdecimal() else None


def final_score(group: Group) -> Score | None:
    """The final score of a group; None if no run of it has finished."""
    return score_of(group.scores) if group.scores else None


def score_of(by_seed: Sequence[Sequence[float]]) -> Score:
    """The score from the scores of each seed's episodes."""
    return _score(tuple(tuple(scores) for scores in by_seed))


@lru_cache(maxsize=4096)  # a bootstrap takes a tenth of a second, and a served page asks again
def _score(by_seed: tuple[tuple[float, ...], ...]) -> Score:
    means = [float(np.mean(scores)) for scores in by_seed]
    together = np.concatenate([np.asarray(scores, np.float64) for scores in by_seed])
    several = len(means) > 1
    values = np.asarray(means) if several else together
    return Score(
        mean=float(np.mean(means)),
        spread=float(np.std(values, ddof=1)) if len(values) > 1 else None,
        seeds=len(means),
        iqm=iqm(together),
        interval=bootstrap_interval(by_seed) if several else None,
    )


def band(curves: Sequence[Points], most: int) -> Band | None:
    """The mean of curves with its interval, at no more than ``most`` points; None without points.

    Curves are interpolated at common places, within the range in which they have points: the last
    evaluations of two seeds are up to a round apart.
    """
    there = [np.asarray(curve, np.float64).reshape(-1, 2).T for curve in curves if curve]
    if not there:
        return None
    first, last = min(c[0, 0] for c in there), max(c[0, -1] for c in there)
    steps = np.diff(max(there, key=lambda curve: curve.shape[1])[0])
    near = max(NEAR * last, float(np.median(steps)) / 2 if len(steps) else 0.0)
    x = _grid(there, first, last, near, most)
    values = np.full((len(curves), len(x)), np.nan)
    filled = iter(there)
    for row, curve in enumerate(curves):
        if curve:
            xs, ys = _thinned(next(filled), most)
            inside = (x >= xs[0] - near) & (x <= xs[-1] + near)
            values[row, inside] = np.interp(x[inside], xs, ys)
    return band_of(x, values)


def band_of(x: Floats, values: Floats) -> Band:
    """The mean and the interval of curves ``[runs, points]`` at the places ``x``."""
    count = (~np.isnan(values)).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.nansum(values, axis=0) / count
    low, high = mean_intervals(values) if len(values) > 1 else np.full((2, len(x)), np.nan)
    return Band(numbers(x), numbers(mean), numbers(low), numbers(high), [*map(numbers, values)])  # type: ignore[arg-type]


def numbers(values: Any) -> list[float | None]:
    """Numbers for JSON, with five digits; None for NaN."""
    return [None if math.isnan(v) else _rounded(v) for v in np.asarray(values, np.float64).tolist()]


def _rounded(value: float) -> float:
    rounded = float(f"{value:.5g}")
    return int(rounded) if rounded.is_integer() else rounded


def _grid(curves: Sequence[Floats], first: float, last: float, near: float, most: int) -> Floats:
    """Common places: those of the longest curve and the ends of all, or as many evenly spaced."""
    x = max(curves, key=lambda curve: curve.shape[1])[0]
    if len(x) >= most:
        return np.linspace(first, last, most)
    before = [first] if first < x[0] - near else []
    after = [last] if last > x[-1] + near else []
    return np.concatenate([before, x, after])


def _thinned(curve: Floats, most: int) -> tuple[Floats, Floats]:
    """A curve with at most ``most`` points: means of successive ones, and the last as it is."""
    x, y = curve
    if len(x) <= most:
        return x, y
    parts = np.array_split(np.arange(len(x)), most)
    xs = np.array([x[part].mean() for part in parts])
    ys = np.array([y[part].mean() for part in parts])
    xs[0], xs[-1], ys[-1] = x[0], x[-1], y[-1]
    return xs, ys


def _rank(run: Run) -> int:
    """The place of a run's agent in the list of agents."""
    return list(AGENTS).index(run.agent) if run.agent in AGENTS else len(AGENTS)


def _labels(agent: str, variants: Sequence[Mapping[str, Any]]) -> list[str]:
    """Labels of an agent's groups: what differs between them, if there are several."""
    if len(variants) == 1:
        return [agent]
    differ = differing(variants)
    labels = []
    for place, settings in enumerate(variants, 1):
        named = [f"{name} {settings[name]}" for name in differ if name in settings]
        more = ", ..." if len(named) > MOST_NAMED else ""
        what = ", ".join(named[:MOST_NAMED]) + more
        labels.append(f"{agent} {place}: {what or 'settings unknown'}")
    return labels


def differing(variants: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names of settings that are not the same everywhere, sorted."""
    names = sorted({name for settings in variants for name in settings})
    return [
        name
        for name in names
        if len({json.dumps(s.get(name, "-"), default=str) for s in variants}) > 1
    ]
