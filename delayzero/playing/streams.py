"""The random streams of a run: each part draws from its own."""

from __future__ import annotations

import jax
import numpy as np
from jax import Array

STREAM_WEIGHTS, STREAM_ACTING, STREAM_LEARNING, STREAM_SWEEPS, STREAM_EVALUATION = range(5)
STREAM_NEWEST, STREAM_TRAINING_ENVS, STREAM_EVALUATION_ENVS = range(5, 8)
STREAM_PREDICTION_ENVS, STREAM_PREDICTION, STREAM_HEALTH = range(8, 11)


def run_key(seed: int, stream: int) -> Array:
    """The random key of one of a run's streams."""
    return jax.random.fold_in(jax.random.key(seed), stream)


def run_seed(seed: int, stream: int, *counts: int) -> int:
    """The seed of a vector environment, which gives its environments this one and the next ones.

    Far apart for neighbouring seeds of runs, so that no two runs play the same episodes.
    """
    return int(np.random.SeedSequence([seed, stream, *counts]).generate_state(1)[0] >> 1)
