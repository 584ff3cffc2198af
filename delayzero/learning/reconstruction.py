"""Reconstruction: frames decoded from latents, compared with the frames that were really seen."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from delayzero.learning.batch import Batch
from delayzero.learning.in_training import InTraining
from delayzero.model.decoder import resized

LEAST_VARIANCE = 1e-6
"""Frames that vary less count as equal: there is nothing to reconstruct, and no loss."""


def newest_frames(batch: Batch) -> Array:
    """Return the newest frame of each observation and of what follows, ``[B, 1 + C, ...]``."""
    return jnp.concatenate([batch.observation[:, -1:], batch.following[:, :, -1]], axis=1)


def decoded(model: InTraining, first: Array, compared: Array) -> Array | None:
    """Decode the latents of positions and of compared states; None without a decoder.

    Args:
        model: The model.
        first: The latents of the positions, ``[B, ...]``.
        compared: The imagined latents after the compared steps, ``[C, B, ...]``.

    Returns:
        Frames ``[1 + C, B, h, w, channels]``.
    """
    if model.model.decoder is None:
        return None
    frames: Array = model.together("decode", jnp.concatenate([first[None], compared]))
    return frames


def reconstruction_losses(predicted: Array, batch: Batch, compared: Array) -> Array:
    """Return the mean squared errors of frames, relative to the variance of frames, ``[1 + C, B]``.

    The variance is that of the batch's frames around their mean: 1 is as good as a constant frame.
    A position with a lead counts only through its compared states: its observation is that of
    ``lead`` steps before, and the frame at the position itself is not gathered.

    Args:
        predicted: See :func:`decoded`.
        batch: The batch.
        compared: Which compared states count, 1 or 0, ``[C, B]``.
    """
    assert batch.newest is not None, "the model decodes frames: augment the batch first"
    leads = 0 if batch.lead is None else batch.lead.mask.shape[0]
    real = resized(batch.newest.swapaxes(0, 1), predicted.shape[2:])
    variance = jnp.mean(jnp.square(real - jnp.mean(real, axis=(0, 1))))
    varies = variance > LEAST_VARIANCE
    errors = jnp.mean(jnp.square(predicted - real), axis=(2, 3, 4))
    errors = jnp.where(varies, errors / jnp.where(varies, variance, 1.0), 0.0)
    own = (jnp.arange(batch.weight.shape[0]) >= leads).astype(errors.dtype)
    counted: Array = errors * jnp.concatenate([own[None], compared])
    return counted
