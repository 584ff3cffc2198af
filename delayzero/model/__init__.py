"""The world model: networks that predict, in a latent space, what actions lead to."""

from delayzero.model.build import build_model
from delayzero.model.layers import Memory, flat_latents
from delayzero.model.parts import Prediction
from delayzero.model.q_model import AtariQModel, QModel, as_floats, image_q_model, vector_q_model
from delayzero.model.scalars import Support
from delayzero.model.world_model import WorldModel

__all__ = [
    "AtariQModel",
    "Memory",
    "Prediction",
    "QModel",
    "Support",
    "WorldModel",
    "as_floats",
    "build_model",
    "flat_latents",
    "image_q_model",
    "vector_q_model",
]
