"""The optimiser, from optax."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import Array

from delayzero.learning.config import LearnerConfig
from delayzero.learning.packing import Packing


def learning_rate(config: LearnerConfig, total_updates: int) -> optax.Schedule:
    """Linear warm-up, then constant, then a tenth."""
    drop = max(config.warmup + 1, round(config.drop_at * total_updates))
    if config.drop_at == 1:
        drop = total_updates + config.warmup + 1
    return optax.join_schedules(
        [
            optax.linear_schedule(0.0, config.learning_rate, config.warmup),
            optax.constant_schedule(config.learning_rate),
            optax.constant_schedule(config.learning_rate / 10),
        ],
        [config.warmup, drop],
    )


def make_optimiser(config: LearnerConfig, total_updates: int) -> optax.GradientTransformation:
    """SGD with decay inside the momentum (as in PyTorch), or AdamW, of clipped gradients."""
    rate = learning_rate(config, total_updates)
    if config.optimiser == "adam":
        return optax.adamw(rate, b1=0.9, b2=0.99, eps=1e-5, weight_decay=config.weight_decay)
    decay = optax.add_decayed_weights(config.weight_decay)
    return optax.chain(decay, optax.sgd(rate, momentum=0.9))


def clipped(gradient: Any, largest: float) -> tuple[Any, Array]:
    """A gradient scaled down to a norm of at most ``largest``, and its norm before, ``[]``.

    As optax's own, with fewer launches on a GPU: small arrays are summed in one.
    """
    packed = Packing(gradient).pack(gradient)
    norm = jnp.sqrt(sum(jnp.sum(jnp.square(x)) for x in (packed.small, *packed.others)))
    scale = jnp.minimum(1.0, largest / norm)
    return jax.tree.map(lambda x: x * scale, gradient), norm
