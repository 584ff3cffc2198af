"""Predicted pictures: decoded latents compared with the frames that were really seen."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from delayzero.learning.batch import Batch
from delayzero.learning.in_training import InTraining, apart, merged
from delayzero.model.decoder import resized

LEAST_VARIANCE = 1e-6
"""Pictures whose variance is smaller count as equal: there is nothing to predict."""


def newest_frames(batch: Batch) -> Array:
    """Return the newest frame of each position and of what is compared, ``[B, 1 + C, ...]``."""
    return jnp.concatenate([batch.observation[:, -1:], batch.following[:, :, -1]], axis=1)


def decoded(model: InTraining, first: Array, compared: Array) -> Array | None:
    """Predict the pictures of positions and compared states; None without a decoder.

    Args:
        model: The model.
        first: The latents of the positions, ``[B, ...]``.
        compared: The imagined latents after the compared steps, ``[C, B, ...]``.

    Returns:
        ``[1 + C, B, h, w, channels]``.
    """
    if model.model.decoder is None:
        return None
    states = jnp.concatenate([first[None], compared])
    pictures = model("decode", merged(model.mesh, states))
    groups: Array = apart(model.mesh, pictures, states.shape[0])
    return groups


def picture_losses(predicted: Array, batch: Batch, compared: Array) -> Array:
    """Return the mean squared error of pictures over their variance, ``[1 + C, B]``.

    The variance is that of the batch's pictures around their mean: 1 is as good as a constant
    picture. A position with a lead has no picture of its own, only compared states.

    Args:
        predicted: See :func:`decoded`.
        batch: The batch.
        compared: Which compared states count, 1 or 0, ``[C, B]``.
    """
    assert batch.picture is not None, "the model predicts pictures: assemble the batch with them"
    leads = 0 if batch.lead is None else batch.lead.mask.shape[0]
    real = resized(batch.picture.swapaxes(0, 1), predicted.shape[2:])
    mean = jnp.mean(real, axis=(0, 1))
    variance = jnp.maximum(jnp.mean(jnp.square(real - mean)), LEAST_VARIANCE)
    errors = jnp.mean(jnp.square(predicted - real), axis=(2, 3, 4)) / variance
    own = (jnp.arange(batch.weight.shape[0]) >= leads).astype(errors.dtype)
    counts: Array = errors * jnp.concatenate([own[None], compared])
    return counts
