"""The interface of a learner: its state, and many updates in one compiled call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import chex
import jax
import jax.numpy as jnp
import optax
from jax import Array

from delayzero.actions import Queue
from delayzero.replay import Replay, Sample, sample
from delayzero.settings import ReplayConfig

Metrics = dict[str, Array]
"""Averages over a batch by name; a metric with a dimension has an entry per unrolled step."""
PRIORITY_FLOOR = 1e-6
"""Added to every new priority, so that none is 0."""
NEVER = -1
"""In :attr:`LearnerState.failed`: no update has failed."""


class LearnerState(NamedTuple):
    """Everything that updates change, except the replay's priorities."""

    variables: Any
    """Parameters, and statistics where a network has some."""
    target: Any
    """An older copy of the variables, for targets, or their running average; empty where the newest
    are used."""
    optimiser: Any
    updates: Array
    """The number of updates made, ``[]``."""
    failed: Array
    """The update whose loss or gradient was not finite, or :data:`NEVER`, ``[]``."""


def before_updates(
    variables: Any, optimiser: optax.GradientTransformation, *, keeps_target: bool
) -> LearnerState:
    """Return the state before the first update.

    Args:
        variables: The model's variables.
        optimiser: The optimiser of their parameters.
        keeps_target: Whether the state has an older copy of the variables.
    """
    return LearnerState(
        variables=variables,
        target=jax.tree.map(jnp.copy, variables) if keeps_target else (),
        optimiser=optimiser.init(variables["params"]),
        updates=jnp.zeros((), jnp.int32),
        failed=jnp.full((), NEVER, jnp.int32),
    )


class AnyLearner(Protocol):
    """The learner's interface to the training loop; all methods are pure functions."""

    @property
    def window(self) -> int:
        """The number of rows after a sampled one that an update needs."""

    @property
    def rate_setting(self) -> str:
        """The option that sets the learning rate."""

    def init(self, key: Array, observation: Array, queue: Queue | None = None) -> LearnerState:
        """Return the state before the first update.

        Args:
            key: A random key.
            observation: An example stack of observations, ``[B, S, ...]``.
            queue: Example pending actions, ``[B, W]``, for a model that sees them.
        """

    def update(
        self, state: LearnerState, replay: Replay, key: Array, count: Array
    ) -> tuple[LearnerState, Replay, Metrics]:
        """Make ``count`` updates, see :func:`repeat_updates`."""

    def playing(self, state: LearnerState) -> Any:
        """Return the variables to play with and to be evaluated with."""

    def batch(self, state: LearnerState, replay: Replay, key: Array) -> tuple[Sample, Any]:
        """Return the sample and the batch of the next update, a named tuple of arrays."""


OneUpdate = Callable[[LearnerState, Replay, Array], tuple[LearnerState, Replay, Metrics]]
"""``(state, replay, key) -> (state, replay, metrics)``; of the replay only priorities change."""


def repeat_updates(
    one_update: OneUpdate, state: LearnerState, replay: Replay, key: Array, count: Array
) -> tuple[LearnerState, Replay, Metrics]:
    """Make ``count`` updates, or stop before the first whose loss is not finite.

    Args:
        one_update: Makes one update; if it fails, it marks the state as failed and changes nothing
            else.
        state: The learner's state.
        replay: The replay to learn from; its priorities change.
        key: The same for the whole run: update i uses the i-th key derived from it.
        count: The number of updates, ``[]``; it may differ from call to call.

    Returns:
        The new state, the replay, and the metrics averaged over the updates made.
    """
    chex.assert_rank(count, 0)

    def update(carry: tuple[Array, LearnerState, Array, Metrics]) -> Any:
        done, state, priority, sums = carry
        current = replay._replace(priority=priority)
        state, current, metrics = one_update(state, current, key)
        good = state.failed == NEVER
        sums = jax.tree.map(lambda total, x: total + jnp.where(good, x, 0), sums, metrics)
        return done + good, state, current.priority, sums

    def unfinished(carry: tuple[Array, LearnerState, Array, Metrics]) -> Array:
        done, state, *_ = carry
        return (done < count) & (state.failed == NEVER)

    shapes = jax.eval_shape(one_update, state, replay, key)[2]
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    initial = (jnp.zeros((), jnp.int32), state, replay.priority, zeros)
    done, state, priority, sums = jax.lax.while_loop(unfinished, update, initial)
    metrics = jax.tree.map(lambda total: total / jnp.maximum(done, 1), sums)
    return state, replay._replace(priority=priority), metrics


def only_if(finite: Array, updated: LearnerState, state: LearnerState) -> LearnerState:
    """Return the updated state, or the old one marked as failed if ``finite`` is False."""
    failed = state._replace(failed=state.updates)
    kept: LearnerState = jax.tree.map(lambda new, old: jnp.where(finite, new, old), updated, failed)
    return kept


def all_finite(*arrays: Array) -> Array:
    """Return whether all entries are finite, ``[]``."""
    return jnp.all(jnp.stack([jnp.isfinite(x).all() for x in arrays]))


def sample_batch(
    replay: Replay,
    key: Array,
    config: ReplayConfig,
    batch_size: int,
    *,
    ahead: int,
    progress: Array,
) -> Sample:
    """Draw rows with the priority correction for the current progress of the run.

    Args:
        replay: The replay.
        key: A random key.
        config: The sampling settings.
        batch_size: The number of rows.
        ahead: The number of rows after its own that a sample needs.
        progress: The share of all updates that are done, ``[]``.
    """
    begin, end = config.priority_correction, config.final_correction
    end = begin if end is None else end
    return sample(
        replay,
        key,
        batch_size,
        ahead=ahead,
        exponent=config.priority_exponent,
        correction=begin + (end - begin) * jnp.minimum(progress, 1.0),
        weights=config.weights,
    )


def weight_health(weights: Array) -> Metrics:
    """Return the mean of importance weights ``[B]``, and the effective sample size."""
    return {
        "health/weight_mean": jnp.mean(weights),
        "health/weight_effective": jnp.square(jnp.sum(weights)) / jnp.sum(jnp.square(weights)),
    }
