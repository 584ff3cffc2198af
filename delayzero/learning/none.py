"""The learner of an agent that does not learn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax import Array

from delayzero.actions import Queue
from delayzero.learning.learner import NEVER, LearnerState, Metrics
from delayzero.replay import Replay, Sample


@dataclass(frozen=True)
class NoLearner:
    """A learner without weights; see :class:`~delayzero.learning.learner.AnyLearner`."""

    window: int = 0
    rate_setting: str = ""

    def init(self, key: Array, observation: Array, queue: Queue | None = None) -> LearnerState:
        """Return a state without weights."""
        return LearnerState((), (), (), jnp.zeros((), jnp.int32), jnp.full((), NEVER, jnp.int32))

    def update(
        self, state: LearnerState, replay: Replay, key: Array, count: Array
    ) -> tuple[LearnerState, Replay, Metrics]:
        """Return everything unchanged."""
        return state, replay, {}

    def playing(self, state: LearnerState) -> Any:
        """Return the variables: there are none."""
        return state.variables

    def batch(self, state: LearnerState, replay: Replay, key: Array) -> tuple[Sample, Any]:
        """Raise NotImplementedError: there are no batches."""
        raise NotImplementedError("an agent that does not learn has no batches")
