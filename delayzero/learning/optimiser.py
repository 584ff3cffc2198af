"""The optimiser, from optax."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import Array

from delayzero.model.layers import initial_norm, normalised_kernels
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

    PyTorch's SGD places weight decay in the same way. The last step holds the norms of kernels, if
    the settings say so.
    """
    rate = learning_rate(config, total_updates)
    steps = [optax.clip_by_global_norm(config.clip_norm)]
    if config.optimiser == "adam":
        steps += [optax.adamw(rate, b1=0.9, b2=0.99, eps=1e-5, weight_decay=config.weight_decay)]
    else:
        steps += [optax.add_decayed_weights(config.weight_decay), optax.sgd(rate, momentum=0.9)]
    if config.kernel_norm is not None:
        steps += [hold_norms(config.kernel_norm)]
    return optax.chain(*steps)


def hold_norms(multiple: float) -> optax.GradientTransformation:
    """Correct updates so that kernels before batch normalisation keep their norm.

    Such a kernel's scale has no effect, but its gradient is inverse to it: the effective learning
    rate is that of a kernel of norm 1, divided by the square of the norm. Weight decay shrinks the
    norm until a step is too large, and the model breaks down. With its norm held, the
    effective learning rate is known, and only the schedule changes it (Lyle et al., 2024).

    Args:
        multiple: The norm to hold, as a multiple of the kernel's norm before training.
    """

    def correct(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        def held(is_normalised: bool, change: Array, kernel: Array) -> Array:
            if not is_normalised:
                return change
            moved = kernel + change
            result: Array = moved * (multiple * initial_norm(kernel) / jnp.linalg.norm(moved))
            return result - kernel

        return jax.tree.map(held, normalised_kernels(params), updates, params), state

    return optax.GradientTransformation(optax.init_empty_state, correct)
