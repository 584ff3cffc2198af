"""Pictures of delay laws: the delay over time, its histogram, and a timeline of decisions."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from delayzero.delays.channel import resolve_law
from delayzero.delays.law import Law
from delayzero.delays.statistics import Characteristics, History, characterise, simulate
from delayzero.extras import require
from delayzero.words import encodable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The colour-blind-safe palette of Okabe and Ito, ordered so that neighbours contrast.
DECISION_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
INK, GREY, PALE = "#222222", "#8A8A8A", "#E9E9E9"
ACCENT = "#0072B2"

TIMELINE_STEPS = 40
_TRACE_STEPS = 240
_BURN_IN = 1000
_DECIDED, _EXECUTED = 1.0, 0.0
_HALF_TILE = 0.13  # of a tile's height
_TILE_REACH = 0.44  # half of its width


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure, sized in inches, without matplotlib's global state.

    Raises:
        MissingExtraError: matplotlib is not installed; the message says what to type.
    """
    figure: Figure = _figure_class()(figsize=(width, height), dpi=150, facecolor="white")
    return figure


@cache
def _figure_class() -> Any:
    """A ``Figure`` whose text may hold what UTF-8 cannot encode, such as names of files."""
    figures, texts = require("matplotlib.figure", "cli"), require("matplotlib.text", "cli")

    class AnyText(figures.Figure):  # type: ignore[misc, name-defined]
        def draw(self, renderer: Any) -> None:
            for text in self.findobj(texts.Text):
                if text.get_text() != (shown := encodable(text.get_text())):
                    text.set_text(shown)
            super().draw(renderer)

    return AnyText


def law_picture(
    law: Law | str,
    *,
    rule: str = "latest-generated",
    max_delay: int | None = None,
    seed: int = 0,
    characteristics: Characteristics | None = None,
) -> Figure:
    """Draw a law: its delay over time, a histogram of it, and a timeline of decisions.

    Args:
        law: The law or its text. It must not look at observations or actions.
        rule: Which of the decisions that have arrived runs.
        max_delay: M, if it should be larger than the law's largest delay, or the law has none.
        seed: Equal seeds give equal pictures.
        characteristics: The result of :func:`characterise` for the same arguments, if available.

    Raises:
        DelayError: The law needs an environment, or has no largest delay.
        MissingExtraError: matplotlib is not installed.
    """
    law, limit = resolve_law(law, max_delay)
    figure = new_figure(10, 5.2)
    if characteristics is None:
        characteristics = characterise(law, rule=rule, max_delay=limit, seed=seed)
    length = max(_TRACE_STEPS, TIMELINE_STEPS + limit + 1)
    history = steady_history(law, rule, limit, seed, length)
    grid = figure.add_gridspec(
        2, 2, width_ratios=(4.2, 1), height_ratios=(1.15, 1), hspace=0.5, wspace=0.04
    )
    grid.update(left=0.075, right=0.985, top=0.86, bottom=0.1)
    over_time = figure.add_subplot(grid[0, 0])
    histogram = figure.add_subplot(grid[0, 1], sharey=over_time)
    timeline = figure.add_subplot(grid[1, :])

    text = str(law)
    title = text if len(text) <= 60 else f"{text[:57]}..."
    figure.text(0.012, 0.975, title, size=14, weight="bold", color=INK, va="top")
    figure.text(0.988, 0.968, f"rule {rule}", size=9.5, color=GREY, va="top", ha="right")
    _draw_delays(over_time, history.delays[:_TRACE_STEPS], limit)
    _draw_histogram(histogram, characteristics)
    draw_timeline(timeline, history, TIMELINE_STEPS)
    timeline.set_xlabel("step", color=INK, size=9.5)
    timeline.set_title(timeline_caption(characteristics), size=10, color=INK, loc="left", pad=8)
    timeline_key(timeline)
    return figure


def picture_name(law: Law | str) -> str:
    """Return a file name for the picture of a law: its text, with special characters replaced."""
    words = re.sub(r"[^A-Za-z0-9.=]+", "-", str(law)).strip("-.")
    return f"{words[:100] or 'law'}.png"


def steady_history(law: Law | str, rule: str, limit: int, seed: int, steps: int) -> History:
    """Simulate a history in the steady state; its first steps run earlier decisions."""
    history = simulate(
        law, rule=rule, max_delay=limit, steps=limit + steps, burn_in=_BURN_IN, seed=seed
    )
    return History(history.delays[limit:], history.running[limit:] - limit)


def timeline_caption(characteristics: Characteristics) -> str:
    """Return the caption of a timeline: its drop rate, repeat rate and lag."""
    return (
        f"{characteristics.drop_rate:.0%} of the decisions are dropped, "
        f"{characteristics.repeat_rate:.0%} of the steps repeat one; "
        f"the decision that runs is {characteristics.effective_lag:.1f} steps old on average"
    )


def _draw_delays(axes: Axes, delays: NDArray[np.int64], limit: int) -> None:
    """Draw the delay of each decision; shade the steps of the timeline."""
    steps = np.arange(len(delays))
    axes.axvspan(-0.5, TIMELINE_STEPS - 0.5, color=PALE, linewidth=0)
    axes.step(steps, delays, where="mid", color=ACCENT, linewidth=1.1)
    axes.set_xlim(-0.5, len(delays) - 0.5)
    axes.set_ylim(-0.06 * max(limit, 1) - 0.3, 1.06 * max(limit, 1) + 0.3)
    axes.yaxis.set_major_locator(require("matplotlib.ticker", "cli").MaxNLocator(5, integer=True))
    axes.set_title("delay of each decision, in steps", size=10, color=INK, loc="left", pad=6)
    _plain(axes)


def _draw_histogram(axes: Axes, values: Characteristics) -> None:
    """Draw the share of each delay, and their mean."""
    axes.barh(range(len(values.delay_shares)), values.delay_shares, height=0.8, color=ACCENT)
    axes.axhline(values.mean, color=INK, linewidth=0.9, linestyle=(0, (4, 2)))
    axes.set_title(f"mean {values.mean:.2f}, p95 {values.p95}", size=10, color=INK, pad=6)
    axes.xaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    axes.xaxis.set_major_locator(require("matplotlib.ticker", "cli").MaxNLocator(3))
    _plain(axes)
    axes.tick_params(labelleft=False)


def draw_timeline(axes: Axes, history: History, steps: int, *, scale: float = 1.0) -> None:
    """Draw when each decision is made (above) and when it runs (below).

    A line in the decision's colour leads from the dot where it is made to the tiles where it runs.
    Tiles that repeat a decision are paler. A cross marks a decision that never runs.

    Args:
        axes: Where to draw.
        history: The decisions. It should extend beyond the last step drawn, so that late decisions
            do not look like dropped ones.
        steps: The number of steps to draw, from the start of the history.
        scale: Size of the marks.
    """
    first_runs: dict[int, int] = {}
    for step, decision in enumerate(history.running.tolist()):
        first_runs.setdefault(decision, step)
    # Colours follow the order of execution, so that neighbouring tiles always differ.
    colours = {
        decision: DECISION_COLOURS[order % len(DECISION_COLOURS)]
        for order, decision in enumerate(first_runs)
    }
    for decision in range(steps):
        if decision not in first_runs:
            (cross,) = axes.plot(decision, _DECIDED, "x", color=GREY, markersize=5 * scale)
            cross.set_markeredgewidth(1.2 * scale)
    for decision, first in first_runs.items():
        if decision < steps:
            ends = (_DECIDED, _EXECUTED + _HALF_TILE)
            colour = colours[decision]
            axes.plot((decision, first), ends, color=colour, linewidth=1.3 * scale, zorder=2)
            axes.plot(decision, _DECIDED, "o", color=colour, markersize=5.5 * scale, zorder=3)
    _draw_tiles(axes, history.running[:steps].tolist(), first_runs, colours)
    axes.set_xlim(-0.6, steps - 0.4)
    axes.set_ylim(_EXECUTED - 0.26, _DECIDED + 0.22)
    axes.set_yticks((_EXECUTED, _DECIDED), labels=("executed", "decided"))
    _plain(axes)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)


def _draw_tiles(
    axes: Axes, running: list[int], first_runs: dict[int, int], colours: dict[int, str]
) -> None:
    """Draw a tile for each step, joined to the previous one if the same decision still runs."""
    patches = require("matplotlib.patches", "cli")
    for step, decision in enumerate(running):
        still_runs = step > 0 and running[step - 1] == decision
        left = step - 1 + _TILE_REACH if still_runs else step - _TILE_REACH
        axes.add_patch(
            patches.Rectangle(
                (left, _EXECUTED - _HALF_TILE),
                step + _TILE_REACH - left,
                2 * _HALF_TILE,
                facecolor=colours[decision],
                alpha=0.4 if first_runs[decision] < step else 1.0,
                linewidth=0,
                zorder=3,
            )
        )


def timeline_key(axes: Axes) -> None:
    """Add a legend below the right end of a timeline."""
    lines, patches = require("matplotlib.lines", "cli"), require("matplotlib.patches", "cli")
    handles = [
        lines.Line2D([], [], marker="o", linestyle="", color=ACCENT, markersize=5.5),
        lines.Line2D([], [], marker="x", linestyle="", color=GREY, markersize=5),
        patches.Patch(facecolor=ACCENT),
        patches.Patch(facecolor=ACCENT, alpha=0.4),
    ]
    axes.legend(
        handles,
        ("decided", "never runs", "runs", "runs again"),
        loc="upper right",
        bbox_to_anchor=(1.0, -0.12),
        ncols=4,
        frameon=False,
        fontsize=9,
        handlelength=1.0,
        handletextpad=0.5,
        columnspacing=1.4,
        borderaxespad=0.2,
    )


def _plain(axes: Axes) -> None:
    """Remove what carries no information."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color("#BBBBBB")
    axes.tick_params(colors=INK, labelsize=9, color="#BBBBBB", length=3)
