"""``delayzero curves``: the scores of runs by interactions, as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from delayzero.arguments import Parser, UsageError
from delayzero.delays.pictures import GREY, INK, new_figure
from delayzero.files import read_json, read_lines

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


class Curve(NamedTuple):
    """The scores of a run, as pairs of interactions and score."""

    name: str
    selfplay: list[tuple[int, float]]
    """Means over recent episodes of self-play, with its noise."""
    evaluations: list[tuple[int, float]]
    """Means over the episodes of evaluations, without noise."""


def read_curve(metrics: Path, name: str) -> Curve:
    """The curve in a run's ``metrics.jsonl``, with the final result if it lies beside it.

    Raises:
        UsageError: There is no such file, or it or the result is damaged.
    """
    if not metrics.exists():
        raise UsageError(f"there is no {metrics}; name the folder of a run")
    lines = read_lines(metrics, "leave out its run")

    def scores(key: str) -> list[tuple[int, float]]:
        """The last one, where several lines have as many interactions."""
        return list({line["interactions"]: line[key] for line in lines if key in line}.items())

    evaluations = scores("evaluation/score")
    result = metrics.parent / "result.json"
    if result.exists():
        end = read_json(result, "delete it, and train again to write it", ("interactions", "score"))
        evaluations.append((end["interactions"], end["score"]))
    return Curve(name, scores("selfplay/score"), evaluations)


def draw(curves: Sequence[Curve], title: str) -> Figure:
    """Draw curves: dots are evaluations, thin lines self-play."""
    figure = new_figure(7, 4)
    axes = figure.add_subplot()
    for i, curve in enumerate(curves):
        colour = COLOURS[i % len(COLOURS)]
        if curve.selfplay:
            axes.plot(*zip(*curve.selfplay, strict=True), color=colour, lw=0.8, alpha=0.6)
        if curve.evaluations:
            axes.plot(
                *zip(*curve.evaluations, strict=True), "o-", color=colour, ms=4, label=curve.name
            )
        elif curve.selfplay:
            axes.plot([], [], color=colour, lw=0.8, label=f"{curve.name} (self-play)")
    note = "dots: evaluations without noise; thin lines: self-play"
    axes.set_xlabel(f"interactions        ({note})", color=GREY, loc="left")
    axes.set_ylabel("score", color=GREY)
    axes.set_title(title, loc="left", color=INK)
    axes.set_xlim(left=0)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(frameon=False)
    return figure


def main(arguments: Sequence[str]) -> int:
    """Draw the curves of runs."""
    parser = Parser(prog="delayzero curves", description="Draw the scores of runs.")
    parser.add_argument("runs", type=Path, nargs="+", help="folders of runs")
    parser.add_argument("--save", type=Path, default=Path("curves.png"), help="(curves.png)")
    parser.add_argument("--title", default="", help="above the picture")
    options = parser.parse_args(arguments)
    curves = [read_curve(run / "metrics.jsonl", run.name) for run in options.runs]
    draw(curves, options.title).savefig(options.save, dpi=150)
    print(options.save)
    return 0
