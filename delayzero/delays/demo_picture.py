"""The overview picture of the demo: each delay, and the returns of the controllers under it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from delayzero.delays import parse
from delayzero.delays.demo import Comparison, law_label
from delayzero.delays.pictures import (
    GREY,
    INK,
    draw_timeline,
    new_figure,
    steady_history,
    timeline_key,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

IGNORING, PREDICTING = "#D55E00", "#0072B2"
_STEPS = 24
_MOST = 500.0  # the return of a CartPole-v1 episode that never fails


def overview(comparisons: Sequence[Comparison]) -> Figure:
    """Draw one row for each law: a timeline of decisions, and the returns under it."""
    figure = new_figure(10, 1.6 + 0.98 * len(comparisons))
    grid = figure.add_gridspec(len(comparisons), 2, width_ratios=(1.7, 1), hspace=0.32, wspace=0.1)
    height = figure.get_figheight()
    grid.update(left=0.2, right=0.945, top=1 - 0.78 / height, bottom=0.62 / height)
    for row, entry in enumerate(comparisons):
        last = row == len(comparisons) - 1
        timeline = figure.add_subplot(grid[row, 0])
        returns = figure.add_subplot(grid[row, 1])
        _draw_law(timeline, entry)
        _draw_returns(returns, entry)
        if row == 0:
            _head(timeline, "Which decision runs when")
            _head(returns, "Return in CartPole")
            _controllers_key(returns)
        timeline.spines["bottom"].set_visible(False)
        timeline.tick_params(axis="x", length=0, labelbottom=last)
        returns.tick_params(axis="x", length=0, labelbottom=last)
        if last:
            timeline.set_xlabel("step", size=9, color=GREY, loc="left")
            note = f"mean of {entry.ignoring.returns.size} episodes, 95% interval"
            returns.set_xlabel(note, size=9, color=GREY, loc="left")
            timeline_key(timeline)
    return figure


def _head(axes: Axes, text: str) -> None:
    axes.annotate(
        text,
        (0, 1),
        (0, 26),
        xycoords="axes fraction",
        textcoords="offset points",
        size=12,
        weight="bold",
        color=INK,
    )


def _draw_law(axes: Axes, entry: Comparison) -> None:
    limit = parse(entry.law).max_delay
    history = steady_history(entry.law, "latest-generated", limit, 0, _STEPS + limit + 1)
    draw_timeline(axes, history, _STEPS, scale=0.9)
    axes.tick_params(axis="y", labelsize=8, labelcolor=GREY)
    axes.tick_params(axis="x", labelsize=8, labelcolor=GREY)
    values = entry.characteristics
    for offset, text, size, weight, colour in (
        (4, law_label(entry.law), 12, "bold", INK),
        (-11, f"{values.drop_rate:.0%} dropped", 9, "normal", GREY),
    ):
        axes.annotate(
            text,
            (0, 0.5),
            (-140, offset),
            xycoords="axes fraction",
            textcoords="offset points",
            size=size,
            weight=weight,
            color=colour,
        )


def _draw_returns(axes: Axes, entry: Comparison) -> None:
    for height, result, colour in (
        (1.0, entry.predicting, PREDICTING),
        (0.0, entry.ignoring, IGNORING),
    ):
        axes.barh(height, result.mean, height=0.42, color=colour, alpha=0.25)
        axes.plot((result.low, result.high), (height, height), color=colour, linewidth=2)
        axes.plot(result.mean, height, "o", color=colour, markersize=6)
        axes.annotate(
            f"{result.mean:.0f}",
            (_MOST, height),
            (10, 0),
            textcoords="offset points",
            size=10,
            color=colour,
            weight="bold",
            va="center",
            annotation_clip=False,
        )
    axes.axvline(_MOST, color="#DDDDDD", linewidth=0.8, zorder=0)
    axes.set_xlim(0, _MOST * 1.02)
    axes.set_ylim(-0.75, 1.75)
    axes.set_yticks(())
    axes.tick_params(axis="x", labelsize=8, labelcolor=GREY)
    for side in ("top", "right", "bottom"):
        axes.spines[side].set_visible(False)
    axes.spines["left"].set_color("#BBBBBB")


def _controllers_key(axes: Axes) -> None:
    for offset, text, colour in (
        (0, "predicting the state", PREDICTING),
        (120, "ignoring the delay", IGNORING),
    ):
        axes.annotate(
            text,
            (0, 1),
            (offset, 8),
            xycoords="axes fraction",
            textcoords="offset points",
            size=9,
            color=colour,
            weight="bold",
        )
