"""Evaluates runs of one agent under several delay laws, in a separate process.

    python -m delayzero.evaluation.compare.by_delay RUN... --laws LAW... --episodes N

The runs may differ only in their seed, so that each law is compiled once for all of them. The
scores go to ``by_delay.json`` in each run's folder. Scores already there are not played again.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from delayzero.arguments import Parser, UsageError, whole
from delayzero.campaigns.engine import USAGE
from delayzero.campaigns.run import Run
from delayzero.evaluation.episodes import Evaluator
from delayzero.evaluation.stored import SCORES
from delayzero.files import read_json, write_json
from delayzero.forms import values_of
from delayzero.runs.paths import RunPaths
from delayzero.runs.weights import load_weights

MODULE = "delayzero.evaluation.compare.by_delay"
Scores = dict[str, list[float]]
"""The score of each episode, by the text of the delay law."""


def words_for(runs: Sequence[Run], laws: Sequence[str], episodes: int) -> tuple[str, ...]:
    """The words after ``python -m`` that evaluate runs of one agent."""
    folders = [str(run.folder.path) for run in runs]
    return (MODULE, *folders, "--laws", *laws, "--episodes", str(episodes))


def read_scores(path: Path, episodes: int) -> Scores:
    """Read the scores under each law that was evaluated with this number of episodes.

    Returns:
        No scores if the file does not exist.

    Raises:
        UsageError: The file is damaged.
    """
    if not path.exists():
        return {}
    remedy = "delete it, and type the same command to evaluate again"
    stored: Scores = read_json(path, remedy, values_of(SCORES))
    return {law: scores for law, scores in stored.items() if len(scores) == episodes}


def evaluate(runs: Sequence[Path], laws: Sequence[str], episodes: int) -> None:
    """Play the episodes whose scores are missing, and store the scores after each run and law."""
    files = {run: RunPaths(run).by_delay for run in runs}
    loaded = {run: load_weights(run, trust=True) for run in runs}
    for law in laws:
        missing = [run for run in runs if law not in read_scores(files[run], episodes)]
        if not missing:
            continue
        system = loaded[missing[0]][0]
        limit = system.config.final_max_steps
        evaluator = Evaluator(system, episodes, max_steps=limit, delay=law)
        for run in missing:
            system, variables = loaded[run]
            played = evaluator.play(variables, system.config.seed)
            scores = [episode.score for episode in played]
            write_json(files[run], {**read_scores(files[run], episodes), law: scores})
        evaluator.close()


def main(arguments: Sequence[str]) -> None:
    """Evaluate runs under delay laws."""
    parser = Parser(prog=f"python -m {MODULE}")
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--laws", nargs="+", required=True)
    parser.add_argument("--episodes", type=whole(1), required=True)
    options = parser.parse_args(arguments)
    evaluate(options.runs, options.laws, options.episodes)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UsageError as error:
        print(error, file=sys.stderr)
        sys.exit(USAGE)
