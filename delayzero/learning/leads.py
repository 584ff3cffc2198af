"""Leads: for some rows of a batch, the model starts from a latent that it has rolled there.

An agent that looks ahead reads latents that were rolled through as many actions as its decision is
late, not encoded ones. So a share of the rows of a batch is unrolled from such latents. The *lead*
of a row t is the number of steps L before it: its observation is that at t - L, and the dynamics
run through the executed actions in between with the running statistics, as while acting. From there
on the row is trained like any other, with the targets of t and the steps after it. So everything
that acting and its search read is trained where they read it. With ``--learner.lead-gradient`` the
gradient flows on through the steps of the lead, and teaches the encoder what is needed there.

Where chance decides what comes, the policies of searches from the states that came can add up to a
vote: which action is best *most often*. With ``--learner.lead-policy rolled`` the policy is that of
a search from the rolled latent, whose values are averages over what came.
"""

from __future__ import annotations

from typing import Any

import chex
import jax
import jax.numpy as jnp
from jax import Array

from delayzero.actions import Queue
from delayzero.learning.targets import cuts
from delayzero.model import WorldModel
from delayzero.model.image_rolls import can_chain, roll_images
from delayzero.replay import Replay, Sample, episode_starts, oldest_time, rows_at

BY_DELAY = 0.5
"""The share of leads that are delays of stored decisions; the others are uniform up to the longest:
under a constant law the latents on the way are trained by them alone."""


def draw_leads(replay: Replay, key: Array, count: int, longest: int) -> Array:
    """Draw leads from 1 to ``longest``, ``[count]``.

    Half of them are as long as the delays of stored decisions, drawn uniformly; a delay of 0
    counts as 1.

    Args:
        replay: The replay.
        key: A random key.
        count: The number of leads.
        longest: The longest lead.
    """
    kind_key, row_key, uniform_key = jax.random.split(key, 3)
    stored = jnp.minimum(replay.length, replay.rows) * replay.num_envs
    place = jax.random.randint(row_key, (count,), 0, stored)
    columns = replay.transitions.final, replay.decisions.delay
    final, delay = rows_at(replay, columns, place // replay.num_envs, place % replay.num_envs)
    uniform = jax.random.randint(uniform_key, (count,), 1, longest + 1)
    by_delay = jax.random.uniform(kind_key, (count,)) < BY_DELAY
    return jnp.where(by_delay & ~final, jnp.clip(delay, 1, longest), uniform)


def lead_queues(
    replay: Replay, sample: Sample, leads: Array, longest: int, *, predicts_ends: bool = False
) -> Queue:
    """Return the executed actions that lead to rows, oldest first, ``[F, longest]``.

    A lead is shortened if an end of the return, the start of the episode or the oldest stored
    observation lies on the way. With a model that predicts ends, it crosses lost lives, as the
    queue of pending actions does.

    Args:
        replay: The replay.
        sample: The rows, ``[F]``.
        leads: The wanted leads, ``[F]``, from 0 to ``longest``.
        longest: The longest lead.
        predicts_ends: Whether the model predicts ends.
    """
    chex.assert_equal_shape([sample.times, sample.envs, leads])
    rows = replay.rows
    back = jnp.arange(1, longest + 1, dtype=jnp.int32)
    times = sample.times[:, None] - back  # [F, longest], the nearest first
    envs = jnp.broadcast_to(sample.envs[:, None], times.shape)
    start = episode_starts(replay, sample.times, sample.envs)
    earliest = jnp.maximum(start, oldest_time(replay))
    transitions = replay.transitions
    cut = cuts(transitions, axis=0, predicts_ends=predicts_ends)
    cut = rows_at(replay, cut, times % rows, envs)
    connected = jnp.cumprod((times >= earliest[:, None]) & ~cut, axis=1).sum(axis=1)
    leads = jnp.minimum(leads, connected)[:, None]
    forward = sample.times[:, None] - leads + back - 1
    return Queue(rows_at(replay, transitions.action, forward % rows, envs), back <= leads)


def rolled_latents(model: WorldModel, variables: Any, latent: Array, queue: Queue) -> Array:
    """Roll latents ``[F, ...]`` through queues ``[F, longest]``.

    All queues take the same number of steps, known when the program is compiled: a GPU then makes
    them without asking the host whether to continue.
    """
    actions, moves = queue.action.T, queue.mask.T
    if can_chain(model):
        return roll_images(model, variables, latent, actions, moves)

    def move(latent: Array, step: tuple[Array, Array]) -> tuple[Array, None]:
        action, moves = step
        moved = model.bind(variables).step(latent, action)
        return jnp.where(moves.reshape(-1, *(1 for _ in latent.shape[1:])), moved, latent), None

    rolled: Array = jax.lax.scan(move, latent, (actions, moves))[0]
    return rolled
