"""The page of results, generated from records."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

from delayzero.evaluation.paper.records import settings_of
from delayzero.evaluation.paper.tables import paper_score, reference

HEAD = """# Results compared with the paper

`delayzero results table {folder} --out {page}` generates this page from the records in
`{folder}`, one per run; nothing here is written by hand. A record holds the configuration, the
commit, the device, every score and the learning curve. Its command, run at its commit, repeats the
run up to rounding (docs/runs.md, Reproducibility). At a later commit the same command may mean
different settings.

The columns of the table:

- **score**: mean over the episodes of the final evaluation and over the seeds.
- **spread**: standard deviation of the seeds' mean scores; with one seed, in brackets, of the
  scores of its episodes.
- **paper**: the paper's mean and standard deviation for the same game, delay law and agent. Its
  `oblivious` is shown for `oblivious-executed` too. Its settings differ from those of our presets.
- **EfficientZero**: its published score, without delay, after 100 000 interactions.
- **random**, **human**: scores of random play and of people.
- **training (min)**: minutes of training, with compilation, without imports and evaluations; mean
  over seeds.
- **evaluation (s)**: seconds of the final evaluation, with measuring the model's predictions; mean
  over seeds.

![Scores by interactions, and how often the policies at predicted and real states agree]({picture})

*Left: scores by interactions. Dots are evaluations, thin lines self-play during training, dashed
lines the paper's final scores, the dotted line random play. Evaluations during training may cut
episodes off earlier than the final one: see `evaluate_max_steps` in the records. Right: how often
the policy's most likely action at the state that the model predicts is that at the real state;
dashed, the same for the state that is not rolled forward.*
"""
COMMANDS = """
The command of each run, with its commit; `*` marks a commit with uncommitted changes:
"""
COLUMNS = (
    *("game", "delay", "agent", "seeds", "interactions", "updates", "score", "spread", "paper"),
    *("EfficientZero", "random", "human", "training (min)", "evaluation (s)", "device"),
)


def results_page(records: Sequence[dict[str, Any]], folder: str, page: str, picture: str) -> str:
    """The page, in Markdown.

    Args:
        records: The records of the runs.
        folder: The folder of the records.
        page: The file of the page.
        picture: The file of the picture of the same records, relative to the page.
    """

    def all_but_seed(record: dict[str, Any]) -> tuple[str, ...]:
        named = ("game", "delay", "agent", "updates", "device")
        settings = json.dumps(settings_of(record), sort_keys=True)
        return (*(str(record[name]) for name in named), _interactions(record), settings)

    ordered = sorted(records, key=all_but_seed)
    rows = [_row(list(group)) for _, group in groupby(ordered, all_but_seed)]
    table = [_line(COLUMNS), _line("---" for _ in COLUMNS), *map(_line, rows)]
    commands = [f"    {record['command']}    # {_commits(record)}" for record in ordered]
    parts = (HEAD.format(folder=folder, page=page, picture=picture), *table, COMMANDS, *commands)
    return "\n".join(parts) + "\n"


def _row(records: Sequence[dict[str, Any]]) -> list[str]:
    """The cells of one row: the same run with one or several seeds."""
    first = records[0]
    means = [float(np.mean(record["scores"])) for record in records]
    episodes = [score for record in records for score in record["scores"]]
    several = len(means) > 1
    sample = means if several else episodes
    spread = f"{np.std(sample, ddof=1):.1f}" if len(sample) > 1 else "-"
    paper = paper_score(first["game"], first["delay"], first["agent"])
    others = reference(first["game"])
    known = (others.efficientzero, others.random, others.human) if others else (None,) * 3
    return [
        first["game"],
        first["delay"],
        first["agent"],
        ", ".join(str(record["seed"]) for record in records),
        _interactions(first),
        _number(first["updates"]),
        f"**{np.mean(means):.1f}**",
        spread if several else f"({spread})",
        "" if paper is None else f"{paper.mean:.1f} ± {paper.std:.1f}",
        *("" if score is None else f"{score:.1f}" for score in known),
        f"{np.mean([record['wall_seconds'] for record in records]) / 60:.1f}",
        f"{np.mean([record['evaluate_seconds']['final'] for record in records]):.0f}",
        first["device"],
    ]


def _commits(record: dict[str, Any]) -> str:
    """The commits of a run's starts; with their devices if the run changed device."""
    starts = record.get("starts", [record])
    moved = len({start["device"] for start in starts}) > 1
    commits = [
        _short(start["commit"]) + (f" ({start['device']})" if moved else "") for start in starts
    ]
    return ", then ".join(dict.fromkeys(commits))


def _short(commit: str | None) -> str:
    """The first digits of a commit, and its star if it has one."""
    if commit is None:
        return "commit unknown"
    return commit[:7] + ("*" if commit.endswith("*") else "")


def _interactions(record: dict[str, Any]) -> str:
    """Rounded down to thousands: the last step of all environments may exceed the setting."""
    count = record["interactions"]
    return _number(count // 1000 * 1000 if count >= 1000 else count)


def _number(value: int) -> str:
    return f"{value:,}".replace(",", " ")


def _line(cells: Any) -> str:
    return "| " + " | ".join(cells) + " |"
