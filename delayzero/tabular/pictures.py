"""The figure of ``delayzero theory``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from delayzero.delays.pictures import DECISION_COLOURS, GREY, INK, PALE, new_figure
from delayzero.tabular.sweep import Loss

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from delayzero.tabular.theory import PathCheck

READINGS = {
    "resample": "paper's product, resampling",
    "copy": "paper's product, copying",
    "corrected": "corrected product, copying",
}
FLOOR = 1e-18  # where distances of exactly zero are drawn


def theory_picture(checks: Sequence[PathCheck], losses: Sequence[Loss]) -> Figure:
    """Draw the distances of theorem 1 and the loss of each way of acting under each law.

    Raises:
        MissingExtraError: matplotlib is not installed. The message has the line to type.
    """
    laws = list(dict.fromkeys(loss.law for loss in losses))
    figure = new_figure(12, 5.4)
    grid = figure.add_gridspec(1, 1 + len(laws), width_ratios=(1.5, *(1.0 for _ in laws)))
    grid.update(left=0.12, right=0.985, top=0.84, bottom=0.2, wspace=0.12)
    _distances(figure.add_subplot(grid[0]), checks)
    ways = list(dict.fromkeys(loss.way for loss in losses))
    for place, law in enumerate(laws):
        axes = figure.add_subplot(grid[place + 1])
        _losses(
            axes, [loss for loss in losses if loss.law == law], ways, labels=place == len(laws) - 1
        )
        axes.set_title(law, loc="left", fontsize=9, color=INK)
    figure.text(0.12, 0.93, "Theorem 1: formula vs. process", fontsize=10, weight="bold")
    left = grid[1].get_position(figure).x0
    figure.text(left, 0.93, "Loss of each way of acting", fontsize=10, weight="bold")
    return figure


def _distances(axes: Axes, checks: Sequence[PathCheck]) -> None:
    for colour, (reading, label) in zip(DECISION_COLOURS, READINGS.items(), strict=False):
        values = [max(getattr(check, reading), FLOOR) for check in checks]
        axes.scatter(values, range(len(checks)), s=22, color=colour, label=label, zorder=3)
    axes.set_xscale("log")
    axes.set_yticks(
        range(len(checks)),
        [f"S={c.states} t={c.steps} {c.law}" for c in checks],
        fontsize=6.5,
    )
    axes.invert_yaxis()
    axes.set_xlabel("total variation (zero is drawn at 1e-18)", fontsize=8, color=GREY)
    axes.legend(fontsize=7, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=3)
    _plain(axes)


def _losses(axes: Axes, losses: Sequence[Loss], ways: Sequence[str], labels: bool) -> None:
    families = list(dict.fromkeys(loss.family for loss in losses))
    for number, (family, colour) in enumerate(zip(families, DECISION_COLOURS, strict=False)):
        for loss in losses:
            if loss.family == family:
                height = ways.index(loss.way) + 0.13 * (number - (len(families) - 1) / 2)
                first = loss is next(other for other in losses if other.family == family)
                axes.errorbar(
                    100 * loss.mean,
                    height,
                    xerr=196 * loss.error,
                    fmt="o",
                    markersize=3.5,
                    color=colour,
                    label=family if first else None,
                )
    axes.set_yticks(range(len(ways)), [""] * len(ways))
    for place, way in enumerate(ways):
        axes.text(1, place - 0.4, way, fontsize=6.5, color=GREY, va="center")
    axes.set_ylim(len(ways) - 0.4, -0.6)
    axes.set_xlim(-3, 100)
    axes.set_xlabel("% of (optimum - random)", fontsize=8, color=GREY)
    if labels:
        axes.legend(
            fontsize=7, frameon=False, loc="upper right", bbox_to_anchor=(1, -0.12), ncols=5
        )
    _plain(axes)


def _plain(axes: Axes) -> None:
    axes.grid(axis="x", color=PALE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=7, colors=INK, length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
