"""From sampled positions to a batch: observations, actions, targets, masks."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from delayzero.actions import Queue
from delayzero.learning.targets import alive_steps, prefix_targets, steps_by_age, value_targets
from delayzero.replay import (
    Replay,
    Sample,
    Targets,
    queues_at,
    stacked_frames,
    targets_at,
    window_slots,
)
from delayzero.settings import LearnerConfig


class Batch(NamedTuple):
    """What one update learns from: ``B`` positions, ``K`` unrolled steps, stacks of ``S``.

    After ``C`` of the steps an imagined state is compared with what was really seen.
    """

    observation: Array
    """The stack at each position, ``[B, S, ...]``."""
    following: Array
    """The stacks that were seen after the compared steps, ``[B, C, S, ...]``."""
    compared: Array
    """Those steps, from 0 to ``K - 1``, each at most once for a position, ``[B, C]``."""
    action: Array
    """``[B, K]``."""
    policy: Array
    """``[B, K + 1, A]``."""
    value: Array
    """``[B, K + 1]``."""
    prefix: Array
    """``[B, K]``."""
    alive: Array
    """Which unrolled states belong to the first one's return, ``[B, K + 1]``."""
    weight: Array
    """Importance weights, ``[B]``."""
    age: Array
    """Updates since the targets at each position were made, ``[B]``."""
    queue: Queue | None = None
    """For a model that sees them: the pending actions at each state, ``[B, K + 1, W]``."""


def window_targets(replay: Replay, sample: Sample, window: int) -> Targets:
    """The stored targets of the sampled windows, ``[B, window + 1, ...]``."""
    return targets_at(replay, *window_slots(replay, sample, window))


def assemble(
    replay: Replay,
    sample: Sample,
    targets: Targets,
    compared: Array,
    config: LearnerConfig,
    *,
    discount: float,
    updates: Array,
) -> Batch:
    """Gather a batch and compute its targets.

    Args:
        replay: The replay.
        sample: The sampled positions.
        targets: Policies and values of their windows, stored or searched anew, ``[B, W, ...]``.
        compared: See :class:`Batch`.
        config: The learner's.
        discount: Of the problem.
        updates: Updates made so far, ``[]``.
    """
    unroll, window = config.unroll, config.window
    assert compared.shape[0] == sample.times.shape[0]
    slots, envs = window_slots(replay, sample, window)
    happened = jax.tree.map(lambda field: field[slots, envs], replay.transitions)
    start = replay.start[slots[:, 0], envs[:, 0]]
    reached = sample.times[:, None] + 1 + compared
    alive = alive_steps(happened.terminated, happened.truncated, unroll)
    age = (replay.length - sample.times) * replay.num_envs
    searched = config.bootstrap == "search"
    value = value_targets(
        happened.reward,
        happened.terminated,
        happened.truncated,
        targets.search_value if searched else targets.network_value,
        steps_by_age(age, config.td_steps, config.td_age),
        discount=discount,
        unroll=unroll,
    )
    if config.mixed_value_after is not None:
        old = (age > config.mixed_value_age) & (updates >= config.mixed_value_after)
        value = jnp.where(old[:, None] & alive, targets.search_value[:, : unroll + 1], value)
    return Batch(
        observation=stacked_frames(replay, sample.times, sample.envs, start),
        following=stacked_frames(replay, reached, sample.envs[:, None], start[:, None]),
        compared=compared,
        action=happened.action[:, :unroll],
        policy=targets.policy[:, : unroll + 1],
        value=value,
        prefix=prefix_targets(happened.reward, alive, config.prefix_horizon),
        alive=alive,
        weight=sample.weights,
        age=updates - targets.made_at[:, 0],
        queue=queues_at(replay, slots[:, : unroll + 1], envs[:, : unroll + 1]),
    )
