"""The optimiser, from optax."""

from __future__ import annotations

import optax

from delayzero.settings import LearnerConfig


def learning_rate(config: LearnerConfig, total_updates: int) -> optax.Schedule:
    """Return the schedule: linear warm-up, then constant, then a tenth."""
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
    """Build the optimiser: clipping, then AdamW, or SGD with decay inside the momentum.

    PyTorch's SGD places weight decay in the same way.
    """
    rate = learning_rate(config, total_updates)
    clip = optax.clip_by_global_norm(config.clip_norm)
    if config.optimiser == "adam":
        step = optax.adamw(rate, b1=0.9, b2=0.99, eps=1e-5, weight_decay=config.weight_decay)
        return optax.chain(clip, step)
    decay = optax.add_decayed_weights(config.weight_decay)
    return optax.chain(clip, decay, optax.sgd(rate, momentum=0.9))
