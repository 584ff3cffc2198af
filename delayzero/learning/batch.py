"""Assembling a batch from sampled positions: observations, actions, targets and masks."""

from __future__ import annotations

from typing import NamedTuple

import chex
import jax.numpy as jnp
from jax import Array

from delayzero.actions import Queue
from delayzero.learning.targets import (
    alive_steps,
    cuts,
    prefix_targets,
    steps_by_age,
    value_targets,
)
from delayzero.replay import (
    Replay,
    Sample,
    Targets,
    Transitions,
    divide_batch,
    episode_starts,
    queues_at,
    rows_at,
    stacked_frames,
    targets_at,
    window_slots,
)
from delayzero.settings import LearnerConfig


class Batch(NamedTuple):
    """The data of one update: ``B`` positions, ``K`` unrolled steps, stacks of ``S`` frames.

    After ``C`` of the steps, the imagined state is compared with the real observation. The first
    ``F`` positions have a lead: see :mod:`delayzero.learning.leads`.
    """

    observation: Array
    """The stack at each position, or the one its lead begins with, ``[B, S, ...]``."""
    following: Array
    """The observed stacks after the compared steps, ``[B, C, S, ...]``."""
    compared: Array
    """Those steps, from 0 to ``K - 1``, each at most once per position, ``[B, C]``."""
    action: Array
    """The action of each unrolled step, ``[B, K]``."""
    policy: Array
    """The policy targets, ``[B, K + 1, A]``."""
    value: Array
    """The value targets, ``[B, K + 1]``."""
    prefix: Array
    """The value prefix targets, ``[B, K]``."""
    alive: Array
    """Which unrolled states come before the first state's return ends, ``[B, K + 1]``; for a model
    that predicts ends, those before the episode ends."""
    weight: Array
    """Importance weights, ``[B]``."""
    age: Array
    """The age of the targets at each position, in updates, ``[B]``."""
    queue: Queue | None = None
    """For a model that sees them: the pending actions at each state, ``[B, K + 1, W]``."""
    lead: Queue | None = None
    """The actions from the observation to the position, where positions have a lead, ``[F, M]``."""
    ended: Array | None = None
    """For a model that predicts ends: whether the return ended with each step, ``[B, K]``."""
    newest: Array | None = None
    """For a model that decodes frames: the newest frames of the observation and of those that
    follow, as they were seen, without augmentation, ``[B, 1 + C, ...]``."""


def assert_batch(batch: Batch, actions: int) -> None:
    """Check the shapes of a batch against each other.

    Args:
        batch: The batch.
        actions: The number of actions A.

    Raises:
        AssertionError: A shape is not the one that :class:`Batch` documents.
    """
    chex.assert_rank([batch.action, batch.compared], 2)
    (size, unroll), states = batch.action.shape, batch.action.shape[1] + 1
    chex.assert_shape([batch.value, batch.alive], (size, states))
    chex.assert_shape(batch.policy, (size, states, actions))
    chex.assert_shape(batch.prefix, (size, unroll))
    chex.assert_shape([batch.weight, batch.age], (size,))
    chex.assert_shape(batch.observation, (size, ...))
    chex.assert_shape(batch.following, (*batch.compared.shape, *batch.observation.shape[1:]))
    if batch.queue is not None:
        chex.assert_shape([batch.queue.action, batch.queue.mask], (size, states, None))
    if batch.ended is not None:
        chex.assert_shape(batch.ended, (size, unroll))
    if batch.newest is not None:
        count = 1 + batch.compared.shape[1]
        chex.assert_shape(batch.newest, (size, count, *batch.observation.shape[2:]))
    if batch.lead is not None:
        assert batch.lead.mask.shape[0] <= size, "more leads than positions"


def window_targets(replay: Replay, sample: Sample, window: int) -> Targets:
    """Return the stored targets of the sampled windows, ``[B, window + 1, ...]``."""
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
    lead: Queue | None = None,
    predicts_ends: bool = False,
) -> Batch:
    """Gather a batch and compute its targets.

    Args:
        replay: The replay.
        sample: The sampled positions.
        targets: Policies and values of their windows, stored or from new searches,
            ``[B, W, ...]``.
        compared: See :class:`Batch`, ``[B, C]``.
        config: The learner's settings.
        discount: The discount per step.
        updates: The number of updates made so far, ``[]``.
        lead: See :class:`Batch`, ``[F, M]``.
        predicts_ends: Whether the model predicts ends; it is then unrolled over lost lives.
    """
    unroll, window, size = config.unroll, config.window, sample.times.shape[0]
    chex.assert_shape(compared, (size, None))
    chex.assert_shape(list(targets), (size, window + 1, ...))
    chex.assert_rank(updates, 0)
    slots, envs = window_slots(replay, sample, window)
    transitions: Transitions = rows_at(replay, replay.transitions, slots, envs)
    start = episode_starts(replay, sample.times, sample.envs)
    compared_times = sample.times[:, None] + 1 + compared
    alive = alive_steps(cuts(transitions, axis=1, predicts_ends=predicts_ends), unroll)
    age = (replay.length - sample.times) * replay.num_envs
    value = _values(transitions, targets, age, alive, config, discount=discount, updates=updates)
    observed = sample.times
    if lead is not None:
        observed = observed.at[: lead.mask.shape[0]].add(-lead.lengths)
    batch: Batch = divide_batch(
        replay.mesh,
        Batch(
            observation=stacked_frames(replay, observed, sample.envs, start),
            following=stacked_frames(replay, compared_times, sample.envs[:, None], start[:, None]),
            compared=compared,
            action=transitions.action[:, :unroll],
            policy=targets.policy[:, : unroll + 1],
            value=value,
            prefix=prefix_targets(transitions.reward, alive, config.prefix_horizon),
            alive=alive,
            weight=sample.weights,
            age=updates - targets.made_at[:, 0],
            queue=queues_at(replay, slots[:, : unroll + 1], envs[:, : unroll + 1]),
            lead=lead,
            ended=transitions.terminated[:, :unroll] if predicts_ends else None,
        ),
    )
    return batch


def _values(
    transitions: Transitions,
    targets: Targets,
    age: Array,
    alive: Array,
    config: LearnerConfig,
    *,
    discount: float,
    updates: Array,
) -> Array:
    """Return the value targets of the unrolled states, ``[B, K + 1]``.

    Args:
        transitions: The rows of the windows, ``[B, W]``.
        targets: Their policies and values, ``[B, W, ...]``.
        age: The age of each position, in interactions, ``[B]``.
        alive: See :class:`Batch`, ``[B, K + 1]``.
        config: The learner's settings.
        discount: The discount per step.
        updates: The number of updates made so far, ``[]``.
    """
    from_search = config.bootstrap == "search"
    value = value_targets(
        transitions.reward,
        transitions.terminated,
        transitions.truncated,
        targets.search_value if from_search else targets.network_value,
        steps_by_age(age, config.td_steps, config.td_age),
        alive,
        discount=discount,
    )
    if config.mixed_value_after is None:
        return value
    old = (age > config.mixed_value_age) & (updates >= config.mixed_value_after)
    return jnp.where(old[:, None] & alive, targets.search_value[:, : alive.shape[1]], value)
