"""The world model: networks that imagine what actions lead to, in a latent space."""

from delayzero.model.build import ModelConfig, build_model
from delayzero.model.layers import Memory
from delayzero.model.parts import Prediction
from delayzero.model.q_model import ImageQModel, QModel
from delayzero.model.scalars import Support
from delayzero.model.world_model import WorldModel

__all__ = [
    "ImageQModel",
    "Memory",
    "ModelConfig",
    "Prediction",
    "QModel",
    "Support",
    "WorldModel",
    "build_model",
]
