"""How well a model predicts fresh rows, from which it has not learned yet.

The loss and the metrics of :mod:`delayzero.learning.health` are measured on rows that updates have
seen hundreds of times. A model that has memorised them looks healthy, and fails in new episodes.
Rows that have just become eligible for sampling show the difference, and cost no episodes.
"""

from __future__ import annotations

from typing import NamedTuple

import chex
import jax.numpy as jnp
from jax import Array

from delayzero.learning.health import batch_of, predict_along, rewarded_steps
from delayzero.learning.learner import LearnerState
from delayzero.learning.update import Learner
from delayzero.replay import Replay, can_be_sampled, newest_places, row_times


class Fit(NamedTuple):
    """Sums from which the share of the explained variance follows, ``[]`` each."""

    rows: Array | float = 0.0
    """The number of rows."""
    target: Array | float = 0.0
    square: Array | float = 0.0
    """Of the targets' squares."""
    error: Array | float = 0.0
    """Of the squared errors."""

    def explained(self) -> float | None:
        """Return the share of the targets' variance that was explained; None if undefined."""
        if not self.rows:
            return None
        spread = float(self.square) - float(self.target) ** 2 / float(self.rows)
        if spread <= 1e-9 * float(self.square):
            return None
        return 1 - float(self.error) / spread


class Fresh(NamedTuple):
    """Sums over fresh rows."""

    value: Fit = Fit()
    """Of values against value targets."""
    prefix: Fit = Fit()
    """Of the value prefix after all unrolled steps."""
    rewards: Array | float = 0.0
    """The number of rewarded steps."""
    recalled: Array | float = 0.0
    """The number of those whose reward was predicted, at least half of it."""

    def metrics(self) -> dict[str, float]:
        """Return the metrics that are defined, by name."""
        recall = float(self.recalled) / float(self.rewards) if self.rewards else None
        values = {
            "health/value_fresh": self.value.explained(),
            "health/prefix_fresh": self.prefix.explained(),
            "health/reward_recall_fresh": recall,
        }
        return {name: value for name, value in values.items() if value is not None}


def measure_fresh(
    learner: Learner, state: LearnerState, replay: Replay, learned: Array, *, rows: int
) -> Fresh:
    """Compare predictions outside training mode with the targets of fresh rows.

    Args:
        learner: The learner of the model.
        state: The learner's state.
        replay: The replay.
        learned: The length of the replay when the last update was made, ``[]``: rows that could
            be sampled then are not fresh.
        rows: The most rows of each environment to measure, the newest.
    """
    chex.assert_rank(learned, 0)
    window = learner.window
    times, envs = newest_places(replay, rows, before=window)
    slots = times % replay.rows
    fresh = (times >= jnp.maximum(learned - window, 0)) & (row_times(replay)[slots] == times)
    fresh = fresh & can_be_sampled(replay, window)[slots, envs]
    # Where batches are searched anew, the stored values are not the targets.
    valued = fresh & (learner.reanalysis.mode == "sweep")
    batch = batch_of(learner, replay, slots, envs, state.updates)
    predicted = predict_along(learner, learner.playing(state), batch, batch.action)
    reward, hit = rewarded_steps(learner, batch, predicted)
    return Fresh(
        value=_fit(predicted.value, batch.value[:, 0], valued),
        prefix=_fit(predicted.prefix[:, -1], batch.prefix[:, -1], fresh & batch.alive[:, -2]),
        rewards=jnp.sum(reward & fresh[:, None], dtype=jnp.float32),
        recalled=jnp.sum(hit & fresh[:, None], dtype=jnp.float32),
    )


def _fit(predicted: Array, target: Array, mask: Array) -> Fit:
    """Return the sums over the rows that count, from ``[B]`` each."""
    chex.assert_equal_shape([predicted, target, mask])
    counts = mask.astype(jnp.float32)
    return Fit(
        rows=jnp.sum(counts),
        target=jnp.sum(target * counts),
        square=jnp.sum(jnp.square(target) * counts),
        error=jnp.sum(jnp.square(target - predicted) * counts),
    )
