"""Choosing rows to learn from: prioritised sampling without replacement."""

from __future__ import annotations

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
from jax import Array
from jax.sharding import Mesh

from delayzero.replay.sharding import AXIS, BY_ENVIRONMENT, EVERYWHERE, keep_columns
from delayzero.replay.storage import Replay, can_be_sampled, row_times
from delayzero.settings import WeightKind

PRIORITIES = (1e-30, 1e30)
"""Priorities are clipped to this range, so that zero and infinity have a finite logarithm."""


class Sample(NamedTuple):
    """``B`` sampled rows."""

    times: Array
    """The time of each row, ``[B]``."""
    envs: Array
    """The environment of each row, ``[B]``."""
    weights: Array
    """Importance weights, at most 1, ``[B]``."""


def sample(
    replay: Replay,
    key: Array,
    batch_size: int,
    *,
    ahead: int,
    exponent: float,
    correction: Array | float,
    weights: WeightKind = "truncated",
) -> Sample:
    """Draw rows without replacement, by priority.

    Adding Gumbel noise to the log-probabilities and taking the largest sums is equivalent to
    drawing one row after another without replacement.

    Args:
        replay: The replay.
        key: A random key.
        batch_size: The number of rows; at least this many must be eligible.
        ahead: The number of rows after its own that a sample needs.
        exponent: Alpha: probabilities p are proportional to priorities to this power; 0 is
            uniform.
        correction: Beta of the weights (n p)^-beta, for n eligible rows, ``[]``.
        weights: See :attr:`~delayzero.settings.ReplayConfig.weights`.
    """
    chex.assert_rank(correction, 0)
    eligible = can_be_sampled(replay, ahead)
    priority = jnp.clip(replay.priority, *PRIORITIES)
    logits = jnp.where(eligible, exponent * jnp.log(priority), -jnp.inf)
    noise = jax.random.gumbel(key, (logits.size,)).reshape(logits.shape)
    if replay.mesh is None:
        flat, drawn, probability = _draw(logits, noise, batch_size)
    else:
        flat, drawn, probability = _draw_sharded(replay.mesh, logits, noise, batch_size)
    if weights == "relative":  # factors common to all rows cancel
        excess = drawn - jnp.min(drawn)
    else:
        expected = batch_size * probability  # expected draws with replacement
        uniform = batch_size / jnp.sum(eligible)
        excess = jnp.log(jnp.minimum(expected, 1.0) / uniform)  # a row is drawn at most once
    importance = jnp.exp(-correction * jnp.maximum(excess, 0.0))
    slots, envs = flat // replay.num_envs, flat % replay.num_envs
    return Sample(row_times(replay)[slots], envs.astype(jnp.int32), importance)


def _draw(logits: Array, noise: Array, count: int) -> tuple[Array, Array, Array]:
    """Draw the ``count`` rows with the largest sums of logit and noise, both ``[R, N]``.

    Returns:
        The places of the rows in the flattened table, their logits, and their probabilities in a
        single draw, ``[count]`` each.
    """
    table = logits.ravel()
    _, flat = jax.lax.top_k(table + noise.ravel(), count)
    return flat, table[flat], jax.nn.softmax(table)[flat]


def _draw_sharded(
    mesh: Mesh, logits: Array, noise: Array, count: int
) -> tuple[Array, Array, Array]:
    """Draw as :func:`_draw` does, from tables that are divided by environment.

    The largest sums of all are among the largest of each device: only those move.
    """

    def local(logits: Array, noise: Array) -> tuple[Array, Array, Array]:
        envs = logits.shape[1]
        table = logits.ravel()
        sums, places = jax.lax.top_k(table + noise.ravel(), min(count, table.size))
        first = jax.lax.axis_index(AXIS) * envs
        flat = places // envs * (envs * mesh.size) + first + places % envs

        def together(x: Array) -> Array:
            gathered: Array = jax.lax.all_gather(x, AXIS, tiled=True)
            return gathered

        _, chosen = jax.lax.top_k(together(sums), count)
        drawn = together(table[places])[chosen]
        highest = jax.lax.pmax(jnp.max(table), AXIS)
        total = jax.lax.psum(jnp.sum(jnp.exp(table - highest)), AXIS)
        return together(flat)[chosen], drawn, jnp.exp(drawn - highest) / total

    drawn: tuple[Array, Array, Array] = jax.shard_map(
        local,
        mesh=mesh,
        in_specs=(BY_ENVIRONMENT, BY_ENVIRONMENT),
        out_specs=EVERYWHERE,
        check_vma=False,  # all devices draw the same, which JAX cannot know
    )(logits, noise)
    return drawn


def draw_uniformly(key: Array, usable: Array, count: int) -> tuple[Array, Array]:
    """Draw rows uniformly with replacement.

    Args:
        key: A random key.
        usable: Which rows may be drawn, ``[R, N]``; if there are none, the result is meaningless.
        count: The number of draws.

    Returns:
        The slots and the environments of the rows, both ``[count]``.
    """
    chex.assert_rank(usable, 2)
    chex.assert_type(usable, bool)
    shares = usable.ravel() / jnp.maximum(usable.sum(), 1)
    places = jax.random.choice(key, usable.size, (count,), p=shares)
    return places // usable.shape[1], places % usable.shape[1]


def window_slots(replay: Replay, sample: Sample, ahead: int) -> tuple[Array, Array]:
    """Return slots and environments of windows, both ``[B, ahead + 1]``.

    A window holds the sampled row and the ``ahead`` rows after it.
    """
    chex.assert_rank(sample.times, 1)
    chex.assert_equal_shape([sample.times, sample.envs])
    times = sample.times[:, None] + jnp.arange(ahead + 1, dtype=jnp.int32)
    return times % replay.rows, jnp.broadcast_to(sample.envs[:, None], times.shape)


def with_priorities(replay: Replay, sample: Sample, priorities: Array) -> Replay:
    """Return the replay with new priorities ``[B]`` of the sampled rows."""
    chex.assert_equal_shape([sample.times, sample.envs, priorities])
    slots = sample.times % replay.rows
    priority = replay.priority.at[slots, sample.envs].set(priorities)
    return replay._replace(priority=keep_columns(replay.mesh, priority))
