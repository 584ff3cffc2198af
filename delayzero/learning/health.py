"""What tells a learner that learns from one that only runs.

Measured outside training on rows drawn uniformly, not on the prioritised batch: a batch of rows
with large errors hides a model that has forgotten all others, and one of rows with large weights
hides a model that never learned the rewarded ones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from delayzero.learning.batch import Batch, assemble, window_targets
from delayzero.learning.learner import LearnerState, Metrics
from delayzero.learning.update import Learner
from delayzero.model import flat_latents
from delayzero.replay import Replay, Sample, can_be_sampled, draw_uniformly, row_times

CONSTANT = 1e-6
"""A unit that varies by less over all rows is dead."""
ROUNDING = 1e-5
"""Relative differences that say nothing."""


class Predicted(NamedTuple):
    """What the model says along ``K`` actions from ``B`` rows, outside training."""

    latent: Array
    """Of the rows themselves, ``[B, D]``."""
    last: Array
    """After the last action, ``[B, D]``."""
    value: Array
    """Of the rows themselves, ``[B]``."""
    prefix: Array
    """After each action, ``[B, K]``."""


def measure_health(learner: Learner, state: LearnerState, replay: Replay, key: Array) -> Metrics:
    """Explained variances, recall of rewards, use of actions, dead units and rank of latents.

    Args:
        learner: Whose model it is.
        state: The learner's.
        replay: At least one row can be sampled.
        key: A random key.

    Returns:
        Numbers by name, ``[]`` each; NaN where nothing can be said: of values that are all the
        same no variance can be explained, of no reward none recalled, and where batches are
        searched for themselves the stored values are not what is learned.
    """
    variables, updates = state.variables, state.updates
    count = learner.config.batch_size
    rows_key, rewarded_key, other_key = jax.random.split(key, 3)
    usable = can_be_sampled(replay, learner.window)
    batch = _batch_of(learner, replay, *draw_uniformly(rows_key, usable, count), updates)
    predicted = _predict(learner, variables, batch, batch.action)
    others = jax.random.permutation(other_key, batch.action)
    by_others = _predict(learner, variables, batch, others)
    rewarded = usable & _reward_ahead(replay, learner.config.unroll)
    places = draw_uniformly(rewarded_key, rewarded, count)
    near_reward = _batch_of(learner, replay, *places, updates)
    foreseen = _predict(learner, variables, near_reward, near_reward.action)
    recall = _recall(learner, near_reward, foreseen.prefix)
    value = explained(predicted.value, batch.value[:, 0])
    prefix = explained(predicted.prefix, batch.prefix, batch.alive[:, :-1])
    nearer = _nearer(learner, variables, batch, predicted.last, by_others.last)
    return {
        "health/value_explained": jnp.where(learner.reanalysis.mode == "sweep", value, jnp.nan),
        "health/prefix_explained": prefix,
        "health/reward_recall": jnp.where(rewarded.any(), recall, jnp.nan),
        "health/action_sensitivity": nearer,
        "health/dead_units": jnp.mean(jnp.ptp(predicted.latent, axis=0) < CONSTANT),
        "health/latent_rank": effective_rank(predicted.latent),
    }


def explained(predicted: Array, target: Array, mask: Array | None = None) -> Array:
    """The share of the targets' variance that predictions explain, ``[]``; 1 is perfect.

    Against the best constant for each column: 0 is no better than that, and below 0 is worse. NaN
    where targets do not vary.

    Args:
        predicted: ``[B, ...]``.
        target: ``[B, ...]``.
        mask: Which of them count, ``[B, ...]``; all by default.
    """
    counts = jnp.ones_like(target) if mask is None else mask.astype(target.dtype)
    mean = jnp.sum(target * counts, axis=0) / jnp.maximum(jnp.sum(counts, axis=0), 1)
    spread = jnp.sum(jnp.square(target - mean) * counts)
    wrong = jnp.sum(jnp.square(target - predicted) * counts)
    varies = spread > ROUNDING**2 * jnp.sum(jnp.square(target) * counts)
    return jnp.where(varies, 1 - wrong / jnp.where(varies, spread, 1.0), jnp.nan)


def effective_rank(latents: Array) -> Array:
    """The exponential of the entropy of singular values, ``[]`` (Roy and Vetterli, 2007).

    Args:
        latents: ``[B, D]``; their mean is taken off first.
    """
    centred = latents - jnp.mean(latents, axis=0)
    squares = jnp.linalg.eigvalsh(centred @ centred.T)
    singular = jnp.sqrt(jnp.where(squares > ROUNDING * jnp.max(squares), squares, 0.0))
    shares = singular / jnp.maximum(jnp.sum(singular), 1e-12)
    return jnp.exp(jnp.sum(jax.scipy.special.entr(shares)))


def _batch_of(learner: Learner, replay: Replay, slots: Array, envs: Array, updates: Array) -> Batch:
    """What would be learned at these rows, all weighted alike."""
    sample = Sample(row_times(replay)[slots], envs, jnp.ones(slots.shape))
    return assemble(
        replay,
        sample,
        window_targets(replay, sample, learner.config.window),
        jnp.full((slots.shape[0], 1), learner.config.unroll - 1, jnp.int32),
        learner.config,
        discount=learner.planner.discount,
        updates=updates,
    )


def _predict(learner: Learner, variables: Any, batch: Batch, actions: Array) -> Predicted:
    model, horizon = learner.planner.model.bind(variables), learner.config.prefix_horizon
    queue = jax.tree.map(lambda x: x[:, 0], batch.queue)
    first = latent = model.represent(batch.observation, queue)
    memory = zero = model.initial_memory(first.shape[0])
    prefixes = []
    for k in range(actions.shape[1]):
        latent = model.step(latent, actions[:, k])
        logits, memory = model.value_prefix(latent, zero if k % horizon == 0 else memory)
        prefixes.append(model.support.decode(logits))
    return Predicted(
        latent=flat_latents(first),
        last=flat_latents(latent),
        value=model.support.decode(model.predict(first).value_logits),
        prefix=jnp.stack(prefixes, axis=1),
    )


def _nearer(
    learner: Learner, variables: Any, batch: Batch, rolled: Array, by_others: Array
) -> Array:
    """How often the executed actions lead nearer to what was seen than others do, ``[]``.

    Args:
        learner: Whose model it is.
        variables: The model's.
        batch: What happened.
        rolled: Latents after the executed actions, ``[B, D]``.
        by_others: Latents after the actions of other rows, ``[B, D]``.

    Returns:
        0.5 where the model takes all actions alike; NaN where no row lasts so long.
    """
    queue = jax.tree.map(lambda x: x[:, -1], batch.queue)
    seen = learner.planner.model.bind(variables).represent(batch.following[:, 0], queue)
    far, farther = (jnp.linalg.norm(x - flat_latents(seen), axis=1) for x in (rolled, by_others))
    won = jnp.where(jnp.abs(far - farther) <= ROUNDING * far, 0.5, far < farther)
    lasting = batch.alive[:, -1]
    return jnp.sum(won * lasting) / jnp.sum(lasting)  # of none: NaN


def _reward_ahead(replay: Replay, unroll: int) -> Array:
    """Rows with a reward in the steps that are unrolled from them, ``[R, N]``."""
    happened = replay.transitions
    ends = happened.terminated | happened.truncated
    ahead, alive = jnp.zeros_like(ends), jnp.ones_like(ends)
    for k in range(unroll):
        ahead = ahead | (alive & jnp.roll(happened.reward != 0, -k, axis=0))
        alive = alive & ~jnp.roll(ends, -k, axis=0)
    return ahead


def _recall(learner: Learner, batch: Batch, prefix: Array) -> Array:
    """The share of rewarded steps of which at least half the reward is foreseen, ``[]``."""
    horizon = learner.config.prefix_horizon
    reward, predicted = _differences(batch.prefix, horizon), _differences(prefix, horizon)
    there = (reward != 0) & batch.alive[:, :-1]
    hit = there & (predicted * jnp.sign(reward) >= jnp.abs(reward) / 2)
    return jnp.sum(hit) / jnp.sum(there)  # of none: NaN


def _differences(prefix: Array, horizon: int) -> Array:
    """The rewards of which prefixes ``[B, K]`` are sums that start again every ``horizon``."""
    before = jnp.pad(prefix, ((0, 0), (1, 0)))[:, :-1]
    restart = jnp.arange(prefix.shape[1]) % horizon == 0
    return prefix - jnp.where(restart, 0.0, before)
