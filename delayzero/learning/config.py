"""Settings of the learner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


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
        for name in (
            *("batch_size", "unroll", "td_steps", "prefix_horizon", "warmup", "target_period"),
            *("learning_rate", "clip_norm"),
        ):
            if not getattr(self, name) > 0:
                raise ValueError(f"learner.{name} is {getattr(self, name)}; it should be above 0")
        for name in ("weight_decay", "mixed_value_after", "mixed_value_age"):
            if not (getattr(self, name) or 0) >= 0:
                raise ValueError(f"learner.{name} is {getattr(self, name)}; it should be 0 or more")
        if self.td_age is not None and self.td_age < 1:
            raise ValueError(f"learner.td_age is {self.td_age}; it should be at least 1")
        if not 0 <= self.drop_at <= 1:
            raise ValueError(f"learner.drop_at is {self.drop_at}; it should be in [0, 1]")

    @property
    def window(self) -> int:
        """Rows behind a sampled one that its targets need."""
        return self.unroll + self.td_steps


@dataclass(frozen=True)
class ReanalysisConfig:
    """How stored positions are searched again with newer weights."""

    mode: Literal["sweep", "batch"] = "sweep"
    """Sweep through the whole replay in turn, or search the positions of each batch."""
    sweep_updates: int = 500
    """Updates in which a sweep passes the whole replay once."""
    roots: int = 1536
    """Positions searched at a time by a sweep."""

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        for name in ("sweep_updates", "roots"):
            if getattr(self, name) < 1:
                raise ValueError(
                    f"reanalysis.{name} is {getattr(self, name)}; at least 1 is needed"
                )


@dataclass(frozen=True)
class QConfig:
    """Delayed-Q: what it learns with, and how it explores."""

    width: int = 256
    """The size of the hidden layers."""
    learning_rate: float = 1e-3
    """Of the Q-network; it falls to a tenth with the last update."""
    forward_learning_rate: float = 3e-3
    """Of the forward model; it falls likewise."""
    discount: float | None = 0.99
    """Of rewards in Q; None takes the run's."""
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
        for name in (
            *("width", "learning_rate", "forward_learning_rate", "target_period", "clip_norm"),
            "epsilon_share",
        ):
            if not getattr(self, name) > 0:
                raise ValueError(f"q.{name} is {getattr(self, name)}; it should be above 0")
        for name in ("epsilon_start", "epsilon_end"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"q.{name} is {getattr(self, name)}; it should be in [0, 1]")
        if self.discount is not None and not 0 < self.discount <= 1:
            raise ValueError(f"q.discount is {self.discount}; it should be above 0 and at most 1")
