"""Parts that pictures of agents share: colours, styled axes, curves of prediction quality."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

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
"""The colour of each agent in every picture."""
EVENT_STYLES = {
    "quiet": ("#009E73", "nothing special"),
    "jump": ("#56B4E9", "a sudden change"),
    "reward": ("#E69F00", "a reward"),
    "life": ("#D55E00", "a lost life"),
}
"""The colour and the label of each kind of event that lies on the way to a predicted state."""
EVENTS = tuple(EVENT_STYLES)
HORIZON_LABEL = "steps ahead (dashed: state not rolled forward)"


def draw_prediction(axes: Axes, agent: str, prediction: Mapping[str, Any], name: str) -> None:
    """Draw a measure of the predicted state by horizon; dashed, of the state not rolled forward.

    Args:
        axes: The panel.
        agent: The agent's name.
        prediction: Curves by name, each with one entry per horizon; None where not measured. If
            one is missing that this measure needs, nothing is drawn.
        name: The measure, such as ``policy_agreement``.
    """
    names, colour = ("horizon", name, f"stale_{name}"), COLOURS[agent]
    if any(one not in prediction for one in names):
        return
    # None becomes NaN, which is drawn as a gap.
    horizon, rolled, stale = (np.array(prediction[one], np.float64) for one in names)
    axes.plot(horizon, rolled, "o-", color=colour, markersize=4, label=agent)
    axes.plot(horizon, stale, "--", color=colour, linewidth=1, alpha=0.6)


def draw_events(axes: Axes, prediction: Mapping[str, Any]) -> None:
    """Draw how often policies agree by horizon, a line for each kind of event that was met.

    Args:
        axes: The panel.
        prediction: Curves by name, see :mod:`delayzero.evaluation.prediction`.
    """
    horizon = np.array(prediction["horizon"], np.float64)
    for event, curve in _met(prediction).items():
        colour, label = EVENT_STYLES[event]
        axes.plot(horizon, curve, "o-", color=colour, markersize=3, label=label)


def has_events(prediction: Mapping[str, Any]) -> bool:
    """Whether several kinds of events were met; in CartPole every step has a reward."""
    return len(_met(prediction)) > 1


def _met(prediction: Mapping[str, Any]) -> dict[str, NDArray[np.float64]]:
    """How often policies agree, by horizon, for each kind of event that was met."""
    names = {event: f"{event}_policy_agreement" for event in EVENT_STYLES}
    curves = {e: np.array(prediction.get(name, np.nan), np.float64) for e, name in names.items()}
    return {event: curve for event, curve in curves.items() if np.isfinite(curve).any()}


def dress(axes: Axes, title: str, below: str, beside: str) -> None:
    """Add a title and labels, remove the frame; start at zero unless values are below it."""
    if axes.dataLim.y0 >= 0:
        axes.set_ylim(bottom=0)
    axes.set_title(title, loc="left", color=INK, weight="bold", size=11)
    axes.set_xlabel(below, color=GREY, loc="left")
    axes.set_ylabel(beside, color=GREY)
    axes.tick_params(labelcolor=GREY, labelsize=9)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def legend_beside(axes: Axes, *others: Axes) -> None:
    """Add a legend on the right of a panel, with the lines of other panels too."""
    lines: dict[str, Any] = {}
    for panel in (*others, axes):
        for line, label in zip(*panel.get_legend_handles_labels(), strict=True):
            lines.setdefault(label, line)
    axes.legend(
        list(lines.values()),
        list(lines),
        frameon=False,
        loc="center left",
        bbox_to_anchor=(1.01, 0.5),
        labelcolor=INK,
    )
