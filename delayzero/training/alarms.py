"""Warnings that a run is sick: which metric says so, and what to try."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

COLLAPSED = 0.05
"""Policy targets with less than this share of the largest entropy are no longer a choice."""
SETTLED = 2000
"""Updates before which only a collapse is told: everything else is bad at the beginning."""


@dataclass(frozen=True)
class Symptom:
    """A metric that is out of its range in several lines of metrics in a row."""

    metric: str
    low: float
    high: float
    lines: int
    """In how many lines of metrics, one after the other, before it is told."""
    meaning: str
    """What it means; ``{}`` is the value."""
    remedy: str

    def shown_by(self, value: float) -> bool:
        """Whether a value is out of range."""
        return not self.low <= value <= self.high


SYMPTOMS = (
    Symptom(
        *("health/weight_mean", 0.2, math.inf, 2),
        "importance weights average {:.2f}, so that updates are far smaller than the learning "
        "rate says and go to rows that are already known",
        "try --replay.weights truncated, or a smaller --replay.priority-exponent",
    ),
    Symptom(
        *("health/value_explained", 0.1, math.inf, 3),
        "values explain {:.2f} of the variance of their targets",
        "try a larger --learner.value-weight or a smaller --learner.learning-rate",
    ),
    Symptom(
        *("health/prefix_explained", 0.1, math.inf, 3),
        "value prefixes explain {:.2f} of the variance of what was earned",
        "try a larger --learner.prefix-weight or --replay.priority-exponent",
    ),
    Symptom(
        *("health/reward_recall", 0.2, math.inf, 3),
        "of the rewards that were earned the model foresees {:.2f}",
        "try a larger --replay.priority-exponent, a smaller --replay.final-correction or more "
        "--random-interactions",
    ),
    Symptom(
        *("health/dead_units", -math.inf, 0.9, 3),
        "{:.2f} of the units of latent states never change",
        "try a smaller --learner.learning-rate",
    ),
    Symptom(
        *("health/latent_rank", 1.5, math.inf, 3),
        "latent states are nearly all alike, their effective rank is {:.2f}",
        "try a larger --learner.consistency-weight or a smaller --learner.learning-rate",
    ),
)


class Alarms:
    """Watches the metrics of a run.

    Attributes:
        counts: Lines in a row in which each symptom was seen, by metric; to be saved.
    """

    def __init__(self, num_actions: int) -> None:
        self._num_actions = num_actions
        self.counts: dict[str, int] = {}

    def check(self, metrics: Mapping[str, Any], updates: int) -> list[str]:
        """The warnings of one line of metrics; a metric that is missing says nothing."""
        found = [self._collapse(metrics)]
        found += [self._told(symptom, metrics, updates) for symptom in SYMPTOMS]
        return [warning for warning in found if warning is not None]

    def _collapse(self, metrics: Mapping[str, Any]) -> str | None:
        if "policy/target_entropy" not in metrics:
            return None
        return collapse_warning(float(metrics["policy/target_entropy"]), self._num_actions)

    def _told(self, symptom: Symptom, metrics: Mapping[str, Any], updates: int) -> str | None:
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
    """A warning if policy targets have collapsed, with what to do."""
    share = target_entropy / math.log(num_actions) if num_actions > 1 else 1.0
    if not share < COLLAPSED:
        return None
    return (
        f"policy/target_entropy: the policy has collapsed, the entropy of its targets is "
        f"{target_entropy:.3f}, {100 * share:.1f} % of the largest possible; try a larger "
        "--search.q-floor or --search.dirichlet-fraction, or more --random-interactions"
    )
