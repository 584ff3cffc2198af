"""Settings of the replay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from delayzero.bounds import COUNT, NOT_NEGATIVE, SHARE, check_choice, check_numbers

WeightKind = Literal["truncated", "relative"]


@dataclass(frozen=True)
class ReplayConfig:
    """What is kept, and how it is sampled."""

    capacity: int | None = None
    """Interactions that are kept; all of the run by default. Fixed at the start."""
    priority_exponent: float = 0.6
    """Alpha of prioritised replay; 0 samples uniformly."""
    priority_correction: float = 0.4
    """Beta of the importance weights at the start."""
    final_correction: float | None = None
    """Beta with the last update, to which it changes linearly; None: as at the start. Published: 1,
    which weighs rare rewards as little as drawing them uniformly would: they are forgotten."""
    weights: WeightKind = "truncated"
    """Importance weights (n p)^-beta: truncated at 1, so that rows drawn more often than others
    count for less and none counts for more; or relative to the largest of each batch, as
    published, so that one row of a tiny priority makes all others count for nothing."""
    device_gigabytes: float | None = None
    """Device memory that frames may take; by default 60 % of it. More frames stay on the host."""

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        bounds = {
            COUNT: ("capacity",),
            SHARE: ("priority_exponent", "priority_correction", "final_correction"),
            NOT_NEGATIVE: ("device_gigabytes",),
        }
        check_numbers(self, "replay.", bounds)
        check_choice("replay.weights", self.weights, WeightKind)
