"""Settings of the tree search."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from delayzero.bounds import (
    COUNT,
    NOT_NEGATIVE,
    POSITIVE,
    SHARE,
    Bounds,
    check_choice,
    check_numbers,
)

Method = Literal["gumbel", "puct"]
QRange = Literal["tree", "node"]
RootValue = Literal["visits", "policy"]
MOST_SIMULATIONS = 10_000
"""The largest --search.simulations: a search that long takes seconds for one decision."""


@dataclass(frozen=True)
class SearchConfig:
    """Method and constants of the tree search."""

    method: Method = "gumbel"
    """gumbel: sequential halving at the root; puct: visit counts, Dirichlet noise, temperature."""
    simulations: int | None = None
    """Expansions per search.
    None: 50 with puct; with gumbel 16, or 4 if there are fewer than 4 actions."""
    considered_actions: int | None = None
    """gumbel: root actions to consider.
    None: 2 if there are fewer than 4 actions, 4 if fewer than 16, else 8."""
    value: RootValue = "policy"
    """Value of a position that was searched, for targets.
    policy: the mean of the actions' Q-values under the improved policy. visits: the mean of the
    network's value and all returns found; a Gumbel search also visits actions that its policy
    avoids, so that this is too low."""
    q_range: QRange = "tree"
    """Scale Q-values by their range over the whole tree, or over the actions of each node."""
    q_floor: float = 0.01
    """Smallest range of Q-values that is stretched to one; below it, differences stay small."""
    q_scale: float = 0.1
    """gumbel: weight of scaled Q-values relative to the prior's logits."""
    q_visits: float = 50.0
    """gumbel: visits added to the largest visit count in the weight of Q-values."""
    dirichlet_fraction: float | None = None
    """Share of noise in the root's prior in self-play; None: 0.25 with puct, 0 with gumbel."""
    dirichlet_alpha: float = 0.3
    """Concentration of the Dirichlet noise."""
    c_init: float = 1.25
    """puct: weight of the prior."""
    c_base: float = 19652.0
    """puct: number of visits at which the weight of the prior begins to grow."""

    def __post_init__(self) -> None:
        """Validate the fields."""
        check_choice("search.method", self.method, Method)
        check_choice("search.value", self.value, RootValue)
        check_choice("search.q_range", self.q_range, QRange)
        bounds = {
            Bounds(1, MOST_SIMULATIONS): ("simulations",),
            COUNT: ("considered_actions",),
            POSITIVE: ("q_floor", "dirichlet_alpha", "c_base"),
            NOT_NEGATIVE: ("q_scale", "q_visits", "c_init"),
            SHARE: ("dirichlet_fraction",),
        }
        check_numbers(self, "search.", bounds)

    def resolved(self, num_actions: int) -> SearchConfig:
        """Return a copy with every None replaced by its value, by EfficientZero V2's rules."""
        few, puct = num_actions < 4, self.method == "puct"
        simulations = self.simulations or (50 if puct else 4 if few else 16)
        considered = self.considered_actions or (2 if few else 4 if num_actions < 16 else 8)
        fraction = self.dirichlet_fraction
        return replace(
            self,
            simulations=simulations,
            considered_actions=min(considered, num_actions),
            dirichlet_fraction=(0.25 if puct else 0.0) if fraction is None else float(fraction),
        )
