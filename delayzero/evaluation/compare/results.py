"""The results of a comparison's runs, collected by agent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from delayzero.arguments import UsageError
from delayzero.campaigns.run import EVALUATE_AGAIN, Run, read_result
from delayzero.evaluation.compare.by_delay import read_scores
from delayzero.evaluation.compare.plan import Plan
from delayzero.evaluation.prediction import Curves
from delayzero.evaluation.statistics import bootstrap_interval, iqm
from delayzero.evaluation.stored import RESULT, prediction
from delayzero.forms import optional, with_keys
from delayzero.runs.curves import read_curve
from delayzero.settings import AgentName

Points = list[tuple[int, float]]
"""Pairs of interactions and score."""
COMPARED = with_keys(RESULT)
"""The form of the result of a finished run."""


@dataclass(frozen=True)
class Estimate:
    """The interquartile mean of scores, with its 95 % interval."""

    iqm: float
    low: float
    high: float

    @classmethod
    def of(cls, scores_by_seed: Sequence[Sequence[float]]) -> Estimate:
        """Estimate from the scores of each seed; see :mod:`delayzero.evaluation.statistics`."""
        together = np.concatenate([np.asarray(scores) for scores in scores_by_seed])
        return cls(iqm(together), *bootstrap_interval(scores_by_seed))

    def __str__(self) -> str:
        return f"[{self.low:.1f}, {self.high:.1f}]"


@dataclass(frozen=True)
class AgentResult:
    """The results of an agent's runs.

    Attributes:
        agent: The agent's name.
        estimate: The IQM of the scores in the final evaluations, under the law of training.
        mean: The mean of these scores.
        lowest: The lowest of these scores.
        seconds: Seconds of training a run, mean over seeds, without evaluations and without
            compiling the programs that act and learn.
        seeds: The number of seeds.
        curves: The evaluations of each run.
        by_delay: The IQM under each other law.
        prediction: Measures of the model's predictions by horizon, mean over seeds; None where no
            seed has a value. Empty for agents without a model.
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
    """Collect the results of an agent's runs, all of which have finished."""
    runs = plan.runs_of(agent)
    results = [read_compared(run) for run in runs]
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
        by_delay={law: Estimate.of(by_seed) for law, by_seed in _by_law(plan, agent, runs).items()},
        prediction=_mean_prediction(results),
    )


def read_compared(run: Run) -> dict[str, Any]:
    """Read the summary of a finished run.

    Raises:
        UsageError: It is damaged.
    """
    result = read_result(run.folder, COMPARED)
    if wrong := optional(prediction)(result.get("prediction"), "prediction"):
        raise UsageError(f"{run.folder.result} is damaged: {wrong}; {EVALUATE_AGAIN}")
    return result


def mean_curve(curves: Sequence[Points]) -> Points:
    """The mean over seeds, at the interactions of the first seed's evaluations.

    Other seeds are interpolated: their evaluations are less than a round away.
    """
    curves = [curve for curve in curves if curve]
    if not curves:
        return []
    interactions = np.array([x for x, _ in curves[0]])
    scores = []
    for curve in curves:
        x, y = np.array(curve, np.float64).T
        scores.append(np.interp(interactions, x, y))
    return list(zip(interactions.tolist(), np.mean(scores, axis=0).tolist(), strict=True))


def _by_law(plan: Plan, agent: AgentName, runs: Sequence[Run]) -> dict[str, list[list[float]]]:
    """The scores of each seed, by law."""
    by_run = [read_scores(run.folder.by_delay, plan.law_episodes) for run in runs]
    return {law: [scores[law] for scores in by_run] for law in plan.laws_of(agent)}


def _mean_prediction(results: Sequence[dict[str, Any]]) -> Curves:
    by_run: list[Curves] = [run["prediction"] for run in results if run.get("prediction")]
    if not by_run:
        return {}
    names = [name for name in by_run[0] if all(name in run for run in by_run)]
    # Seeds may have been trained by different versions, and measured over different horizons.
    return {
        name: [_mean(values) for values in zip(*(run[name] for run in by_run), strict=False)]
        for name in names
    }


def _mean(values: Sequence[float | None]) -> float | None:
    """The mean of the values that are not None; None if all are."""
    measured = [value for value in values if value is not None]
    return float(np.mean(measured)) if measured else None
