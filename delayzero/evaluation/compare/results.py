"""What the runs of a comparison left behind, gathered agent by agent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from delayzero.evaluation.compare.by_delay import read_scores
from delayzero.evaluation.compare.plan import Plan, Run
from delayzero.evaluation.prediction import Curves
from delayzero.evaluation.statistics import bootstrap_interval, iqm
from delayzero.files import read_json
from delayzero.runs.curves import read_curve
from delayzero.settings import AgentName

Points = list[tuple[int, float]]
"""Pairs of interactions and score."""


@dataclass(frozen=True)
class Estimate:
    """The interquartile mean of scores, with its 95 % interval."""

    iqm: float
    low: float
    high: float

    @classmethod
    def of(cls, scores_by_seed: Sequence[Sequence[float]]) -> Estimate:
        """That of the scores of all seeds; see ``delayzero.evaluation.statistics``."""
        together = np.concatenate([np.asarray(scores) for scores in scores_by_seed])
        return cls(iqm(together), *bootstrap_interval(scores_by_seed))

    def __str__(self) -> str:
        return f"[{self.low:.1f}, {self.high:.1f}]"


@dataclass(frozen=True)
class AgentResult:
    """An agent's runs.

    Attributes:
        agent: Its name.
        estimate: Of the scores at the end of training, under the law of training.
        mean: Of these scores.
        lowest: Of these scores.
        seconds: Of training, on the mean over seeds: with compiling, without evaluations.
        seeds: How many.
        curves: The evaluations of each run.
        by_delay: The estimate under each further law.
        prediction: How far off the model is by horizon, each figure the mean over seeds, None where
            no seed has one; empty for agents without a model.
    """

    agent: AgentName
    estimate: Estimate
    mean: float
    lowest: float
    seconds: float
    seeds: int
    curves: list[Points] = field(default_factory=list)
    by_delay: dict[str, Estimate] = field(default_factory=dict)
    prediction: Curves = field(default_factory=dict)


def read_agent(plan: Plan, agent: AgentName) -> AgentResult:
    """Gather the runs of an agent, all of which have finished."""
    runs = plan.runs_of(agent)
    results = [read_result(run) for run in runs]
    scores = [result["scores"] for result in results]
    seconds = [result["train_seconds"] - result["seconds"]["evaluating"] for result in results]
    return AgentResult(
        agent=agent,
        estimate=Estimate.of(scores),
        mean=float(np.mean(np.concatenate(scores))),
        lowest=float(min(map(min, scores))),
        seconds=float(np.mean(seconds)),
        seeds=len(runs),
        curves=[read_curve(run.folder.path).evaluations for run in runs],
        by_delay={law: Estimate.of(found) for law, found in _by_law(plan, agent, runs).items()},
        prediction=_mean_prediction(results),
    )


def read_result(run: Run) -> dict[str, Any]:
    """Read the summary of a finished run."""
    return read_json(run.folder.result, "delete it, and type the same command to evaluate again")


def mean_curve(curves: Sequence[Points]) -> Points:
    """The mean over seeds, at the places of the first; the others differ by less than a round."""
    curves = [curve for curve in curves if curve]
    if not curves:
        return []
    places = np.array([place for place, _ in curves[0]])
    scores = []
    for curve in curves:
        x, y = np.array(curve, np.float64).T
        scores.append(np.interp(places, x, y))
    return list(zip(places.tolist(), np.mean(scores, axis=0).tolist(), strict=True))


def _by_law(plan: Plan, agent: AgentName, runs: Sequence[Run]) -> dict[str, list[list[float]]]:
    found = [read_scores(run.folder.by_delay, plan.law_episodes) for run in runs]
    return {law: [scores[law] for scores in found] for law in plan.laws_of(agent)}


def _mean_prediction(results: Sequence[dict[str, Any]]) -> Curves:
    found: list[Curves] = [one["prediction"] for one in results if one.get("prediction")]
    if not found:
        return {}
    return {name: [*map(_mean, zip(*(p[name] for p in found), strict=True))] for name in found[0]}


def _mean(entries: Sequence[float | None]) -> float | None:
    """The mean of those that there are."""
    known = [entry for entry in entries if entry is not None]
    return float(np.mean(known)) if known else None
