"""Settings of the learner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from delayzero.bounds import COUNT, NOT_NEGATIVE, POSITIVE, SHARE, Bounds, check_numbers


@dataclass(frozen=True)
class LearnerConfig:
    """What an update is."""

    batch_size: int = 256
    """Sampled positions in a batch."""
    unroll: int = 5
    """Steps that the model is unrolled from each of them."""
    td_steps: int = 5
    """Rewards summed before the value target bootstraps."""
    td_age: int | None = None
    """Shorten td_steps by one for each so many interactions of a sample's age; off by default."""
    bootstrap: Literal["search", "network"] = "search"
    """Whose value ends the sum: the search's, or the (target) network's own."""
    mixed_value_after: int | None = None
    """From this update on, old samples learn the search's value itself (V2); off by default."""
    mixed_value_age: int = 5000
    """What counts as old then, in interactions."""
    prefix_horizon: int = 5
    """Steps after which a value prefix starts again from zero."""
    policy_weight: float = 1.0
    """Weight of the policy loss."""
    value_weight: float = 0.25
    """Weight of the value loss."""
    prefix_weight: float = 1.0
    """Weight of the value-prefix loss."""
    consistency_weight: float = 2.0
    """Weight of the consistency loss."""
    consistency_steps: int | None = None
    """Unrolled steps, drawn anew for each position of a batch, after which imagined states are
    compared with real ones; the loss is scaled up to all. None, or more than there are: all."""
    augment: bool | None = None
    """Shift and scale images randomly; by itself for pixels (uint8) alone."""
    optimiser: Literal["sgd", "adam"] = "sgd"
    """SGD with momentum 0.9, or AdamW."""
    learning_rate: float = 0.2
    """After the warm-up."""
    warmup: int = 1000
    """Updates over which the learning rate rises from 0."""
    drop_at: float = 1.0
    """The share of all updates after which the learning rate falls to a tenth; 1 is never."""
    weight_decay: float = 1e-4
    """On all parameters."""
    clip_norm: float = 5.0
    """The largest norm of the gradient."""
    target_period: int = 1
    """Updates between copies of the weights that reanalysis uses; 1 is always the newest."""

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        check_numbers(
            self,
            "learner.",
            {
                COUNT: (
                    *("batch_size", "unroll", "td_steps", "td_age", "prefix_horizon"),
                    *("warmup", "target_period", "consistency_steps"),
                ),
                POSITIVE: ("learning_rate", "clip_norm"),
                NOT_NEGATIVE: (
                    *("policy_weight", "value_weight", "prefix_weight", "consistency_weight"),
                    *("weight_decay", "mixed_value_after", "mixed_value_age"),
                ),
                SHARE: ("drop_at",),
            },
        )

    @property
    def window(self) -> int:
        """Rows behind a sampled one that its targets need."""
        return self.unroll + self.td_steps


@dataclass(frozen=True)
class ReanalysisConfig:
    """How stored positions are searched again with newer weights."""

    mode: Literal["sweep", "batch"] = "sweep"
    """Sweep through the whole replay in turn, or search the positions of each batch."""
    positions_per_update: float = 64.0
    """Positions that a sweep searches for each update: the replay is passed quickly while it is
    small, when targets are still poor."""
    roots: int = 1536
    """Positions searched at a time by a sweep."""

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        check_numbers(self, "reanalysis.", {COUNT: ("roots",), POSITIVE: ("positions_per_update",)})


@dataclass(frozen=True)
class QConfig:
    """Delayed-Q: what it learns with, and how it explores."""

    width: int = 256
    """The size of the hidden layers (Atari: as published); small images have an eighth of it as
    channels."""
    learning_rate: float = 1e-3
    """Of the Q-network; it falls to a tenth with the last update."""
    forward_learning_rate: float = 3e-3
    """Of the forward model; it falls likewise."""
    batch_size: int = 256
    """Steps that an update learns from."""
    discount: float = 0.99
    """Of rewards, per step."""
    target_period: int = 10
    """Updates between copies of the weights that targets are made with."""
    clip_norm: float = 10.0
    """The largest norm of each network's gradient."""
    epsilon_start: float = 1.0
    """The share of decisions made at random when learning begins."""
    epsilon_end: float = 0.02
    """And in the end; in evaluations there are none."""
    epsilon_share: float = 0.3
    """The share of the training over which it falls."""

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        check_numbers(
            self,
            "q.",
            {
                COUNT: ("width", "batch_size", "target_period"),
                POSITIVE: ("learning_rate", "forward_learning_rate", "clip_norm", "epsilon_share"),
                SHARE: ("epsilon_start", "epsilon_end"),
                Bounds(0, 1, above=True): ("discount",),
            },
        )
