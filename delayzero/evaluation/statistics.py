"""Means of scores from several seeds, with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Statistic = Callable[[ArrayLike], float]
"""Maps scores ``[N]`` to one number."""


def iqm(scores: ArrayLike) -> float:
    """The interquartile mean: the mean of the middle half of all scores.

    Exactly a quarter of the weight is trimmed at each end: if N is not a multiple of four, the two
    scores at the borders count in part. For multiples of four the result equals
    ``scipy.stats.trim_mean(scores, 0.25)``, which trims only whole scores and so trims less than a
    quarter otherwise.

    Args:
        scores: The scores of all episodes of all seeds, ``[N]``.

    Raises:
        ValueError: There are no scores.
    """
    ordered = np.sort(np.asarray(scores, np.float64).ravel())
    if len(ordered) == 0:
        raise ValueError("the IQM needs at least one score, got none")
    place = np.arange(len(ordered))
    low, high = 0.25 * len(ordered), 0.75 * len(ordered)
    weights = np.clip(np.minimum(place + 1, high) - np.maximum(place, low), 0, None)
    return float(weights @ ordered / weights.sum())


def bootstrap_interval(
    scores_by_seed: Sequence[ArrayLike],
    statistic: Statistic = iqm,
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> tuple[float, float]:
    """The percentile interval of a statistic, by a two-level bootstrap.

    Each resample draws seeds with replacement, then episodes of each drawn seed with replacement.
    Episodes of a seed share its weights, so drawing only episodes would make the interval too
    narrow. With few seeds the interval is still too narrow (``benchmarks/intervals.py``); with one
    seed it says nothing about other seeds.

    Args:
        scores_by_seed: The scores of each seed's episodes, each ``[episodes]``.
        statistic: Applied to the scores of all seeds together.
        level: The share of resamples inside the interval.
        resamples: The number of resamples.
        seed: The seed of the draws.

    Returns:
        The lower and the upper end of the interval.

    Raises:
        ValueError: There are no seeds, or a seed has no episodes.
    """
    groups = [np.asarray(scores, np.float64) for scores in scores_by_seed]
    if not groups or any(len(group) == 0 for group in groups):
        raise ValueError("a bootstrap needs at least one seed, and at least one episode of each")
    rng = np.random.default_rng(seed)
    values = np.empty(resamples)
    for i in range(resamples):
        drawn = [groups[g] for g in rng.integers(len(groups), size=len(groups))]
        values[i] = statistic(
            np.concatenate([group[rng.integers(len(group), size=len(group))] for group in drawn])
        )
    low, high = np.quantile(values, ((1 - level) / 2, (1 + level) / 2))
    return float(low), float(high)


def mean_intervals(
    values_by_seed: ArrayLike, *, level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> NDArray[np.float64]:
    """The percentile intervals of means over seeds, at each point of curves.

    Each resample draws whole curves with replacement. With few seeds the intervals are too narrow.

    Args:
        values_by_seed: One curve per seed, ``[seeds, points]``; NaN where a curve has no value.
        level: The share of resamples inside the interval.
        resamples: The number of resamples.
        seed: The seed of the draws.

    Returns:
        The lower and the upper ends, ``[2, points]``; NaN where fewer than two seeds have a value.
    """
    values = np.asarray(values_by_seed, np.float64)
    seeds, there = len(values), ~np.isnan(values)
    drawn = np.random.default_rng(seed).integers(seeds, size=(resamples, seeds))
    weights = np.stack([(drawn == i).sum(axis=1) for i in range(seeds)], axis=1)  # [resamples, S]
    with np.errstate(invalid="ignore"):
        means = (weights @ np.where(there, values, 0.0)) / (weights @ there)
    enough = there.sum(axis=0) > 1
    ends = np.full((2, values.shape[1]), np.nan)
    tails = ((1 - level) / 2, (1 + level) / 2)
    ends[:, enough] = np.nanquantile(means[:, enough], tails, axis=0)
    return ends
