"""Settings of the tree search."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from delayzero.bounds import COUNT, NOT_NEGATIVE, POSITIVE, SHARE, check_choice, check_numbers

Method = Literal["gumbel", "puct"]
QRange = Literal["tree", "node"]


@dataclass(frozen=True)
class SearchConfig:
    """How to search."""

    method: Method = "gumbel"
    """Gumbel: sequential halving at the root. PUCT: visit counts, Dirichlet noise, temperature."""
    simulations: int | None = None
    """Expansions per search; by itself 50 for PUCT, 16 for Gumbel, 4 with fewer than 4 actions."""
    considered_actions: int | None = None
    """Gumbel: root actions that are tried; by itself 2, 4 or 8 for fewer than 4, 16, or more."""
    q_range: QRange = "tree"
    """Scale Q by its range over the whole tree, or over the actions of each node."""
    q_floor: float = 0.01
    """The smallest range of Q that is stretched to one; below it, differences stay small."""
    q_scale: float = 0.1
    """Gumbel: how much scaled Q counts against the prior's logits."""
    q_visits: float = 50.0
    """Gumbel: visits added to the largest visit count in the weight of Q."""
    dirichlet_fraction: float | None = None
    """Share of noise in the root's prior while exploring; by itself 0.25 for PUCT, 0 for Gumbel."""
    dirichlet_alpha: float = 0.3
    """Concentration of that noise."""
    c_init: float = 1.25
    """PUCT: weight of the prior."""
    c_base: float = 19652.0
    """PUCT: visits at which that weight begins to grow."""

    def __post_init__(self) -> None:
        """Refuse settings that no search can have."""
        check_choice("search.method", self.method, Method)
        check_choice("search.q_range", self.q_range, QRange)
        bounds = {
            COUNT: ("simulations", "considered_actions"),
            POSITIVE: ("q_floor", "dirichlet_alpha", "c_base"),
            NOT_NEGATIVE: ("q_scale", "q_visits", "c_init"),
            SHARE: ("dirichlet_fraction",),
        }
        check_numbers(self, "search.", bounds)

    def resolved(self, num_actions: int) -> SearchConfig:
        """The same with every figure that was left to itself, by EfficientZero V2's rules."""
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
