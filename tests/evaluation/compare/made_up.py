"""Invented results."""

from delayzero.evaluation.compare.results import AgentResult, Estimate


def made_up(agent, low, high, *, seeds=5, **others):
    middle = (low + high) / 2
    values = {
        "estimate": Estimate(middle, low, high),
        "mean": middle - 1,
        "lowest": low - 5,
        "seconds": 61.4,
        "curves": [[(1000, 10.0 * seed), (2000, middle)] for seed in range(seeds)],
        "by_delay": {"constant:0": Estimate(middle, low, high)},
    }
    return AgentResult(agent, seeds=seeds, **{**values, **others})
