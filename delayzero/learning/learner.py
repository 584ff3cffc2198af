"""What the training loop needs of a learner: a state, and many updates in one compiled call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import optax
from jax import Array

from delayzero.actions import Queue
from delayzero.replay import Replay, Sample, sample
from delayzero.settings import ReplayConfig

Metrics = dict[str, Array]
"""Averages of a batch by name; those with a dimension are by unrolled step."""
PRIORITY_FLOOR = 1e-6
NEVER = -1
"""In :attr:`LearnerState.failed`: no update has failed."""


class LearnerState(NamedTuple):
    """Everything that updates change, apart from the replay's priorities."""

    variables: Any
    """What was learned: parameters, and statistics where a network has some."""
    target: Any
    """An older copy, to make targets with; empty where the newest is used."""
    optimiser: Any
    updates: Array
    """Updates made, ``[]``."""
    failed: Array
    """The update whose loss or gradient was not finite, or :data:`NEVER`, ``[]``."""


def before_updates(
    variables: Any, optimiser: optax.GradientTransformation, *, keeps_target: bool
) -> LearnerState:
    """The state before the first update.

    Args:
        variables: The model's.
        optimiser: Of their parameters.
        keeps_target: Whether an older copy of them is kept.
    """
    return LearnerState(
        variables=variables,
        target=jax.tree.map(jnp.copy, variables) if keeps_target else (),
        optimiser=optimiser.init(variables["params"]),
        updates=jnp.zeros((), jnp.int32),
        failed=jnp.full((), NEVER, jnp.int32),
    )


class AnyLearner(Protocol):
    """A learner as the training loop sees it; pure functions of their arguments."""

    @property
    def window(self) -> int:
        """Rows behind a sampled one that an update needs."""

    @property
    def rate_setting(self) -> str:
        """The name of the setting of its learning rate."""

    def init(self, key: Array, observation: Array, queue: Queue | None = None) -> LearnerState:
        """The state before the first update.

        Args:
            key: A random key.
            observation: Any stack of observations, ``[B, S, ...]``.
            queue: Any pending actions, ``[B, W]``, for a model that sees them.
        """

    def update(
        self, state: LearnerState, replay: Replay, key: Array, count: Array
    ) -> tuple[LearnerState, Replay, Metrics]:
        """Make ``count`` updates, see :func:`repeat_updates`."""

    def batch(self, state: LearnerState, replay: Replay, key: Array) -> tuple[Sample, Any]:
        """The batch of the next update, a named tuple of arrays."""


OneUpdate = Callable[[LearnerState, Replay, Array], tuple[LearnerState, Replay, Metrics]]
"""``(state, replay, key) -> (state, replay, metrics)``; only priorities of the replay change."""


def repeat_updates(
    one_update: OneUpdate, state: LearnerState, replay: Replay, key: Array, count: Array
) -> tuple[LearnerState, Replay, Metrics]:
    """Make ``count`` updates, or stop before the first whose loss is not finite.

    Args:
        one_update: Makes one; it marks a state as failed rather than change it.
        state: The learner's.
        replay: To learn from; its priorities change.
        key: One for the whole run: update i uses the i-th key derived from it.
        count: How many, ``[]``; it may differ from call to call.

    Returns:
        The new state, the replay, and the metrics averaged over the updates made.
    """

    def one(carry: tuple[Array, LearnerState, Array, Metrics]) -> Any:
        done, state, priority, sums = carry
        current = replay._replace(priority=priority)
        state, current, metrics = one_update(state, current, key)
        good = state.failed == NEVER
        sums = jax.tree.map(lambda total, x: total + jnp.where(good, x, 0), sums, metrics)
        return done + good, state, current.priority, sums

    def wanted(carry: tuple[Array, LearnerState, Array, Metrics]) -> Array:
        done, state, *_ = carry
        return (done < count) & (state.failed == NEVER)

    shapes = jax.eval_shape(one_update, state, replay, key)[2]
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    begin = (jnp.zeros((), jnp.int32), state, replay.priority, zeros)
    done, state, priority, sums = jax.lax.while_loop(wanted, one, begin)
    metrics = jax.tree.map(lambda total: total / jnp.maximum(done, 1), sums)
    return state, replay._replace(priority=priority), metrics


def only_if(finite: Array, updated: LearnerState, state: LearnerState) -> LearnerState:
    """The updated state, or the old one, marked as failed, if something was not finite."""
    failed = state._replace(failed=state.updates)
    kept: LearnerState = jax.tree.map(lambda new, old: jnp.where(finite, new, old), updated, failed)
    return kept


def all_finite(*arrays: Array) -> Array:
    """Whether every number is finite, ``[]``."""
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
    """Draw rows as a run does, with the correction of priorities that its progress asks for.

    Args:
        replay: The replay.
        key: A random key.
        config: How to sample.
        batch_size: How many rows.
        ahead: Rows that a sample needs behind its own.
        progress: The share of all updates that is done, ``[]``.
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
    """The mean of importance weights ``[B]``, and how many equal ones would count as much."""
    return {
        "health/weight_mean": jnp.mean(weights),
        "health/weight_effective": jnp.square(jnp.sum(weights)) / jnp.sum(jnp.square(weights)),
    }
