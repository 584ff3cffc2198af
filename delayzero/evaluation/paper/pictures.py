"""A picture of records: their learning curves, and how well their models predict."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from delayzero.delays.pictures import GREY, new_figure
from delayzero.evaluation.panels import (
    COLOURS,
    HORIZON_LABEL,
    draw_prediction,
    dress,
    legend_beside,
)
from delayzero.evaluation.paper.tables import (
    ALGORITHMS,
    efficientzero_score,
    paper_score,
    reference,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def results_picture(records: Sequence[dict[str, Any]]) -> Figure:
    """Draw one row per game and delay law: scores by interactions, agreement by horizon.

    Args:
        records: At least one, in the order of :func:`read_records`.

    Raises:
        MissingExtraError: matplotlib is not installed; the message says what to type.
    """
    cells = [list(same) for _, same in groupby(records, lambda r: (r["game"], r["delay"]))]
    figure = new_figure(11, 3.4 * len(cells))
    panels = figure.subplots(len(cells), 2, squeeze=False)
    for (left, right), cell in zip(panels, cells, strict=True):
        _draw_scores(left, cell)
        _draw_agreement(right, cell)
    figure.tight_layout()
    return figure


def _draw_scores(axes: Axes, records: Sequence[dict[str, Any]]) -> None:
    """Draw evaluations and self-play by interactions; the paper's and random scores as lines."""
    game, delay = records[0]["game"], records[0]["delay"]
    for agent, same in groupby(records, lambda r: r["agent"]):
        colour, paper = COLOURS[agent], paper_score(game, delay, agent)
        for i, record in enumerate(same):
            if record.get("selfplay"):
                axes.plot(*zip(*record["selfplay"], strict=True), color=colour, lw=0.7, alpha=0.5)
            curve = np.reshape(record["curve"], (-1, 2))
            axes.plot(*curve.T, "o-", color=colour, ms=4, label=None if i else agent)
        if paper is not None:
            label = f"{ALGORITHMS[agent].replace('_', '-')}, paper"
            axes.axhline(paper.mean, color=colour, linestyle="--", lw=1, label=label)
    scores = reference(game)
    if scores is not None:
        axes.axhline(scores.random, color=GREY, linestyle=":", lw=1, label="random play")
    published = efficientzero_score(game, delay)
    if published is not None:
        label = "EfficientZero, published"
        axes.axhline(published, color=GREY, linestyle="--", lw=1, label=label)
    axes.set_xlim(left=0)
    dress(axes, f"{game}, {delay}", "interactions (thin: self-play)", "score")
    legend_beside(axes)


def _draw_agreement(axes: Axes, records: Sequence[dict[str, Any]]) -> None:
    """Draw how often the policies at predicted and real states prefer the same action."""
    measured = [record for record in records if record.get("prediction")]
    if not measured:
        axes.axis("off")
        return
    for record in measured:
        draw_prediction(axes, record["agent"], record["prediction"], "policy_agreement")
    dress(axes, "Same action at predicted and real state", HORIZON_LABEL, "share of states")
