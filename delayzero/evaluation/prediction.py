"""Prediction quality: rolled latents compared with real ones, by steps ahead.

A model is rolled through the actions of its rows, on which it was trained. For most agents these
are the executed actions. For ``oblivious`` they are its decisions, which its model takes to be
executed at once. For ``augmented`` they are its decisions too, appended to the queue that is part
of its latents. Its real latents include the next queue and therefore the next delay, which under a
random law cannot be predicted.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from delayzero.evaluation.way import Events, draw_starts, way_from
from delayzero.learning.loss import cosine
from delayzero.model import WorldModel, flat_latents
from delayzero.model.parts import Prediction
from delayzero.playing.environments import Delayed, delayed, make_env
from delayzero.playing.streams import STREAM_EVALUATION, STREAM_PREDICTION_ENVS, run_key, run_seed
from delayzero.playing.system import System
from delayzero.replay import Replay, append

POSITIONS = 512
"""Positions from which the model is rolled."""
ENVS = 8
"""Environments played in parallel to collect these positions."""

Curves = dict[str, list[float | None]]
"""Curves by name, with an entry for each number of steps ahead."""


class Nearness(NamedTuple):
    """How near a latent is to the real one of the same step."""

    latent_error: Array
    """The norm of the difference, relative to the norm of the real latent."""
    similarity: Array
    """The cosine of their projections, which the consistency loss drives towards 1."""
    policy_agreement: Array
    """Whether the most likely action is the same."""
    value_error: Array
    """The absolute difference of values."""
    action_worth: Array
    """The probability at the real state of the action that is most likely here, relative to that of
    the most likely action there. Unlike agreement, it forgives where the policy is indifferent."""


class Part(NamedTuple):
    """Means over the positions with one kind of event on the way, ``[H]`` each."""

    policy_agreement: Array
    value_error: Array
    positions: Array


class Quality(NamedTuple):
    """Means over positions, ``[H]`` each; entry k is for k + 1 steps ahead, NaN for no position."""

    rolled: Nearness
    """For the latent rolled through the actions of the rows."""
    stale: Nearness
    """For the latent of the start, unchanged: an agent that ignores delay acts on it."""
    positions: Array
    """The number of positions in each mean: those whose return lasts that long."""
    reward_recall: Array
    """The share of the rewards of the last step of which the model predicts at least half."""
    rewards: Array
    """The number of those rewards."""
    by_event: Events
    """A :class:`Part` for each kind of event, of the rolled latents."""

    def curves(self) -> dict[str, Array]:
        """Return every curve by name.

        Those of the stale latent begin with ``stale_``, those of a part with the event's name.
        """
        parts = {"stale": self.stale, **self.by_event._asdict()}
        return {
            **self.rolled._asdict(),
            **{f"{part}_{name}": x for part, c in parts.items() for name, x in c._asdict().items()},
            "positions": self.positions,
            "reward_recall": self.reward_recall,
            "rewards": self.rewards,
        }

    def lists(self) -> Curves:
        """Return the curves as lists for JSON; None instead of NaN."""
        curves = {name: np.asarray(curve).tolist() for name, curve in self.curves().items()}
        return {
            name: [None if math.isnan(entry) else entry for entry in curve]
            for name, curve in curves.items()
        }


def foresight(
    model: WorldModel,
    horizon: int,
    positions: int,
    variables: Any,
    replay: Replay,
    key: Array,
) -> Quality:
    """Predict the latents after the actions of the rows, from stored positions.

    Args:
        model: The world model.
        horizon: H, the largest number of steps.
        positions: The number of positions, drawn uniformly from those with ``horizon`` rows after
            them; if there are none, the means are over no position.
        variables: The model's variables.
        replay: The rows.
        key: A random key.
    """
    starts = draw_starts(replay, horizon, positions, key)
    way = way_from(starts, horizon)
    bound = model.bind(variables)

    def encoded(step: Array) -> Array:
        """Return the real latents of a step."""
        return bound.represent(starts.frames(step), starts.queue(step))

    now = encoded(jnp.int32(0))

    def ahead(latent: Array, k: Array) -> tuple[Array, tuple[Nearness, Nearness, Array]]:
        """Predict the state after k + 1 steps; ``[B]`` each: how near it is, and its reward."""
        stepped, real = bound.step(latent, way.action[k]), encoded(k + 1)
        prefix, _ = bound.value_prefix(stepped, bound.initial_memory(positions))
        near = _nearness(bound, stepped, real), _nearness(bound, now, real)
        return stepped, (*near, model.support.decode(prefix))

    steps = jnp.arange(horizon, dtype=jnp.int32)
    rolled, stale, reward = jax.lax.scan(ahead, now, steps)[1]  # [H, B] each
    found = reward * jnp.sign(way.reward) >= jnp.abs(way.reward) / 2

    def part(chosen: Array) -> Part:
        agreement, error = rolled.policy_agreement, rolled.value_error
        return Part(_mean(agreement, chosen), _mean(error, chosen), chosen.sum(axis=1))

    return Quality(
        rolled=Nearness(*(_mean(values, way.alive) for values in rolled)),
        stale=Nearness(*(_mean(values, way.alive) for values in stale)),
        positions=way.alive.sum(axis=1),
        reward_recall=_mean(found, way.paid),
        rewards=way.paid.sum(axis=1),
        by_event=Events(*map(part, way.events)),
    )


def horizon_of(system: System) -> int:
    """Return the longest delay, and at least the number of steps unrolled in training."""
    return max(system.config.longest_way, system.searching.learner.unroll)


def foresight_program(system: System) -> Callable[[Any, Replay, Array], Quality]:
    """Return :func:`foresight` of a system's model, compiled: ``(variables, replay, key)``."""
    model, horizon = system.planner.model, horizon_of(system)
    return jax.jit(functools.partial(foresight, model, horizon, POSITIONS))


def measure_foresight(system: System, variables: Any, seed: int) -> Curves:
    """Measure a trained model's prediction quality in new episodes, under the delay of its run.

    Args:
        system: The system of an agent with a world model.
        variables: The model's variables.
        seed: The seed of the episodes.
    """
    config = system.searching
    horizon = horizon_of(system)
    world = delayed(make_env(config, ENVS, training=False, max_steps=None), config.delays)
    replay = new_episodes(system, variables, world, seed, config.prediction_rows + horizon)
    world.env.close()
    quality = foresight_program(system)(variables, replay, run_key(seed, STREAM_EVALUATION))
    return {"horizon": [float(k) for k in range(1, horizon + 1)], **quality.lists()}


def new_episodes(system: System, variables: Any, world: Delayed, seed: int, rows: int) -> Replay:
    """Play new episodes without exploration; return the steps as rows of a replay, without targets.

    Args:
        system: The system of an agent with a world model.
        variables: The model's variables.
        world: The environments.
        seed: The seed of the episodes.
        rows: The number of steps in each environment.
    """
    player = system.player(world, run_key(seed, STREAM_EVALUATION), explore=False)
    player.begin(run_seed(seed, STREAM_PREDICTION_ENVS))
    played = [player.step(variables)[0] for _ in range(rows)]
    frames = np.stack([step.observation for step in played])
    replay = system.empty_replay(rows=rows, num_envs=frames.shape[1])
    transitions, decisions = system.rows_of(played)
    unused = jax.tree.map(lambda field: field[:rows], replay.targets)
    return append(replay, jnp.asarray(frames), transitions, unused, decisions)


def _nearness(model: WorldModel, latent: Array, real: Array) -> Nearness:
    """Compare latents with real ones; each field ``[B]``."""
    guess, truth = model.predict(latent), model.predict(real)
    value, true_value = (model.support.decode(p.value_logits) for p in (guess, truth))
    projected = model.predict_projection(model.project(latent))
    return Nearness(
        latent_error=_length(flat_latents(latent) - flat_latents(real))
        / _length(flat_latents(real)),
        similarity=cosine(*(x.astype(jnp.float32) for x in (projected, model.project(real)))),
        policy_agreement=_likeliest(guess) == _likeliest(truth),
        value_error=jnp.abs(value - true_value),
        action_worth=_worth(_likeliest(guess), truth),
    )


def _mean(values: Array, chosen: Array) -> Array:
    """Return the means over chosen positions, ``[H]``; NaN where there is none."""
    return jnp.where(chosen, values, 0).sum(axis=1) / chosen.sum(axis=1)


def _length(x: Array) -> Array:
    return jnp.maximum(jnp.linalg.norm(x, axis=1), 1e-6)


def _likeliest(prediction: Prediction) -> Array:
    return jnp.argmax(prediction.policy_logits, axis=-1)


def _worth(action: Array, real: Prediction) -> Array:
    """Return the probabilities of actions ``[B]`` relative to the largest ones, ``[B]``."""
    logits = real.policy_logits
    chosen = jnp.take_along_axis(logits, action[:, None], axis=-1)[:, 0]
    return jnp.exp(chosen - jnp.max(logits, axis=-1))
