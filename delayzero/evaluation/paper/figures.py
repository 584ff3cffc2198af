"""The plots of the paper, from records: bars, convergence, the walk over time, large delays.

Ours are drawn beside the paper's numbers, which are those of its tables. Its learning curves are
not published as numbers: dashed lines show its final scores. Where we have several seeds there is
an interval over seeds; an open circle marks what we have of one seed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from delayzero.delays.pictures import ACCENT, GREY, INK, new_figure
from delayzero.delays.statistics import simulate
from delayzero.evaluation.over_seeds import Score, band, score_of
from delayzero.evaluation.panels import COLOURS, dress
from delayzero.evaluation.paper.records import settings_of
from delayzero.evaluation.paper.tables import ALGORITHMS, games, longest, paper_score, reference
from delayzero.extras import require
from delayzero.files import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DELAYS = (5, 15, 25)
"""The largest delays M of the paper's tables."""
AGENTS = tuple(ALGORITHMS)
PAPER_AGENTS = ("dez", "oblivious", "delayed-q")
"""One agent for each of the paper's algorithms."""
LARGE_GAMES, WALK, STEPS = ("Asterix", "Hero"), "walk:15", 3000
MOST_POINTS = 200
ONE_SEED: dict[str, Any] = {
    "marker": "o",
    "markerfacecolor": "white",
    "markersize": 6,
    "linestyle": "none",
}
FORMATS = ("pdf", "png")
Records = Mapping[tuple[str, str, str], Sequence[dict[str, Any]]]
"""The records of all seeds, by game, law and agent."""


def by_cell(records: Sequence[dict[str, Any]]) -> Records:
    """Collect records that differ only in their seed.

    If a cell has records with different settings, those of the most seeds are taken.
    """
    found: dict[tuple[str, str, str], dict[str, list[dict[str, Any]]]] = {}
    for record in records:
        settings = json.dumps(settings_of(record), sort_keys=True)
        cell = (record["game"], record["delay"], record["agent"])
        found.setdefault(cell, {}).setdefault(settings, []).append(record)
    return {cell: max(variants.values(), key=len) for cell, variants in found.items()}


def save_figures(records: Sequence[dict[str, Any]], folder: Path) -> list[Path]:
    """Draw all figures as PDF and PNG; return their files.

    Raises:
        MissingExtraError: matplotlib is not installed; the message says what to type.
    """
    cells = by_cell(records)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, draw in FIGURES.items():
        figure = draw(cells)
        for ending in FORMATS:
            path = folder / f"{name}.{ending}"
            date: dict[str, Any] = {"CreationDate": None} if ending == "pdf" else {}
            drawn = BytesIO()
            figure.savefig(drawn, format=ending, bbox_inches="tight", metadata=date)
            write_whole(path, drawn.getvalue())
            written.append(path)
    return written


def score_bars(cells: Records, kind: str) -> Figure:
    """Final scores by game and delay: a panel per game, ours beside the paper's."""
    figure = new_figure(15, 8.4)
    panels = figure.subplots(3, 5).ravel()
    for axes, game in zip(panels, games(), strict=True):
        _draw_bars(axes, cells, game, kind)
    patch = require("matplotlib.patches", "cli").Patch
    hatched = patch(facecolor="none", edgecolor=INK, hatch="////", label="the paper's")
    _legend(figure, hatched)
    _note(
        figure,
        f"Final scores under {_kind(kind)} delays up to M. Lines: one standard deviation; dotted: "
        f"random play. {ONE_SEED_NOTE}",
    )
    figure.tight_layout(rect=(0, 0.02, 1, 0.94))
    return figure


def _draw_bars(axes: Axes, cells: Records, game: str, kind: str) -> None:
    ours = [a for a in AGENTS if any((game, f"{kind}:{m}", a) in cells for m in DELAYS)]
    kinds = [(agent, whose) for agent in AGENTS for whose in ("ours", "paper")]
    kinds = [k for k in kinds if k[0] in (ours if k[1] == "ours" else PAPER_AGENTS)]
    width = 0.84 / len(kinds)
    for i, (agent, whose) in enumerate(kinds):
        for place, largest in enumerate(DELAYS):
            x, law = place + width * (i - (len(kinds) - 1) / 2), f"{kind}:{largest}"
            if whose == "paper":
                published = paper_score(game, law, agent)
                assert published is not None
                _bar(axes, x, width, agent, published.mean, published.std, pale=True)
            elif (game, law, agent) in cells:
                score = _score(cells[game, law, agent])
                spread = score.spread if score.seeds > 1 else None
                _bar(axes, x, width, agent, score.mean, spread, pale=False)
                if score.seeds == 1:
                    axes.plot([x], [score.mean], color=INK, **ONE_SEED)
    axes.set_xticks(range(len(DELAYS)), [f"M = {m}" for m in DELAYS])
    scores = reference(game)
    assert scores is not None
    axes.axhline(scores.random, color=GREY, linestyle=":", linewidth=1)
    dress(axes, game, "", "score")


def _bar(
    axes: Axes, x: float, width: float, agent: str, mean: float, spread: float | None, *, pale: bool
) -> None:
    colour = COLOURS[agent]
    style: dict[str, Any] = {"color": colour, "linewidth": 0}
    if pale:
        style = {"facecolor": "none", "edgecolor": colour, "hatch": "////", "linewidth": 0.8}
    axes.bar(x, mean, 0.92 * width, **style)
    if spread is not None:
        axes.plot((x, x), (mean - spread, mean + spread), color=INK, linewidth=1)


def convergence(cells: Records, kind: str) -> Figure:
    """Scores by interactions: a row per game that we have records of, a column per delay."""
    rows = [
        g for g in games() if any((g, f"{kind}:{m}", a) in cells for m in DELAYS for a in AGENTS)
    ]
    figure = new_figure(13, 1.2 + 2.9 * max(1, len(rows)))
    if not rows:
        _note(figure, f"No record under {_kind(kind)} delays; type: delayzero results add RUN")
        return figure
    panels = figure.subplots(len(rows), len(DELAYS), squeeze=False)
    for line, game in zip(panels, rows, strict=True):
        for axes, largest in zip(line, DELAYS, strict=True):
            _draw_convergence(axes, cells, game, f"{kind}:{largest}")
    line = require("matplotlib.lines", "cli").Line2D
    _legend(figure, line([], [], color=INK, linestyle="--", label="the paper's final score"))
    _note(
        figure,
        f"Evaluations under {_kind(kind)} delays: means, 95 % intervals over seeds. Dashed: the "
        f"paper's final scores; dotted: random play. {ONE_SEED_NOTE}",
    )
    figure.tight_layout(rect=(0, 0.02, 1, 1 - 0.7 / figure.get_figheight()))
    return figure


def _draw_convergence(axes: Axes, cells: Records, game: str, law: str) -> None:
    for agent in AGENTS:
        colour, published = COLOURS[agent], paper_score(game, law, agent)
        same = cells.get((game, law, agent), ())
        curve = band([record["curve"] for record in same], MOST_POINTS)
        if published is not None and (agent in PAPER_AGENTS):
            axes.axhline(published.mean, color=colour, linestyle="--", linewidth=1)
        if curve is None:
            continue
        mean, low, high = (np.array(y, np.float64) for y in (curve.mean, curve.low, curve.high))
        axes.plot(curve.x, mean, color=colour, linewidth=1.8)
        axes.fill_between(curve.x, low, high, color=colour, alpha=0.2, linewidth=0)
        if len(same) == 1:
            axes.plot(curve.x, mean, color=colour, **ONE_SEED)
    scores = reference(game)
    assert scores is not None
    axes.axhline(scores.random, color=GREY, linestyle=":", linewidth=1)
    if not any((game, law, agent) in cells for agent in AGENTS):
        axes.text(0.5, 0.5, "no record", color=GREY, transform=axes.transAxes, ha="center")
        axes.set_xticks([])
    axes.set_xlim(left=0)
    dress(axes, f"{game}, {law}", "interactions", "score")


def large_delays(cells: Records) -> Figure:
    """Final score of DEZ by the largest delay of the walk, in the two games of the paper."""
    figure = new_figure(11, 4.2)
    panels = figure.subplots(1, len(LARGE_GAMES))
    for axes, game in zip(panels, LARGE_GAMES, strict=True):
        colour = COLOURS["dez"]
        published = [(m, paper_score(game, f"walk:{m}", "dez")) for m in DELAYS]
        there = [(m, score.mean, score.std) for m, score in published if score is not None]
        x, mean, std = (list(values) for values in zip(*there, strict=True))
        axes.errorbar(x, mean, std, color=colour, linestyle="--", alpha=0.6, capsize=3)
        ours = {
            m: _score(same)
            for (g, law, agent), same in cells.items()
            if (g, agent) == (game, "dez")
            and law.startswith("walk:")
            and (m := longest(law)) is not None
        }
        axes.plot(sorted(ours), [ours[m].mean for m in sorted(ours)], color=colour, linewidth=1.8)
        for m, score in ours.items():
            if score.seeds == 1 or score.spread is None:
                axes.plot([m], [score.mean], color=colour, **ONE_SEED)
            else:
                axes.errorbar([m], [score.mean], [score.spread], fmt="o", color=colour, capsize=3)
        axes.set_xticks((5, 15, 25, 35, 45))
        axes.set_xlim(0, 50)
        dress(axes, game, "largest delay M of the walk", "score")
    lines = require("matplotlib.lines", "cli").Line2D
    handles = [
        lines([], [], color=COLOURS["dez"], linewidth=1.8, label="dez"),
        lines([], [], color=COLOURS["dez"], linestyle="--", alpha=0.6, label="dez, paper"),
    ]
    panels[-1].legend(handles=handles, frameon=False)
    _note(
        figure,
        f"Bars: one standard deviation. The paper's beyond M = 25 have no numbers. {ONE_SEED_NOTE}",
    )
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    return figure


def walk(cells: Records) -> Figure:
    """The delay of the walk over time, which no end of an episode resets; one simulated stream."""
    del cells
    figure = new_figure(7, 3)
    axes = figure.add_subplot()
    delays = simulate(WALK, steps=STEPS, seed=0).delays
    axes.step(range(STEPS), delays, where="mid", color=ACCENT, linewidth=1)
    axes.set_xlim(0, STEPS)
    dress(
        axes,
        f"{WALK}: the delay over time",
        "step (the end of an episode does not reset it)",
        "delay in steps",
    )
    figure.tight_layout()
    return figure


def _score(same: Sequence[dict[str, Any]]) -> Score:
    return score_of([record["scores"] for record in same])


def _legend(figure: Figure, papers: Any) -> None:
    """One legend above all panels.

    Args:
        figure: Without a legend.
        papers: What the paper's numbers look like.
    """
    patch = require("matplotlib.patches", "cli").Patch
    handles = [patch(color=COLOURS[agent], label=agent) for agent in AGENTS]
    one = require("matplotlib.lines", "cli").Line2D([], [], color=INK, label="one seed", **ONE_SEED)
    handles += [papers, one]
    figure.legend(handles=handles, frameon=False, ncols=len(handles), loc="upper center")


def _note(figure: Figure, text: str) -> None:
    figure.text(0.01, 0.005, text, color=GREY, size=8, va="bottom")


def _kind(kind: str) -> str:
    return {"walk": "stochastic", "constant": "constant"}[kind]


ONE_SEED_NOTE = "Open circle: one seed, no interval."
FIGURES: dict[str, Callable[[Records], Figure]] = {
    "scores-constant": lambda cells: score_bars(cells, "constant"),
    "scores-stochastic": lambda cells: score_bars(cells, "walk"),
    "convergence-constant": lambda cells: convergence(cells, "constant"),
    "convergence-stochastic": lambda cells: convergence(cells, "walk"),
    "walk": walk,
    "large-delays": large_delays,
}
"""The paper's plots, by the names of their files."""
