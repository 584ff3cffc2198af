"""Which rows to learn from: prioritised sampling without replacement."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from delayzero.replay.storage import Replay, can_be_sampled, row_times


class Sample(NamedTuple):
    """``B`` sampled rows."""

    times: Array
    """``[B]``."""
    envs: Array
    """``[B]``."""
    weights: Array
    """Importance weights, the largest is 1, ``[B]``."""


def sample(
    replay: Replay,
    key: Array,
    batch_size: int,
    *,
    ahead: int,
    stack: int,
    exponent: float,
    correction: Array | float,
) -> Sample:
    """Draw rows without replacement, by priority.

    Adding Gumbel noise to log-probabilities and taking the largest is the same as drawing one
    after the other without replacement.

    Args:
        replay: The replay.
        key: A random key.
        batch_size: How many; at least so many rows must be eligible.
        ahead: Rows that a sample needs behind its own.
        stack: Frames in a stack.
        exponent: Alpha: probabilities are priorities to this power; 0 is uniform.
        correction: Beta: weights are (n p)^-beta over the largest of the batch.
    """
    eligible = can_be_sampled(replay, ahead, stack).ravel()
    logits = jnp.where(eligible, exponent * jnp.log(replay.priority.ravel()), -jnp.inf)
    noise = jax.random.gumbel(key, logits.shape)
    _, flat = jax.lax.top_k(logits + noise, batch_size)
    # (n p)^-beta over its maximum: what all rows share cancels out.
    weights = jnp.exp(-correction * (logits[flat] - jnp.min(logits[flat])))
    slots, envs = flat // replay.num_envs, flat % replay.num_envs
    return Sample(row_times(replay)[slots], envs.astype(jnp.int32), weights)


def window_slots(replay: Replay, sample: Sample, ahead: int) -> tuple[Array, Array]:
    """Slots and environments of the sampled rows and the ``ahead`` behind, ``[B, ahead + 1]``."""
    times = sample.times[:, None] + jnp.arange(ahead + 1, dtype=jnp.int32)
    return times % replay.rows, jnp.broadcast_to(sample.envs[:, None], times.shape)


def with_priorities(replay: Replay, sample: Sample, priorities: Array) -> Replay:
    """The replay with new priorities of the sampled rows, ``[B]``."""
    slots = sample.times % replay.rows
    return replay._replace(priority=replay.priority.at[slots, sample.envs].set(priorities))
