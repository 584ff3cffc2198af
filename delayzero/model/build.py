"""Choosing and building the model for a configuration and an observation shape."""

from __future__ import annotations

import functools
from typing import Literal

import jax
import jax.numpy as jnp

from delayzero.actions import ActionSpec
from delayzero.model.atari import atari_model
from delayzero.model.conv import conv_model
from delayzero.model.decoder import Decoder, detail_of
from delayzero.model.layers import NormKind
from delayzero.model.mlp import mlp_model
from delayzero.model.parts import QueueFusion
from delayzero.model.scalars import Support
from delayzero.model.world_model import WorldModel
from delayzero.settings import SearchingConfig, TrainConfig
from delayzero.settings.model import LARGE, ModelConfig

Kind = Literal["atari", "conv", "mlp"]


def build_model(
    config: ModelConfig,
    observation_shape: tuple[int, ...],
    actions: ActionSpec,
    *,
    sees_queue: bool = False,
    decodes: bool = False,
) -> WorldModel:
    """Build the world model for an environment; its parameters come from ``model.init``.

    Args:
        config: The kind and the sizes of the networks.
        observation_shape: The shape of one observation, without the stack: ``[H, W, C]`` or
            ``[D]``.
        actions: The action space.
        sees_queue: Whether latents include the pending actions.
        decodes: Whether the model has a decoder; only for latent images.

    Raises:
        ValueError: The networks don't accept observations of this shape.
    """
    model = _environment_model(config, observation_shape, actions)
    vector_latents = kind_of(config, tuple(observation_shape)) == "mlp"
    model = model.clone(
        dynamics=model.dynamics.clone(action_code=config.action_code),
        prediction=model.prediction.clone(predicts_ends=config.ends == "predicted"),
        scales=config.scaled and not vector_latents,
    )
    if decodes:
        model = model.clone(decoder=_decoder(model, observation_shape))
    if not sees_queue:
        return model
    norm: NormKind = "layer" if vector_latents else "batch"
    return model.clone(queue=QueueFusion(actions, norm=norm, dtype=model.dtype))


def _environment_model(
    config: ModelConfig, observation_shape: tuple[int, ...], actions: ActionSpec
) -> WorldModel:
    """Build the model of the environment alone, without pending actions."""
    support, dtype = Support(config.support), jnp.dtype(computed_in(config)).type
    match kind_of(config, tuple(observation_shape)):
        case "atari":
            return atari_model(actions, support, dtype)
        case "conv":
            sizes = (config.channels, config.head, config.lstm)
            return conv_model(actions, support, *sizes, dtype)
        case "mlp":
            sizes = (config.latent, config.width, config.lstm)
            return mlp_model(actions, support, *sizes, dtype)


def _decoder(model: WorldModel, observation_shape: tuple[int, ...]) -> Decoder:
    """Return the decoder for a model of images."""
    height, width, channels = observation_shape
    image = jax.ShapeDtypeStruct((1, height, width, channels), jnp.float32)
    encode = functools.partial(model.encoder.init_with_output, train=False)
    latent = jax.eval_shape(encode, jax.random.key(0), image)[0]
    return Decoder(channels, detail_of(height, latent.shape[1]), dtype=model.dtype)


def kind_of(config: ModelConfig, shape: tuple[int, ...]) -> Kind:
    """Return the kind of networks for observations of this shape."""
    if len(shape) not in (1, 3) or min(shape) < 1:
        raise ValueError(
            f"the model takes images [height, width, channels] or vectors [size], not observations"
            f" of shape {list(shape)}; flatten them to one axis, e.g. with"
            " gymnasium.wrappers.FlattenObservation(env)"
        )
    if config.kind == "auto":
        if len(shape) == 1:
            return "mlp"
        return "atari" if shape[0] >= LARGE else "conv"
    if len(shape) == 1 and config.kind != "mlp":
        raise ValueError(
            f"the {config.kind} model takes images, not vectors of shape {list(shape)};"
            " use kind mlp or auto"
        )
    return config.kind


def computed_in(config: ModelConfig) -> Literal["float32", "bfloat16"]:
    """Return the data type in which the networks compute on this device."""
    if config.dtype == "auto":
        return "bfloat16" if jax.default_backend() == "gpu" else "float32"
    return config.dtype


def data_type(config: TrainConfig) -> str:
    """Return the data type in which a run's networks compute on this device."""
    return computed_in(config.model) if isinstance(config, SearchingConfig) else "float32"
