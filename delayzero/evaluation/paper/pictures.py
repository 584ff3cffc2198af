"""The records as a picture: how each cell was learned, and what its models foresee."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from delayzero.delays.pictures import GREY, new_figure
from delayzero.evaluation.panels import COLOURS, draw_prediction, dress, legend_beside
from delayzero.evaluation.paper.tables import ALGORITHMS, paper_score, reference

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def results_picture(records: Sequence[dict[str, Any]]) -> Figure:
    """A row for each game and law: scores by interactions, agreement by horizon.

    Args:
        records: At least one; in the order of :func:`read_records`.

    Raises:
        MissingExtraError: matplotlib is not installed; the message is the line to type.
    """
    cells = [list(same) for _, same in groupby(records, lambda r: (r["game"], r["delay"]))]
    figure = new_figure(11, 3.4 * len(cells))
    panels = figure.subplots(len(cells), 2, squeeze=False)
    for (left, right), cell in zip(panels, cells, strict=True):
        _draw_scores(left, cell)
        _draw_foresight(right, cell)
    figure.tight_layout()
    return figure


def _draw_scores(axes: Axes, records: Sequence[dict[str, Any]]) -> None:
    """Evaluations by interactions, thin self-play; the paper's scores and random play across."""
    game, delay = records[0]["game"], records[0]["delay"]
    for agent, same in groupby(records, lambda r: r["agent"]):
        colour, paper = COLOURS[agent], paper_score(game, delay, agent)
        for i, record in enumerate(same):
            if record.get("selfplay"):
                axes.plot(*zip(*record["selfplay"], strict=True), color=colour, lw=0.7, alpha=0.5)
            label = None if i else agent
            axes.plot(*zip(*record["curve"], strict=True), "o-", color=colour, ms=4, label=label)
        if paper is not None:
            label = f"{ALGORITHMS[agent].replace('_', '-')}, paper"
            axes.axhline(paper.mean, color=colour, linestyle="--", lw=1, label=label)
    known = reference(game)
    if known is not None:
        axes.axhline(known.random, color=GREY, linestyle=":", lw=1, label="random play")
    axes.set_xlim(left=0)
    dress(axes, f"{game}, {delay}", "interactions (thin: self-play)", "score")
    legend_beside(axes)


def _draw_foresight(axes: Axes, records: Sequence[dict[str, Any]]) -> None:
    for record in records:
        if record.get("prediction"):
            draw_prediction(axes, record["agent"], record["prediction"], "policy_agreement")
    dress(axes, "Foreseen states", "steps ahead (dashed: not rolled)", "agreeing policies")
