"""Scores of several seeds as one figure with an interval: interquartile mean, bootstrap."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

Statistic = Callable[[ArrayLike], float]
"""One figure from scores of shape ``[N]``."""


def iqm(scores: ArrayLike) -> float:
    """The interquartile mean: the mean of the middle half of all scores.

    Exactly a quarter of the weight is cut off at each end, for any number of scores: those at the
    two borders count in part. For multiples of four this is ``scipy.stats.trim_mean(scores,
    0.25)``, which cuts off whole scores only, so less than a quarter otherwise.

    Args:
        scores: Those of all episodes of all seeds, ``[N]``.

    Raises:
        ValueError: There are none.
    """
    ordered = np.sort(np.asarray(scores, np.float64).ravel())
    if len(ordered) == 0:
        raise ValueError("iqm of no scores; it needs at least one")
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
    """The percentile interval of a statistic by a bootstrap on two levels.

    Seeds are drawn with replacement, and the episodes of each drawn seed too: episodes of a seed
    share its weights, so drawing episodes alone would make the interval too narrow. With few seeds
    it still is (``benchmarks/intervals.py``); where there is only one, it tells nothing of others.

    Args:
        scores_by_seed: The scores of each seed's episodes, each ``[episodes]``.
        statistic: Of all scores together.
        level: The share of resamples inside the interval.
        resamples: How many.
        seed: Of the draws.

    Raises:
        ValueError: There are no seeds, or one has no episodes.
    """
    groups = [np.asarray(scores, np.float64) for scores in scores_by_seed]
    if not groups or any(len(group) == 0 for group in groups):
        raise ValueError("a bootstrap needs at least one seed, and an episode of each")
    rng = np.random.default_rng(seed)
    values = np.empty(resamples)
    for i in range(resamples):
        drawn = [groups[g] for g in rng.integers(len(groups), size=len(groups))]
        values[i] = statistic(
            np.concatenate([group[rng.integers(len(group), size=len(group))] for group in drawn])
        )
    low, high = np.quantile(values, ((1 - level) / 2, (1 + level) / 2))
    return float(low), float(high)
