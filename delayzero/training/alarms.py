"""Alarms: warnings about unhealthy metrics, with what to try."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

COLLAPSED = 0.05
"""Policy targets with less than this share of the largest entropy have collapsed."""
SETTLED = 2000
"""Updates before which only a collapse raises an alarm: at first all other metrics are bad."""


@dataclass(frozen=True)
class Symptom:
    """A metric outside its range in several consecutive lines of metrics."""

    metric: str
    low: float
    high: float
    lines: int
    """Consecutive lines of metrics before the alarm is raised."""
    meaning: str
    """What the user reads; ``{}`` is the value."""
    remedy: str
    """What to try."""

    def shown_by(self, value: float) -> bool:
        """Whether a value is outside the range."""
        return not self.low <= value <= self.high


SYMPTOMS = (
    Symptom(
        *("health/weight_mean", 0.2, math.inf, 2),
        "importance weights average {:.2f}: updates are far smaller than the learning rate "
        "suggests, and mostly about rows that are already learned",
        "try --replay.weights truncated, or a smaller --replay.priority-exponent",
    ),
    Symptom(
        *("health/value_explained", 0.1, math.inf, 2),
        "predicted values explain {:.2f} of the variance of their targets",
        "try a larger --learner.value-weight or a smaller --learner.learning-rate",
    ),
    Symptom(
        *("health/prefix_explained", 0.1, math.inf, 3),
        "predicted value prefixes explain {:.2f} of the variance of the rewards",
        "try a larger --learner.prefix-weight or --replay.priority-exponent",
    ),
    Symptom(
        *("health/reward_recall", 0.2, math.inf, 3),
        "the share of rewards that the model predicts is {:.2f}",
        "try a larger --replay.priority-exponent, a smaller --replay.final-correction or more "
        "--random-interactions",
    ),
    Symptom(
        *("health/dead_units", -math.inf, 0.9, 3),
        "the share of latent units that never change is {:.2f}",
        "try a smaller --learner.learning-rate",
    ),
    Symptom(
        *("health/latent_rank", 1.5, math.inf, 3),
        "latent states are nearly identical: their effective rank is {:.2f}",
        "try a larger --learner.consistency-weight or a smaller --learner.learning-rate",
    ),
)


class Alarms:
    """Watches the metrics of a run.

    Attributes:
        counts: Consecutive lines with each symptom, by metric; part of a checkpoint.
    """

    def __init__(self, num_actions: int) -> None:
        self._num_actions = num_actions
        self.counts: dict[str, int] = {}

    def check(self, metrics: Mapping[str, Any], updates: int) -> list[str]:
        """Return the warnings for one line of metrics; missing metrics are skipped."""
        warnings = [self._collapse(metrics)]
        warnings += [self._lasting(symptom, metrics, updates) for symptom in SYMPTOMS]
        return [warning for warning in warnings if warning is not None]

    def _collapse(self, metrics: Mapping[str, Any]) -> str | None:
        if "policy/target_entropy" not in metrics:
            return None
        return collapse_warning(float(metrics["policy/target_entropy"]), self._num_actions)

    def _lasting(self, symptom: Symptom, metrics: Mapping[str, Any], updates: int) -> str | None:
        """Return the warning about a symptom that has lasted for enough lines."""
        name = symptom.metric
        if name not in metrics:
            return None
        if updates < SETTLED or not symptom.shown_by(float(metrics[name])):
            self.counts.pop(name, None)
            return None
        self.counts[name] = self.counts.get(name, 0) + 1
        if self.counts[name] < symptom.lines:
            return None
        meaning = symptom.meaning.format(float(metrics[name]))
        return f"{name}: {meaning}; {symptom.remedy}, in another --folder"


def collapse_warning(target_entropy: float, num_actions: int) -> str | None:
    """Return a warning if policy targets have collapsed, with what to try."""
    share = target_entropy / math.log(num_actions) if num_actions > 1 else 1.0
    if not share < COLLAPSED:
        return None
    return (
        f"policy/target_entropy: the policy has collapsed: the entropy of its targets is "
        f"{target_entropy:.3f}, {100 * share:.1f} % of the largest possible; try a larger "
        "--search.q-floor or --search.dirichlet-fraction, or more --random-interactions"
    )
