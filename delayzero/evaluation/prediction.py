"""How well a model foresees: rolled latents against those of what really came, by horizon.

A model is rolled through the actions that its rows hold, those that it was trained on. For most
agents they are the ones that ran. For ``oblivious`` they are its decisions, and its model takes
each to run at once. For ``augmented`` they are its decisions too, written into the queue that its
latents know of; what really came includes the next queue, so the next delay, which under a random
law nobody can foresee.
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

from delayzero.envs.make import make_vector
from delayzero.learning.loss import cosine
from delayzero.model import WorldModel
from delayzero.model.parts import Prediction
from delayzero.playing.environments import delayed
from delayzero.playing.streams import STREAM_EVALUATION, STREAM_PREDICTION_ENVS, run_key, run_seed
from delayzero.playing.system import System
from delayzero.replay import (
    Replay,
    append,
    can_be_sampled,
    draw_uniformly,
    queues_at,
    row_times,
    stacked_frames,
)

POSITIONS = 512
"""Positions from which the model is rolled."""
ENVS = 8
"""Played side by side for it."""


Curves = dict[str, list[float | None]]
"""By their names; an entry for each number of steps ahead."""


class Nearness(NamedTuple):
    """How near one latent is to the real one of the same moment."""

    latent_error: Array
    """The distance of the two, as a share of the real one's length."""
    similarity: Array
    """The cosine of their projections: what the consistency loss of training makes near 1."""
    policy_agreement: Array
    """Whether the likeliest action is the same."""
    value_error: Array
    """The absolute difference of values."""


class Quality(NamedTuple):
    """Averages over positions, ``[H]`` each; entry k is for k + 1 steps ahead, NaN without any."""

    rolled: Nearness
    """Of the latent rolled through the actions of the rows."""
    stale: Nearness
    """Of the latent left as it was: what an agent that ignores delay acts on."""
    positions: Array
    """How many positions count: those whose episode lasts so long."""

    def curves(self) -> dict[str, Array]:
        """Every curve by its name; those of the stale latent begin with ``stale_``."""
        stale = {f"stale_{name}": curve for name, curve in self.stale._asdict().items()}
        return {**self.rolled._asdict(), **stale, "positions": self.positions}

    def lists(self) -> Curves:
        """The same as numbers to be written down; None where no position counts."""
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
    """Roll the model from stored positions through the actions that the rows hold.

    Args:
        model: The world model.
        horizon: H, the most steps.
        positions: How many are drawn, uniformly from those with ``horizon`` rows behind them;
            where there is none, none counts.
        variables: The model's.
        replay: What happened.
        key: A random key.
    """
    usable = can_be_sampled(replay, horizon)
    slots, envs = draw_uniformly(key, usable, positions)
    times, start = row_times(replay)[slots], replay.start[slots, envs]
    happened = replay.transitions
    ends = happened.terminated | happened.truncated

    def seen(k: Array) -> Array:
        """The latents of what was seen k steps later."""
        frames = stacked_frames(replay, times + k, envs, start)
        queue = queues_at(replay, (slots + k) % replay.rows, envs)
        return model.bind(variables).represent(frames, queue)

    now = seen(jnp.int32(0))

    def ahead(carry: tuple[Array, Array], k: Array) -> tuple[tuple[Array, Array], Quality]:
        latent, alive = carry
        rows = (slots + k) % replay.rows
        alive = alive & ~ends[rows, envs]
        bound = model.bind(variables)
        latent, real = bound.step(latent, happened.action[rows, envs]), seen(k + 1)

        def mean(values: Array) -> Array:
            return jnp.sum(jnp.where(alive, values, 0)) / jnp.sum(alive)  # of none: NaN

        rolled, stale = (jax.tree.map(mean, _nearness(bound, x, real)) for x in (latent, now))
        quality = Quality(rolled, stale, jnp.sum(alive))
        return (latent, alive), quality

    begin = now, jnp.full(positions, usable.any())
    quality: Quality = jax.lax.scan(ahead, begin, jnp.arange(horizon, dtype=jnp.int32))[1]
    return quality


def horizon_of(system: System) -> int:
    """The largest delay, and at least as far as the model was unrolled in training."""
    return max(system.config.longest_way, system.searching.learner.unroll)


def foresight_program(system: System) -> Callable[[Any, Replay, Array], Quality]:
    """:func:`foresight` of a system's model, compiled: ``(variables, replay, key)``."""
    model, horizon = system.planner.model, horizon_of(system)
    return jax.jit(functools.partial(foresight, model, horizon, POSITIONS))


def measure_foresight(system: System, variables: Any, seed: int) -> Curves:
    """How well a trained model foresees what comes in new episodes, under the delay of its run.

    Args:
        system: Of an agent with a world model.
        variables: The model's.
        seed: Of the episodes.
    """
    config = system.searching
    horizon = horizon_of(system)
    rows = config.prediction_rows + horizon
    world = delayed(make_vector(config.env, ENVS, training=False), config.delays)
    player = system.player(world, run_key(seed, STREAM_EVALUATION), explore=False)
    player.begin(run_seed(seed, STREAM_PREDICTION_ENVS))
    replay = system.empty_replay(rows=rows, num_envs=ENVS)
    played = [player.step(variables)[0] for _ in range(rows)]
    world.env.close()
    happened, decisions = system.rows_of(played)
    unused = jax.tree.map(lambda field: field[:rows], replay.targets)
    frames = np.stack([step.observation for step in played])
    replay = append(replay, jnp.asarray(frames), happened, unused, decisions)
    quality = foresight_program(system)(variables, replay, run_key(seed, STREAM_EVALUATION))
    return {"horizon": [float(k) for k in range(1, horizon + 1)], **quality.lists()}


def _nearness(model: WorldModel, latent: Array, real: Array) -> Nearness:
    """Each field ``[B]``."""
    guess, truth = model.predict(latent), model.predict(real)
    value, true_value = (model.support.decode(p.value_logits) for p in (guess, truth))
    projected = model.predict_projection(model.project(latent))
    return Nearness(
        latent_error=_length(_flat(latent) - _flat(real)) / _length(_flat(real)),
        similarity=cosine(*(x.astype(jnp.float32) for x in (projected, model.project(real)))),
        policy_agreement=_likeliest(guess) == _likeliest(truth),
        value_error=jnp.abs(value - true_value),
    )


def _flat(x: Array) -> Array:
    return x.reshape(x.shape[0], -1).astype(jnp.float32)


def _length(x: Array) -> Array:
    return jnp.maximum(jnp.linalg.norm(x, axis=1), 1e-6)


def _likeliest(prediction: Prediction) -> Array:
    return jnp.argmax(prediction.policy_logits, axis=-1)
