"""Which rows to learn from: prioritised sampling without replacement."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from delayzero.replay.storage import Replay, can_be_sampled, row_times
from delayzero.settings import WeightKind

PRIORITIES = (1e-30, 1e30)
"""Priorities below and above count as these, so that zero and infinity have a logarithm."""


class Sample(NamedTuple):
    """``B`` sampled rows."""

    times: Array
    """``[B]``."""
    envs: Array
    """``[B]``."""
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

    Adding Gumbel noise to log-probabilities and taking the largest is the same as drawing one
    after the other without replacement.

    Args:
        replay: The replay.
        key: A random key.
        batch_size: How many; at least so many rows must be eligible.
        ahead: Rows that a sample needs behind its own.
        exponent: Alpha: probabilities p are priorities to this power; 0 is uniform.
        correction: Beta of the weights (n p)^-beta, for n eligible rows.
        weights: See :attr:`~delayzero.settings.ReplayConfig.weights`.
    """
    eligible = can_be_sampled(replay, ahead).ravel()
    priority = jnp.clip(replay.priority.ravel(), *PRIORITIES)
    logits = jnp.where(eligible, exponent * jnp.log(priority), -jnp.inf)
    noise = jax.random.gumbel(key, logits.shape)
    _, flat = jax.lax.top_k(logits + noise, batch_size)
    if weights == "relative":  # what all rows share cancels out
        excess = logits[flat] - jnp.min(logits[flat])
    else:
        expected = batch_size * jax.nn.softmax(logits)[flat]  # how often each would be drawn
        uniform = batch_size / jnp.sum(eligible)
        excess = jnp.log(jnp.minimum(expected, 1.0) / uniform)  # never twice in a batch
    importance = jnp.exp(-correction * jnp.maximum(excess, 0.0))
    slots, envs = flat // replay.num_envs, flat % replay.num_envs
    return Sample(row_times(replay)[slots], envs.astype(jnp.int32), importance)


def draw_uniformly(key: Array, usable: Array, count: int) -> tuple[Array, Array]:
    """Slots and environments of rows drawn with replacement, ``[count]`` both.

    Args:
        key: A random key.
        usable: Which rows may be drawn, ``[R, N]``; where there are none, what is
            drawn means nothing.
        count: How many.
    """
    shares = usable.ravel() / jnp.maximum(usable.sum(), 1)
    places = jax.random.choice(key, usable.size, (count,), p=shares)
    return places // usable.shape[1], places % usable.shape[1]


def window_slots(replay: Replay, sample: Sample, ahead: int) -> tuple[Array, Array]:
    """Slots and environments of the sampled rows and the ``ahead`` behind, ``[B, ahead + 1]``."""
    times = sample.times[:, None] + jnp.arange(ahead + 1, dtype=jnp.int32)
    return times % replay.rows, jnp.broadcast_to(sample.envs[:, None], times.shape)


def with_priorities(replay: Replay, sample: Sample, priorities: Array) -> Replay:
    """The replay with new priorities of the sampled rows, ``[B]``."""
    slots = sample.times % replay.rows
    return replay._replace(priority=replay.priority.at[slots, sample.envs].set(priorities))
