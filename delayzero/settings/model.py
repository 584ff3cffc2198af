"""Settings of the world model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from delayzero.bounds import COUNT, Bounds, check_choice, check_numbers

ActionCode = Literal["plane", "one_hot"]
LARGE = 64
"""The height from which an image takes the atari model."""
SMALLEST = 8


@dataclass(frozen=True)
class ModelConfig:
    """Which networks the world model is made of, and how large they are."""

    kind: Literal["auto", "atari", "conv", "mlp"] = "auto"
    """The networks: EfficientZero's for Atari, small ones for small images, or ones for vectors.
    auto: by the shape of the observation."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """What the networks compute in; parameters are always float32. auto: bfloat16 on a GPU, else
    float32; a run that goes on on another machine keeps what it began with."""
    support: int = 300
    """The largest magnitude of a transformed value; 300 covers returns up to 58,000."""
    channels: int = 32
    """conv: the channels of the latent image."""
    head: int = 64
    """conv: the size of the hidden layers of heads, projector and predictor."""
    latent: int = 64
    """mlp: the size of the latent state."""
    width: int = 128
    """mlp: the size of the hidden layers."""
    lstm: int = 64
    """conv, mlp: the size of the LSTM of the value prefix (atari: always 512)."""
    action_code: ActionCode = "one_hot"
    """How the dynamics are told an action: by one number for each action, or by the one number
    a / |A| (plane), as EfficientZero has it, which tells apart badly what unlike actions do."""
    scaled: bool = True
    """atari, conv: scale every latent to [0, 1], as MuZero does and EfficientZero does not: without
    it a model that is rolled through many actions drifts away. (mlp: normalised by layer.)"""

    def __post_init__(self) -> None:
        sizes = ("channels", "head", "latent", "width", "lstm")
        check_numbers(self, "model.", {COUNT: ("support",), Bounds(SMALLEST): sizes})
        check_choice("model.action_code", self.action_code, ActionCode)
