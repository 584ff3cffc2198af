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


class Quality(NamedTuple):
    """Averages over positions, ``[H]`` each; entry k is for k + 1 steps ahead."""

    latent_error: Array
    """The distance of the rolled latent from the real one, as a share of the real one's length."""
    stale_error: Array
    """The same for the latent that is not rolled: what an agent that ignores delay acts on."""
    policy_agreement: Array
    """How often the likeliest action is the same."""
    value_error: Array
    """The mean absolute difference of values."""
    positions: Array
    """How many positions count: those whose episode lasts so long."""


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
        guess, truth = bound.predict(latent), bound.predict(real)
        value, true_value = (model.support.decode(p.value_logits) for p in (guess, truth))

        def mean(values: Array) -> Array:
            return jnp.sum(jnp.where(alive, values, 0)) / jnp.maximum(jnp.sum(alive), 1)

        quality = Quality(
            latent_error=mean(_distance(latent, real)),
            stale_error=mean(_distance(now, real)),
            policy_agreement=mean(_likeliest(guess) == _likeliest(truth)),
            value_error=mean(jnp.abs(value - true_value)),
            positions=jnp.sum(alive),
        )
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
    curves = {name: [float(x) for x in values] for name, values in quality._asdict().items()}
    return {"horizon": [float(k) for k in range(1, horizon + 1)], **curves}


def _distance(a: Array, b: Array) -> Array:
    """The distance of latents as a share of the second one's length, ``[B]``."""
    a, b = (x.reshape(x.shape[0], -1).astype(jnp.float32) for x in (a, b))
    length: Array = jnp.linalg.norm(b, axis=1)
    apart: Array = jnp.linalg.norm(a - b, axis=1)
    return apart / jnp.maximum(length, 1e-6)


def _likeliest(prediction: Prediction) -> Array:
    return jnp.argmax(prediction.policy_logits, axis=-1)
