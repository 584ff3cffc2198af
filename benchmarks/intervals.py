"""Coverage of the 95 % interval of a comparison, by the number of seeds.

python benchmarks/intervals.py

Scores are simulated: each seed has a mean (standard deviation 1), and each of its episodes a score
around it (standard deviation 0.5); the true IQM is 0. Prints as JSON the share of comparisons whose
interval contains 0, with its standard error.
"""

from __future__ import annotations

import argparse
import json
import math

import numpy as np

from delayzero.evaluation.statistics import bootstrap_interval

SEEDS = (2, 3, 5, 10)
EPISODES = 16
SPREAD_OF_SEEDS, SPREAD_OF_EPISODES = 1.0, 0.5


def coverage(seeds: int, comparisons: int, resamples: int = 2000) -> float:
    """Return the share of comparisons whose interval covers the truth."""
    rng = np.random.default_rng(seeds)
    covered = 0
    for trial in range(comparisons):
        means = SPREAD_OF_SEEDS * rng.normal(size=(seeds, 1))
        scores = means + SPREAD_OF_EPISODES * rng.normal(size=(seeds, EPISODES))
        low, high = bootstrap_interval(list(scores), resamples=resamples, seed=trial)
        covered += low <= 0 <= high
    return covered / comparisons


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--comparisons", type=int, default=1000)
    count = parser.parse_args().comparisons
    for seeds in SEEDS:
        share = coverage(seeds, count)
        error = math.sqrt(share * (1 - share) / count)
        print(json.dumps({"seeds": seeds, "covered": share, "error": round(error, 3)}), flush=True)


if __name__ == "__main__":
    main()
