"""Pictures of a comparison: return by interactions, return by delay, prediction by horizon."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from delayzero.delays.pictures import PALE, new_figure
from delayzero.evaluation.compare.results import AgentResult, Estimate, mean_curve
from delayzero.evaluation.panels import (
    COLOURS,
    HORIZON_LABEL,
    draw_events,
    draw_prediction,
    dress,
    has_events,
    legend_beside,
)
from delayzero.files import named
from delayzero.settings import AGENTS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PREDICTION_PANELS = {
    "similarity": "cosine of projections",
    "policy_agreement": "share of policies that agree",
    "action_worth": "worth of the action",
    "value_error": "value error",
}
"""The title of each panel, by the name of its measure; older results lack the third."""


def save_pictures(
    results: Sequence[AgentResult], delay: str, laws: Sequence[str], folder: Path
) -> list[Path]:
    """Save the pictures for which there are results; return their files."""
    figures = {"interactions.png": interactions_picture(results)}
    if laws:
        figures["delays.png"] = delays_picture(results, delay, laws)
        figures["overview.png"] = overview(results, delay, laws)
    if any(result.prediction for result in results):
        figures["prediction.png"] = prediction_picture(results)
    for name, figure in figures.items():
        with named(folder / name):
            figure.savefig(folder / name, bbox_inches="tight")
    return [folder / name for name in figures]


def interactions_picture(results: Sequence[AgentResult]) -> Figure:
    """Draw return by interactions: the mean over seeds, and a thin line for each seed."""
    figure = new_figure(7, 4)
    axes = figure.add_subplot()
    _draw_interactions(axes, results)
    legend_beside(axes)
    return figure


def delays_picture(results: Sequence[AgentResult], delay: str, laws: Sequence[str]) -> Figure:
    """Draw return by delay: each agent's IQM under each law, with 95 % intervals."""
    figure = new_figure(7, 4)
    axes = figure.add_subplot()
    _draw_delays(axes, results, delay, laws)
    legend_beside(axes)
    return figure


def overview(results: Sequence[AgentResult], delay: str, laws: Sequence[str]) -> Figure:
    """Draw return by interactions and return by delay side by side."""
    figure = new_figure(12, 4)
    left, right = figure.subplots(1, 2)
    _draw_interactions(left, results)
    _draw_delays(right, results, delay, laws)
    legend_beside(right)
    return figure


def prediction_picture(results: Sequence[AgentResult]) -> Figure:
    """Draw how well each agent's model predicts, by the number of steps ahead.

    Below, for each agent that met several kinds of events: how often policies agree, by what lies
    on the way.
    """
    measured = [result for result in results if result.prediction]
    apart = [result for result in measured if has_events(result.prediction)]
    shown = [name for name in PREDICTION_PANELS if any(name in r.prediction for r in measured)]
    columns = len(shown)
    rows = 1 + -(-len(apart) // columns)
    figure = new_figure(4 * columns, 3.4 * rows)
    panels = figure.subplots(rows, columns, squeeze=False)
    for axes, name in zip(panels[0], shown, strict=True):
        for result in measured:
            draw_prediction(axes, result.agent, result.prediction, name)
        dress(axes, PREDICTION_PANELS[name], HORIZON_LABEL.replace(" (", "\n("), "")
    legend_beside(panels[0, -1])
    below = panels[1:].ravel()
    for axes, result in zip(below, apart, strict=False):
        draw_events(axes, result.prediction)
        dress(axes, f"{result.agent}: by event", "steps ahead", "")
    for axes in below[len(apart) :]:
        axes.set_axis_off()
    if apart:
        legend_beside(below[len(apart) - 1], *below[: len(apart) - 1])
    figure.tight_layout()
    return figure


def _draw_interactions(axes: Axes, results: Sequence[AgentResult]) -> None:
    for result in results:
        colour = COLOURS[result.agent]
        for curve in result.curves:
            if curve:
                axes.plot(*zip(*curve, strict=True), color=colour, linewidth=0.7, alpha=0.35)
        mean = mean_curve(result.curves)
        if mean:
            axes.plot(
                *zip(*mean, strict=True),
                "o-" if AGENTS[result.agent].delayed else "o--",
                color=colour,
                markersize=4,
                label=result.agent,
            )
    axes.set_xlim(left=0)
    seeds = max(len(result.curves) for result in results)
    note = f"interactions (mean of {seeds} seeds; thin lines: each seed)"
    dress(axes, "Return by interactions", note, "return")


def _draw_delays(
    axes: Axes, results: Sequence[AgentResult], delay: str, laws: Sequence[str]
) -> None:
    """Draw the law of training apart on the right, and agents without delay as dashed lines."""
    shown = [result for result in results if AGENTS[result.agent].delayed]
    apart = len(laws) + 0.4
    axes.axvspan(apart - 0.5, apart + 0.5, color=PALE, linewidth=0)
    for place, result in enumerate(shown):
        shift = 0.08 * (place - (len(shown) - 1) / 2)
        points = [
            (i + shift, result.by_delay[law])
            for i, law in enumerate(laws)
            if law in result.by_delay
        ]
        colour = COLOURS[result.agent]
        _draw_estimates(axes, points, colour, "o-", result.agent)
        _draw_estimates(axes, [(apart + shift, result.estimate)], colour, "D", None)
    for result in results:
        if not AGENTS[result.agent].delayed:
            axes.axhline(
                result.estimate.iqm,
                color=COLOURS[result.agent],
                linestyle="--",
                linewidth=1,
                label=result.agent,
                zorder=0,
            )
    axes.set_xticks([*range(len(laws)), apart], [*map(_tick, laws), f"{delay}\n(training)"])
    dress(axes, "Return by delay", "delay in evaluation (IQM, 95 % interval)", "return")


def _draw_estimates(
    axes: Axes,
    points: Sequence[tuple[float, Estimate]],
    colour: str,
    style: str,
    label: str | None,
) -> None:
    for x, estimate in points:
        axes.plot((x, x), (estimate.low, estimate.high), color=colour, linewidth=1.5, alpha=0.5)
    places, heights = [x for x, _ in points], [estimate.iqm for _, estimate in points]
    axes.plot(places, heights, style, color=colour, markersize=5, label=label)


def _tick(law: str) -> str:
    """The label of a law: for constant delays, only the number of steps."""
    return law.removeprefix("constant:")
