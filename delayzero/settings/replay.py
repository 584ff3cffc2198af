"""Settings of the replay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from delayzero.bounds import COUNT, NOT_NEGATIVE, SHARE, check_choice, check_numbers

WeightKind = Literal["truncated", "relative"]


@dataclass(frozen=True)
class ReplayConfig:
    """Capacity and sampling of the replay."""

    capacity: int | None = None
    """Interactions to keep, allocated at the start; None: all of the run."""
    priority_exponent: float = 0.6
    """Alpha of prioritised replay; 0 samples uniformly."""
    priority_correction: float = 0.4
    """Beta, the exponent of the importance weights, at the first update."""
    final_correction: float | None = None
    """Beta at the last update, reached linearly; None: constant.
    Published: 1, which weights rare rewards as uniform sampling would: they are forgotten."""
    weights: WeightKind = "truncated"
    """Normalisation of the importance weights (n p)^-beta.
    truncated: at most 1, so that rows drawn often count for less and none counts for more.
    relative: divided by the batch's largest, as published; one tiny priority mutes all others."""
    device_gigabytes: float | None = None
    """Device memory for frames, in GB; None: 60 % of what the run may use.
    If they need more, they stay on the host, which is slower."""

    def __post_init__(self) -> None:
        """Validate the fields."""
        bounds = {
            COUNT: ("capacity",),
            SHARE: ("priority_exponent", "priority_correction", "final_correction"),
            NOT_NEGATIVE: ("device_gigabytes",),
        }
        check_numbers(self, "replay.", bounds)
        check_choice("replay.weights", self.weights, WeightKind)
