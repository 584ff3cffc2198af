from fractions import Fraction

import numpy as np
import pytest

from delayzero.evaluation.statistics import bootstrap_interval, iqm


def slow_iqm(scores):
    """Every score four times, in order; cut off whole quarters; in fractions."""
    copies = [Fraction(score) for score in sorted(scores) for _ in range(4)]
    middle = copies[len(scores) : 3 * len(scores)]
    return float(sum(middle) / len(middle))


@pytest.mark.parametrize("count", range(1, 14))
def test_iqm_is_that_of_whole_quarters(count):
    scores = np.random.default_rng(count).integers(-50, 50, count).tolist()
    assert iqm(scores) == pytest.approx(slow_iqm(scores), abs=1e-12)


def test_iqm_ignores_the_quarters_at_the_ends():
    assert iqm([0, 1, 3, 1000]) == 2
    assert iqm([7.5]) == 7.5
    assert iqm([500.0] * 7) == 500
    assert iqm(np.array([[0, 1], [3, 1000]])) == 2
    with pytest.raises(ValueError, match="at least one"):
        iqm([])


def slow_interval(scores_by_seed, statistic, resamples, rng):
    """The same, one drawn episode at a time."""
    values = []
    for _ in range(resamples):
        drawn = []
        for _ in scores_by_seed:
            group = scores_by_seed[rng.integers(len(scores_by_seed))]
            drawn += [group[rng.integers(len(group))] for _ in group]
        values.append(statistic(drawn))
    return tuple(np.quantile(values, (0.025, 0.975)))


def test_the_interval_is_that_of_the_slow_version():
    rng = np.random.default_rng(0)
    groups = [rng.normal(mean, 3, size) for mean, size in ((0, 8), (5, 12), (9, 5))]
    for statistic in (iqm, np.mean):
        fast = bootstrap_interval(groups, statistic, resamples=3000)
        assert fast == pytest.approx(slow_interval(groups, statistic, 3000, rng), abs=0.35)
        assert fast == bootstrap_interval(groups, statistic, resamples=3000)
        assert fast != bootstrap_interval(groups, statistic, resamples=3000, seed=1)


def test_the_interval_covers_the_truth_and_one_without_seeds_does_not():
    """Seeds differ with a deviation of 1, episodes with 1; the truth is 0."""
    rng = np.random.default_rng(0)
    covered = pooled = 0
    for trial in range(150):
        groups = rng.normal(size=(10, 1)) + rng.normal(size=(10, 12))
        low, high = bootstrap_interval(groups, np.mean, resamples=200, seed=trial)
        covered += low <= 0 <= high
        low, high = bootstrap_interval([groups.ravel()], np.mean, resamples=200, seed=trial)
        pooled += low <= 0 <= high
    assert 0.86 < covered / 150 <= 1
    assert pooled / 150 < 0.75


def test_with_few_seeds_the_interval_is_too_narrow():
    """With a deviation of 1 between seeds and 0.5 between episodes; the truth is 0."""
    rng, covered = np.random.default_rng(0), {2: 0, 5: 0}
    for seeds in covered:
        for trial in range(100):
            groups = rng.normal(size=(seeds, 1)) + 0.5 * rng.normal(size=(seeds, 16))
            low, high = bootstrap_interval(groups, resamples=200, seed=trial)
            covered[seeds] += low <= 0 <= high
    assert 40 < covered[2] < 72
    assert 75 < covered[5] < 95


def test_equal_scores_have_an_interval_without_width():
    assert bootstrap_interval([[4.0] * 3, [4.0] * 2], resamples=20) == (4, 4)
    low, high = bootstrap_interval([[1.0, 2.0, 3.0]], resamples=200)
    assert 1 <= low < high <= 3
    for wrong in ([], [[1.0], []]):
        with pytest.raises(ValueError, match="at least one seed"):
            bootstrap_interval(wrong)
