"""``delayzero curves``: draws the scores of runs by interactions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from delayzero.arguments import Parser, UsageError
from delayzero.delays.pictures import GREY, INK, new_figure
from delayzero.files import named, read_lines
from delayzero.forms import is_number, number, whole, with_keys
from delayzero.progress import say
from delayzero.runs.paths import RunPaths
from delayzero.runs.result import read_result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


class Curve(NamedTuple):
    """The learning curve of a run: pairs of interactions and score."""

    name: str
    selfplay: list[tuple[int, float]]
    """Mean scores of recent self-play episodes, which have exploration noise."""
    evaluations: list[tuple[int, float]]
    """Mean scores of evaluations, which have no exploration noise."""


def read_curve(run: Path) -> Curve:
    """Read the curve of a run from its metrics, and from its result if the run has finished.

    Raises:
        UsageError: The folder has no metrics, or a file in it is damaged or of another run.
    """
    files = RunPaths(run)
    if not files.metrics.exists():
        raise UsageError(f"{files.metrics} does not exist; name the folder of a run")
    lines = read_lines(files.metrics, "leave out its run", with_keys({"interactions": whole}))
    made = [line["interactions"] for line in lines]
    if made != sorted(made):
        raise UsageError(f"{files.metrics} is damaged: its interactions fall; leave out its run")

    def scores(key: str) -> list[tuple[int, float]]:
        """Pairs of interactions and score; of lines with equal interactions, the last."""
        points = {line["interactions"]: line[key] for line in lines if is_number(line.get(key))}
        return list(points.items())

    evaluations = scores("evaluation/score")
    if files.result.exists():
        remedy = "delete it, and type the run's command to evaluate it again"
        result = read_result(files, remedy, with_keys({"interactions": whole, "score": number}))
        if made and made[-1] > result["interactions"]:
            raise UsageError(
                f"{files.metrics} goes on to {made[-1]} interactions, and {files.result} was made "
                f"after {result['interactions']}: they are not of one run; leave it out"
            )
        evaluations.append((result["interactions"], result["score"]))
    return Curve(run.name, scores("selfplay/score"), evaluations)


def draw(curves: Sequence[Curve], title: str) -> Figure:
    """Draw curves: evaluations as dots, self-play as thin lines."""
    figure = new_figure(7, 4)
    axes = figure.add_subplot()
    names = []
    for i, curve in enumerate(curves):
        colour = COLOURS[i % len(COLOURS)]
        if curve.selfplay:
            axes.plot(*zip(*curve.selfplay, strict=True), color=colour, lw=0.8, alpha=0.6)
        if curve.evaluations:
            axes.plot(*zip(*curve.evaluations, strict=True), "o-", color=colour, ms=4, label="run")
            names.append(curve.name)
        elif curve.selfplay:
            axes.plot([], [], color=colour, lw=0.8, label="run")
            names.append(f"{curve.name} (self-play)")
    note = "dots: evaluations; thin lines: self-play, with noise"
    axes.set_xlabel(f"interactions        ({note})", color=GREY, loc="left")
    axes.set_ylabel("score", color=GREY)
    axes.set_title(title, loc="left", color=INK)
    axes.set_xlim(left=0)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if names:
        entries = axes.legend(frameon=False).get_texts()
        for entry, name in zip(entries, names, strict=True):
            entry.set_text(name)  # as a label, a name that begins with _ would be left out
    return figure


def main(arguments: Sequence[str]) -> int:
    """Run ``delayzero curves``."""
    parser = Parser(
        prog="delayzero curves",
        description="Draw the learning curves of runs, finished or in progress: their scores in "
        "evaluations and in self-play by interactions.",
    )
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="folder of a run")
    parser.add_argument(
        "--save", type=Path, default=Path("curves.png"), help="picture file (default: curves.png)"
    )
    parser.add_argument("--title", default="", help="title of the picture (default: none)")
    options = parser.parse_args(arguments)
    curves = [read_curve(run) for run in options.runs]
    without = [
        str(run)
        for run, curve in zip(options.runs, curves, strict=True)
        if not curve.selfplay and not curve.evaluations
    ]
    if len(without) == len(curves):
        names = ", ".join(without)
        raise UsageError(f"{names}: no scores yet; wait for the first, or name other runs")
    for run in without:
        say(f"warning: {run} has no scores yet, and is left out")
    figure = draw(curves, options.title)
    try:
        with named(options.save):
            figure.savefig(options.save, dpi=150)
    except ValueError as error:  # an unknown kind of file
        raise UsageError(f"--save {options.save}: {error}") from None
    print(options.save)
    return 0
