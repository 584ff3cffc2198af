"""Health metrics, which distinguish a learner that learns from one that merely runs.

They are measured outside training mode on rows drawn uniformly, not on the prioritised batch. A
batch of rows with large errors hides a model that has forgotten all others, and a batch of rows
with large weights hides a model that never learned the rewarded ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
from jax import Array
from jax.sharding import Mesh

from delayzero.learning.batch import Batch, assemble, window_targets
from delayzero.learning.in_training import InTraining
from delayzero.learning.learner import LearnerState, Metrics
from delayzero.learning.loss import unroll_model
from delayzero.learning.targets import cuts
from delayzero.learning.update import Learner
from delayzero.model import flat_latents
from delayzero.replay import Replay, Sample, can_be_sampled, draw_uniformly, row_times

CONSTANT = 1e-6
"""A unit whose range over all rows is smaller is dead."""
ROUNDING = 1e-5
"""Relative differences up to this size count as rounding."""


class Predicted(NamedTuple):
    """The model's predictions along ``K`` actions from ``B`` rows, outside training mode."""

    latent: Array
    """The latents of the rows, ``[B, D]``."""
    last: Array
    """The latents after the last action, ``[B, D]``."""
    value: Array
    """The values of the rows, ``[B]``."""
    prefix: Array
    """The value prefix after each action, ``[B, K]``."""
    ended: Array | None
    """The probability of an end in each step, for a model that predicts ends, ``[B, K]``."""


def measure_health(learner: Learner, state: LearnerState, replay: Replay, key: Array) -> Metrics:
    """Measure explained variances, recalls, action sensitivity, dead units and latent rank.

    Args:
        learner: The learner of the model.
        state: The learner's state.
        replay: The replay; at least one row can be sampled.
        key: A random key.

    Returns:
        Metrics by name, ``[]`` each. A metric is NaN where it is undefined: explained variance of
        constant values, recall without rewards or ends, and explained values where reanalysis
        searches each batch anew, because the stored values are then not the targets.
    """
    variables, updates = learner.playing(state), state.updates
    count = learner.config.batch_size
    rows_key, rewarded_key, other_key = jax.random.split(key, 3)
    usable = can_be_sampled(replay, learner.window)
    batch = batch_of(learner, replay, *draw_uniformly(rows_key, usable, count), updates)
    predicted = predict_along(learner, variables, batch, batch.action)
    shuffled_actions = jax.random.permutation(other_key, batch.action)
    shuffled = predict_along(learner, variables, batch, shuffled_actions)
    value = explained(predicted.value, batch.value[:, 0])
    prefix = explained(predicted.prefix, batch.prefix, batch.alive[:, :-1])
    in_training = _explained_in_training(learner, variables, batch, replay.mesh)
    rewarded = usable & _ahead(learner, replay, replay.transitions.reward != 0)
    rewards = Events(rewarded, rewarded_steps)
    ends = {}
    if learner.planner.model.predicts_ends:
        ending = Events(
            usable & _ahead(learner, replay, replay.transitions.terminated), ended_steps
        )
        end_key = jax.random.fold_in(key, 1)
        ends = {"health/end_recall": _recall(learner, state, replay, ending, end_key)}
    sensitivity = action_sensitivity(learner, variables, batch, predicted.last, shuffled.last)
    return {
        "health/value_explained": jnp.where(learner.reanalysis.mode == "sweep", value, jnp.nan),
        "health/prefix_explained": prefix,
        "health/reward_recall": _recall(learner, state, replay, rewards, rewarded_key),
        "health/action_sensitivity": sensitivity,
        "health/dead_units": jnp.mean(jnp.ptp(predicted.latent, axis=0) < CONSTANT),
        "health/latent_rank": effective_rank(predicted.latent),
        **ends,
        **in_training,
    }


def explained(predicted: Array, target: Array, mask: Array | None = None) -> Array:
    """Return the share of the targets' variance that predictions explain, ``[]``; 1 is perfect.

    The baseline is the best constant for each column: 0 is no better, below 0 is worse. NaN if
    the targets do not vary.

    Args:
        predicted: ``[B, ...]``.
        target: ``[B, ...]``.
        mask: Which entries count, ``[B, ...]``; all by default.
    """
    chex.assert_equal_shape([predicted, target, *(() if mask is None else (mask,))])
    counts = jnp.ones_like(target) if mask is None else mask.astype(target.dtype)
    mean = jnp.sum(target * counts, axis=0) / jnp.maximum(jnp.sum(counts, axis=0), 1)
    spread = jnp.sum(jnp.square(target - mean) * counts)
    error = jnp.sum(jnp.square(target - predicted) * counts)
    varies = spread > ROUNDING**2 * jnp.sum(jnp.square(target) * counts)
    return jnp.where(varies, 1 - error / jnp.where(varies, spread, 1.0), jnp.nan)


def effective_rank(latents: Array) -> Array:
    """Return the exponential of the entropy of singular values, ``[]`` (Roy and Vetterli, 2007).

    Args:
        latents: ``[B, D]``; their mean is subtracted first.
    """
    chex.assert_rank(latents, 2)
    centred = latents - jnp.mean(latents, axis=0)
    squares = jnp.linalg.eigvalsh(centred @ centred.T)
    singular = jnp.sqrt(jnp.where(squares > ROUNDING * jnp.max(squares), squares, 0.0))
    shares = singular / jnp.maximum(jnp.sum(singular), 1e-12)
    return jnp.exp(jnp.sum(jax.scipy.special.entr(shares)))


def _explained_in_training(
    learner: Learner, variables: Any, batch: Batch, mesh: Mesh | None
) -> Metrics:
    """Return how much a model with batch normalisation explains if it normalises by the batch.

    That is what the loss sees. If the model explains less outside training mode, the fault is not
    in the weights but in the running statistics.
    """
    if "batch_stats" not in variables:
        return {}
    model = learner.planner.model
    out = unroll_model(InTraining(model, variables, mesh), batch, learner.config)
    value = explained(model.support.decode(out.value_logits[0]), batch.value[:, 0])
    prefix = model.support.decode(out.prefix_logits).T
    return {
        "health/value_in_training": jnp.where(learner.reanalysis.mode == "sweep", value, jnp.nan),
        "health/prefix_in_training": explained(prefix, batch.prefix, batch.alive[:, :-1]),
    }


def batch_of(learner: Learner, replay: Replay, slots: Array, envs: Array, updates: Array) -> Batch:
    """Assemble the batch of these rows, ``[B]`` both, with equal weights."""
    sample = Sample(row_times(replay)[slots], envs, jnp.ones(slots.shape))
    return assemble(
        replay,
        sample,
        window_targets(replay, sample, learner.config.window),
        jnp.full((slots.shape[0], 1), learner.config.unroll - 1, jnp.int32),
        learner.config,
        discount=learner.planner.discount,
        updates=updates,
        predicts_ends=learner.planner.model.predicts_ends,
    )


def predict_along(learner: Learner, variables: Any, batch: Batch, actions: Array) -> Predicted:
    """Roll the model from a batch's positions through the actions ``[B, K]``."""
    model, horizon = learner.planner.model.bind(variables), learner.config.prefix_horizon
    queue = jax.tree.map(lambda x: x[:, 0], batch.queue)
    first = latent = model.represent(batch.observation, queue)
    memory = zero = model.initial_memory(first.shape[0])
    prefixes: list[Array] = []
    ends: list[Array] = []
    for k in range(actions.shape[1]):
        latent = model.step(latent, actions[:, k])
        logits, memory = model.value_prefix(latent, zero if k % horizon == 0 else memory)
        prefixes.append(model.support.decode(logits))
        end_logits = model.predict(latent).end_logits
        if end_logits is not None:
            ends.append(end_logits)
    return Predicted(
        latent=flat_latents(first),
        last=flat_latents(latent),
        value=model.support.decode(model.predict(first).value_logits),
        prefix=jnp.stack(prefixes, axis=1),
        ended=jax.nn.sigmoid(jnp.stack(ends, axis=1)) if ends else None,
    )


def action_sensitivity(
    learner: Learner, variables: Any, batch: Batch, rolled: Array, shuffled: Array
) -> Array:
    """Return how often the executed actions lead nearer to the real latent than others, ``[]``.

    Args:
        learner: The learner of the model.
        variables: The model's variables.
        batch: The batch from which the latents were rolled.
        rolled: Latents after the executed actions, ``[B, D]``.
        shuffled: Latents after the actions of other rows, ``[B, D]``.

    Returns:
        A share; 0.5 if the model treats all actions alike, NaN if no episode lasts that long.
    """
    queue = jax.tree.map(lambda x: x[:, -1], batch.queue)
    real = learner.planner.model.bind(variables).represent(batch.following[:, 0], queue)
    distance, other_distance = (
        jnp.linalg.norm(x - flat_latents(real), axis=1) for x in (rolled, shuffled)
    )
    tied = jnp.abs(distance - other_distance) <= ROUNDING * distance
    nearer = jnp.where(tied, 0.5, distance < other_distance)
    lasting = batch.alive[:, -1]
    return jnp.sum(nearer * lasting) / jnp.sum(lasting)  # NaN if none lasts


def _ahead(learner: Learner, replay: Replay, events: Array) -> Array:
    """Return which rows have one of the events ``[R, N]`` within the unrolled steps, ``[R, N]``."""
    predicts_ends = learner.planner.model.predicts_ends
    cut = cuts(replay.transitions, axis=0, predicts_ends=predicts_ends)
    ahead, alive = jnp.zeros_like(cut), jnp.ones_like(cut)
    for k in range(learner.config.unroll):
        ahead = ahead | (alive & jnp.roll(events, -k, axis=0))
        alive = alive & ~jnp.roll(cut, -k, axis=0)
    return ahead


class Events(NamedTuple):
    """Events that a model should predict at the very step."""

    rows: Array
    """The rows that can be drawn and have one within the unrolled steps, ``[R, N]``."""
    compare: Callable[[Learner, Batch, Predicted], tuple[Array, Array]]
    """Returns which steps of a batch have one, and which of those were predicted."""


def _recall(
    learner: Learner, state: LearnerState, replay: Replay, events: Events, key: Array
) -> Array:
    """Return the share of events that were predicted, ``[]``; NaN if there are none.

    Args:
        learner: The learner of the model.
        state: The learner's state.
        replay: The replay.
        events: The events.
        key: A random key.
    """
    rows = draw_uniformly(key, events.rows, learner.config.batch_size)
    batch = batch_of(learner, replay, *rows, state.updates)
    predicted = predict_along(learner, learner.playing(state), batch, batch.action)
    steps, hits = events.compare(learner, batch, predicted)
    return jnp.where(events.rows.any(), jnp.sum(hits) / jnp.sum(steps), jnp.nan)


def ended_steps(learner: Learner, batch: Batch, predicted: Predicted) -> tuple[Array, Array]:
    """Return which steps end the return, and which of those ends are predicted as likely."""
    assert batch.ended is not None
    assert predicted.ended is not None
    ended = batch.ended & batch.alive[:, :-1]
    return ended, ended & (predicted.ended >= 0.5)


def rewarded_steps(learner: Learner, batch: Batch, predicted: Predicted) -> tuple[Array, Array]:
    """Return which steps have a reward, and of which at least half of it is predicted.

    Args:
        learner: The learner of the model.
        batch: The batch.
        predicted: The model's predictions along the batch's actions.

    Returns:
        Two masks, ``[B, K]``; the second is within the first.
    """
    horizon = learner.config.prefix_horizon
    reward, guess = _rewards(batch.prefix, horizon), _rewards(predicted.prefix, horizon)
    rewarded = (reward != 0) & batch.alive[:, :-1]
    return rewarded, rewarded & (guess * jnp.sign(reward) >= jnp.abs(reward) / 2)


def _rewards(prefix: Array, horizon: int) -> Array:
    """Return the rewards ``[B, K]`` whose sums, restarted every ``horizon`` steps, are prefixes."""
    before = jnp.pad(prefix, ((0, 0), (1, 0)))[:, :-1]
    restart = jnp.arange(prefix.shape[1]) % horizon == 0
    return prefix - jnp.where(restart, 0.0, before)
