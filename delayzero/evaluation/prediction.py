"""How well a model foresees: rolled latents against those of what really came, by horizon."""

from __future__ import annotations

import functools
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
from delayzero.replay import (
    Replay,
    append,
    can_be_sampled,
    create,
    queues_at,
    row_times,
    stacked_frames,
)
from delayzero.training.collector import rows_of
from delayzero.training.system import (
    STREAM_EVALUATION,
    STREAM_PREDICTION_ENVS,
    System,
    delayed,
    run_key,
    run_seed,
)

POSITIONS = 512
"""Positions from which the model is rolled."""
ENVS = 8
"""Played side by side for it."""


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
    """Averages over positions, ``[H]`` each; entry k is for k + 1 steps ahead."""

    rolled: Nearness
    """Of the latent rolled through the actions that ran."""
    stale: Nearness
    """Of the latent left as it was: what an agent that ignores delay acts on."""
    positions: Array
    """How many positions count: those whose episode lasts so long."""

    def curves(self) -> dict[str, Array]:
        """Every curve by its name; those of the stale latent begin with ``stale_``."""
        stale = {f"stale_{name}": curve for name, curve in self.stale._asdict().items()}
        return {**self.rolled._asdict(), **stale, "positions": self.positions}


def foresight(
    model: WorldModel,
    stack: int,
    horizon: int,
    positions: int,
    variables: Any,
    replay: Replay,
    key: Array,
) -> Quality:
    """Roll the model from stored positions through the actions that followed.

    Args:
        model: The world model.
        stack: Frames in an observation.
        horizon: H, the most steps.
        positions: How many are drawn, uniformly from those with ``horizon`` rows behind them.
        variables: The model's.
        replay: What happened.
        key: A random key.
    """
    usable = can_be_sampled(replay, horizon, stack).reshape(-1)
    places = jax.random.choice(key, usable.size, (positions,), p=usable / usable.sum())
    slots, envs = places // replay.num_envs, places % replay.num_envs
    times, start = row_times(replay)[slots], replay.start[slots, envs]
    happened = replay.transitions
    ends = happened.terminated | happened.truncated

    def seen(k: Array) -> Array:
        """The latents of what was seen k steps later."""
        frames = stacked_frames(replay, times + k, envs, start, stack)
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
            return jnp.sum(jnp.where(alive, values, 0)) / jnp.maximum(jnp.sum(alive), 1)

        rolled, stale = (jax.tree.map(mean, _nearness(bound, x, real)) for x in (latent, now))
        quality = Quality(rolled, stale, jnp.sum(alive))
        return (latent, alive), quality

    begin = now, jnp.ones(positions, bool)
    quality: Quality = jax.lax.scan(ahead, begin, jnp.arange(horizon, dtype=jnp.int32))[1]
    return quality


def horizon_of(system: System) -> int:
    """The largest delay, and at least as far as the model was unrolled in training."""
    return max(system.config.max_delay, system.config.learner.unroll)


def foresight_program(system: System) -> Callable[[Any, Replay, Array], Quality]:
    """:func:`foresight` of a system's model, compiled: ``(variables, replay, key)``."""
    model, stack = system.planner.model, system.config.stack
    return jax.jit(functools.partial(foresight, model, stack, horizon_of(system), POSITIONS))


def measure_foresight(system: System, variables: Any, seed: int) -> dict[str, list[float]]:
    """How well a trained model foresees what comes in new episodes, under the delay of its run.

    Args:
        system: Of an agent with a world model.
        variables: The model's.
        seed: Of the episodes.
    """
    config, spaces = system.config, system.spaces
    horizon = horizon_of(system)
    rows = config.prediction_rows + horizon
    env = delayed(make_vector(config.env, ENVS, training=False), config.law)
    player = system.player(env, run_key(seed, STREAM_EVALUATION), explore=False)
    player.begin(run_seed(seed, STREAM_PREDICTION_ENVS))
    replay = create(rows, ENVS, spaces.shape, spaces.dtype, spaces.num_actions, queue=system.queue)
    played = [player.step(variables)[0] for _ in range(rows)]
    env.close()
    happened, decisions = rows_of(system, played)
    unused = jax.tree.map(lambda field: field[:rows], replay.targets)
    frames = np.stack([step.observation for step in played])
    replay = append(replay, jnp.asarray(frames), happened, unused, decisions)
    quality = foresight_program(system)(variables, replay, run_key(seed, STREAM_EVALUATION))
    curves = {name: [float(x) for x in values] for name, values in quality.curves().items()}
    return {"horizon": [float(k) for k in range(1, horizon + 1)], **curves}


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
