"""Results over seeds: final scores, and curves with intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delayzero.evaluation.statistics import bootstrap_interval, iqm, mean_intervals

NEAR = 0.03
"""Share of a curve's length by which the ends of seeds may differ and still count as one place."""
Floats = NDArray[np.float64]
Points = Sequence[tuple[float, float]]
"""Pairs of interactions and a value."""


@dataclass(frozen=True)
class Score:
    """A final score over seeds.

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
