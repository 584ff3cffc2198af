"""Charts as data: what ``assets/report.js`` draws with uPlot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from delayzero.report.groups import Group, rank
from delayzero.settings import AGENTS

Style = Literal["line", "dash", "thin", "bar", "pale", "step"]
"""``thin`` is the line of one seed; ``pale`` a bar of the paper's."""
Numbers = Sequence[float | None]


@dataclass(frozen=True)
class Series:
    """A line or the bars of one colour.

    Attributes:
        label: In the legend.
        colour: The name of a colour of the page: an agent's, or of ``EXTRA_COLOURS``.
        x: Places.
        y: A value for each place; None where there is none.
        low: The lower ends of an interval.
        high: The upper ends.
        style: How it is drawn.
        toggle: Series with the same one are shown and hidden together.
        run: The name of the run whose values it shows.
    """

    label: str
    colour: str
    x: Numbers
    y: Numbers
    low: Numbers = ()
    high: Numbers = ()
    style: Style = "line"
    toggle: str = ""
    run: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the series as ``report.js`` reads it."""
        values: dict[str, Any] = {"label": self.label, "colour": self.colour, "y": list(self.y)}
        if any(value is not None for value in self.low):
            values |= {"low": list(self.low), "high": list(self.high)}
        rest = {"style": self.style, "toggle": self.toggle or self.label, "run": self.run}
        return values | {key: value for key, value in rest.items() if value}


@dataclass(frozen=True)
class View:
    """One of the things that a chart can show."""

    name: str
    series: Sequence[Series]
    y_label: str = "score"
    marks: Sequence[tuple[float, str]] = ()
    """Dashed horizontal lines."""

    def to_json(self) -> dict[str, Any]:
        """Return the view as ``report.js`` reads it: series share lists of places."""
        places = list(dict.fromkeys(tuple(series.x) for series in self.series))
        return {
            "name": self.name,
            "xs": [list(x) for x in places],
            "series": [{"x": places.index(tuple(s.x)), **s.to_json()} for s in self.series],
            "y_label": self.y_label,
            "marks": [list(mark) for mark in self.marks],
        }


@dataclass(frozen=True)
class Chart:
    """A chart.

    Attributes:
        title: Above it.
        description: What it shows, for those who do not see it.
        views: What it can show; the first one is shown first.
        x_label: Below it.
        ticks: Places and texts on the horizontal axis, instead of numbers.
    """

    title: str
    description: str
    views: Sequence[View]
    x_label: str
    ticks: Mapping[float, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the chart as ``report.js`` reads it."""
        return {
            "title": self.title,
            "views": [view.to_json() for view in self.views],
            "x_label": self.x_label,
            "ticks": [[place, text] for place, text in self.ticks.items()],
        }


EXTRA_COLOURS = 6
"""Colours for groups of the same agent, and for agents of other versions."""


def colour_of(group: Group) -> str:
    """The colour of a group: its agent's, or one of the extra ones if it is not the first."""
    if group.place == 0 and group.agent in AGENTS:
        return group.agent
    return f"extra{(rank(group.agent) + group.place - 1) % EXTRA_COLOURS}"


def grouped_bars(
    ticks: Sequence[str], bars: Sequence[tuple[str, str, Style, Numbers, Numbers, Numbers]]
) -> tuple[list[Series], dict[float, str]]:
    """Bars side by side at each tick.

    Args:
        ticks: The texts below the groups of bars.
        bars: For each kind of bar: label, colour, style, and its values at each tick with their
            lower and upper ends.

    Returns:
        The series, and the places of the ticks.
    """
    width = 1 / (len(bars) + 1)
    series = []
    for i, (label, colour, style, y, low, high) in enumerate(bars):
        shift = width * (i - (len(bars) - 1) / 2)
        x = [round(t + shift, 6) for t in range(len(ticks))]
        series.append(Series(label, colour, x, y, low, high, style))
    return series, {float(t): text for t, text in enumerate(ticks)}
