"""What the pictures of agents share: a colour for each, dressed axes, curves of foresight."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from delayzero.delays.pictures import GREY, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = {
    "dez": "#0072B2",
    "oblivious": "#E69F00",
    "oblivious-executed": "#D55E00",
    "augmented": "#009E73",
    "delayed-q": "#CC79A7",
    "undelayed": INK,
    "random": GREY,
}
"""Of each agent, in every picture."""


def draw_prediction(axes: Axes, agent: str, prediction: Mapping[str, Any], name: str) -> None:
    """A figure of the rolled state by horizon, and dashed that of the state left as it was."""
    names, colour = ("horizon", name, f"stale_{name}"), COLOURS[agent]
    # What was not measured becomes NaN, and so a gap.
    ahead, rolled, stale = (np.array(prediction[one], np.float64) for one in names)
    axes.plot(ahead, rolled, "o-", color=colour, markersize=4, label=agent)
    axes.plot(ahead, stale, "--", color=colour, linewidth=1, alpha=0.6)


def dress(axes: Axes, title: str, below: str, beside: str) -> None:
    """Title, labels and few lines; from zero where nothing is below it."""
    if axes.dataLim.y0 >= 0:
        axes.set_ylim(bottom=0)
    axes.set_title(title, loc="left", color=INK, weight="bold", size=11)
    axes.set_xlabel(below, color=GREY, loc="left")
    axes.set_ylabel(beside, color=GREY)
    axes.tick_params(labelcolor=GREY, labelsize=9)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def legend_beside(axes: Axes) -> None:
    """A legend on the right of a panel."""
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.01, 0.5), labelcolor=INK)
