"""Evaluates runs of one agent under several delay laws, in a process of its own.

    python -m delayzero.evaluation.compare.by_delay RUN... --laws LAW... --episodes N

The runs differ in their seed alone, so that each law is compiled once for all of them. The scores
go to ``by_delay.json`` in each run's folder; those that are there are not played again.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from delayzero.arguments import Parser, whole
from delayzero.evaluation.compare.plan import Run
from delayzero.evaluation.episodes import Evaluator
from delayzero.runs.weights import load_weights

MODULE = "delayzero.evaluation.compare.by_delay"
Scores = dict[str, list[float]]
"""Those of the episodes, by the text of the law."""


def words_for(runs: Sequence[Run], laws: Sequence[str], episodes: int) -> tuple[str, ...]:
    """What to type behind ``python -m`` to evaluate runs of one agent."""
    folders = [str(run.folder) for run in runs]
    return (MODULE, *folders, "--laws", *laws, "--episodes", str(episodes))


def read_scores(path: Path, episodes: int) -> Scores:
    """The scores that a file has, of so many episodes each; none if there is no such file."""
    found: Scores = json.loads(path.read_text()) if path.exists() else {}
    return {law: scores for law, scores in found.items() if len(scores) == episodes}


def evaluate(runs: Sequence[Path], laws: Sequence[str], episodes: int) -> None:
    """Play what is missing."""
    places = {run: run / "by_delay.json" for run in runs}
    loaded = {run: load_weights(run) for run in runs}
    for law in laws:
        left = [run for run in runs if law not in read_scores(places[run], episodes)]
        if not left:
            continue
        system = loaded[left[0]][0]
        limit = system.config.final_max_steps
        evaluator = Evaluator(system, episodes, max_steps=limit, delay=law)
        for run in left:
            system, variables = loaded[run]
            played = evaluator.play(variables, system.config.seed)
            scores = {
                **read_scores(places[run], episodes),
                law: [episode.score for episode in played],
            }
            _write(places[run], json.dumps(scores))
        evaluator.close()


def _write(path: Path, text: str) -> None:
    """Whole or not at all."""
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(text + "\n")
    unfinished.replace(path)


def main(arguments: Sequence[str]) -> None:
    """Evaluate runs under laws."""
    parser = Parser(prog=f"python -m {MODULE}")
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--laws", nargs="+", required=True)
    parser.add_argument("--episodes", type=whole(1), required=True)
    options = parser.parse_args(arguments)
    evaluate(options.runs, options.laws, options.episodes)


if __name__ == "__main__":
    main(sys.argv[1:])
