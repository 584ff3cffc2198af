"""Settings of the world model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from delayzero.bounds import COUNT, Bounds, check_choice, check_numbers

ActionCode = Literal["plane", "one_hot"]
EndKind = Literal["predicted", "absorbing"]
DataType = Literal["auto", "float32", "bfloat16"]
LARGE = 64
"""Height in pixels from which ``auto`` chooses the atari networks for an image."""
SMALLEST = 8
"""Lower bound of layer sizes."""


@dataclass(frozen=True)
class ModelConfig:
    """Kind and sizes of the world model's networks."""

    kind: Literal["auto", "atari", "conv", "mlp"] = "auto"
    """atari: EfficientZero's; conv: for small images; mlp: for vectors.
    auto: chosen by the shape of the observations."""
    dtype: DataType = "auto"
    """Data type of the networks' computations; parameters are always float32.
    auto: bfloat16 on a GPU, else float32; a resumed run keeps the one it started with."""
    support: int = 300
    """Largest magnitude of a transformed value; 300 covers returns up to 58 000."""
    channels: int = 32
    """conv: channels of the latent image."""
    head: int = 64
    """conv: size of the hidden layers of heads, projector and predictor."""
    latent: int = 64
    """mlp: size of the latent state."""
    width: int = 128
    """mlp: size of the hidden layers."""
    lstm: int = 64
    """conv, mlp: size of the LSTM of the value prefix (atari: always 512)."""
    action_code: ActionCode = "one_hot"
    """Encoding of actions for the dynamics; one_hot: one number per action.
    plane: the single number a / |A|, as in EfficientZero, which poorly separates unlike actions."""
    scaled: bool = True
    """atari, conv: scale latents to [0, 1], as MuZero does and EfficientZero does not.
    Unscaled latents drift when the model is rolled through many actions.
    (mlp: layer normalisation instead.)"""
    ends: EndKind = "absorbing"
    """How the model represents the end of a return: a lost life, or the end of the episode.
    absorbing: the state after it has the value 0, as in EfficientZero. predicted: the model
    predicts the probability of an end, by which a search discounts; the state after a lost life is
    that of the game, which continues, with its own value."""

    def __post_init__(self) -> None:
        """Validate the fields."""
        sizes = ("channels", "head", "latent", "width", "lstm")
        check_numbers(self, "model.", {COUNT: ("support",), Bounds(SMALLEST): sizes})
        check_choice("model.action_code", self.action_code, ActionCode)
        check_choice("model.ends", self.ends, EndKind)
