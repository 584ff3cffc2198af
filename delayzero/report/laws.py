"""Delay laws in a report: a path, a histogram and statistics of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from delayzero.delays.channel import resolve_law
from delayzero.delays.law import DelayError
from delayzero.delays.pictures import steady_history
from delayzero.delays.statistics import Characteristics, characterise
from delayzero.evaluation.over_seeds import numbers
from delayzero.report.charts import Chart, Series, View
from delayzero.report.groups import law_order
from delayzero.report.runs import Run

STEPS = 400
"""Of the path that is drawn."""
STREAMS = 24
"""Independent streams behind the statistics."""


@dataclass(frozen=True)
class DrawnLaw:
    """A law with the rule of its runs.

    Attributes:
        law: Its text.
        rule: Which of the decisions that have arrived runs.
        charts: The path and the histogram; none if it cannot be drawn.
        statistics: None if it cannot be simulated.
        problem: Why not.
    """

    law: str
    rule: str
    charts: Sequence[Chart] = ()
    statistics: Characteristics | None = None
    problem: str = ""


def drawn_laws(runs: Sequence[Run]) -> list[DrawnLaw]:
    """Each law of the runs, with its rule."""
    pairs = {(run.delay, str(run.config.get("rule", "latest-generated"))) for run in runs}
    pairs = {(law, rule) for law, rule in pairs if law != "none"}
    return [draw_law(law, rule) for law, rule in sorted(pairs, key=lambda p: law_order(p[0]))]


@cache
def draw_law(text: str, rule: str) -> DrawnLaw:
    """Simulate a law; code that it names is not run."""
    if "callback:" in text:
        return DrawnLaw(text, rule, problem="it names Python code, which a report does not run")
    try:
        law, limit = resolve_law(text, None)
        statistics = characterise(law, rule=rule, streams=STREAMS)
        history = steady_history(law, rule, limit, 0, STEPS)
    except (DelayError, OSError, ValueError) as error:
        return DrawnLaw(text, rule, problem=" ".join(str(error).split()))
    delays = history.delays[:STEPS].tolist()
    shares = statistics.delay_shares
    steps, lengths = [float(t) for t in range(STEPS)], [float(d) for d in range(len(shares))]
    walk = Series("delay", "accent", steps, delays, style="step")
    path = Chart(
        f"{text} over time",
        f"The delay of {STEPS} successive decisions under {text}, in steps.",
        [View("", [walk], "delay in steps", [(statistics.mean, "mean")])],
        "step",
    )
    histogram = Chart(
        f"{text}, histogram",
        f"The share of decisions with each delay under {text}.",
        [
            View(
                "",
                [Series("share", "accent", lengths, numbers(shares), style="bar")],
                "share of decisions",
            )
        ],
        "delay in steps",
    )
    return DrawnLaw(text, rule, (path, histogram), statistics)
