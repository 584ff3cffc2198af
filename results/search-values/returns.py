"""Compare the values of trained agents with the returns of their own games, played without noise.

    python results/search-values/returns.py RUN...

A RUN is a folder of ``delayzero train`` without delay. States whose episode does not end within
the steps played are left out.
"""

import sys
from pathlib import Path

import numpy as np

from delayzero.evaluation.episodes import Evaluator
from delayzero.playing.streams import (
    STREAM_EVALUATION,
    STREAM_EVALUATION_ENVS,
    run_key,
    run_seed,
)
from delayzero.runs.weights import load_weights

GAMES, STEPS = 32, 600


def played(run):
    """Return rewards, ends and values of the network, ``[T, N]`` each, and the discount."""
    system, variables = load_weights(Path(run))
    player = Evaluator(system, GAMES, max_steps=1000)._player
    player.begin(run_seed(0, STREAM_EVALUATION_ENVS), run_key(0, STREAM_EVALUATION))
    steps = [player.step(variables)[0] for _ in range(STEPS)]
    rewards = np.stack([step.reward for step in steps])
    ends = np.stack([step.terminated | step.life_lost for step in steps])
    values = np.stack([np.asarray(step.search.network_value) for step in steps])
    return rewards, ends, values, system.config.discount


for run in sys.argv[1:]:
    rewards, ends, values, discount = played(run)
    returns, known = np.zeros((STEPS + 1, GAMES)), np.zeros((STEPS + 1, GAMES), bool)
    for t in reversed(range(STEPS)):
        returns[t] = rewards[t] + np.where(ends[t], 0, discount * returns[t + 1])
        known[t] = ends[t] | known[t + 1]
    returns, values = returns[:-1][known[:-1]], values[known[:-1]]
    explained = 1 - np.mean(np.square(returns - values)) / np.var(returns)
    print(
        f"{run}: return {returns.mean():.3f}, value of the network {values.mean():.3f}, "
        f"explained {explained:.2f}"
    )
