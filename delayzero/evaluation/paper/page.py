"""The page of results, made of records."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

from delayzero.evaluation.paper.records import settings_of
from delayzero.evaluation.paper.tables import paper_score, reference

HEAD = """# Results beside the paper's

Made by `delayzero results table {folder} --out {page}` from the records in `{folder}`,
one for each run; nothing here is written by hand. A record has the configuration, the commit, the
device, every score and the learning curve. Its command at its commit repeats the run, on a GPU up
to rounding; at a later commit the same words may mean other settings.

*Score*: mean over the episodes of the final evaluation, of all seeds. *Spread*: the standard
deviation of the means of seeds, where there are several; of the episodes of a seed otherwise, in
brackets. *Paper*: its table's mean and standard deviation for the same game, law and agent (its
`oblivious` stands beside `oblivious-executed` too); its settings are not those of our presets.
*Minutes*: of training, with compiling and without imports and evaluations, mean over seeds.
*Evaluated*: the seconds of the final evaluation, with measuring what the model foresees.

![Scores by interactions, and how often foreseen and real states have one policy]({picture})

*Left: evaluations, thin the self-play of training; dashed the paper's final score. Episodes of
evaluations on the way may be cut off earlier than those at the end, see `evaluate_max_steps` in the
records. Right: how often the policy's likeliest action at the state that the model foresees is that
at the real one; dashed, at the state left as it was.*
"""
COMMANDS = """
The commands, each with its commit:
"""
COLUMNS = (
    *("game", "delay", "agent", "seeds", "interactions", "updates"),
    *("score", "spread", "paper", "random", "human", "minutes", "evaluated", "device"),
)


def results_page(records: Sequence[dict[str, Any]], folder: str, page: str, picture: str) -> str:
    """The page, in Markdown.

    Args:
        records: The runs.
        folder: Where their files are.
        page: The file that is written.
        picture: Of the same records, as seen from the page.
    """

    def cell(record: dict[str, Any]) -> tuple[str, ...]:
        kept = ("game", "delay", "agent", "updates", "device")
        settings = json.dumps(settings_of(record), sort_keys=True)
        return (*(str(record[name]) for name in kept), _interactions(record), settings)

    ordered = sorted(records, key=cell)
    rows = [_row(list(group)) for _, group in groupby(ordered, cell)]
    table = [_line(COLUMNS), _line("---" for _ in COLUMNS), *map(_line, rows)]
    commands = [f"    {record['command']}    # {_over_starts(record)}" for record in ordered]
    parts = (HEAD.format(folder=folder, page=page, picture=picture), *table, COMMANDS, *commands)
    return "\n".join(parts) + "\n"


def _row(records: Sequence[dict[str, Any]]) -> list[str]:
    """One line of the table: the same run with several seeds."""
    first = records[0]
    means = [float(np.mean(record["scores"])) for record in records]
    episodes = [score for record in records for score in record["scores"]]
    several = len(means) > 1
    spread = f"{np.std(means if several else episodes, ddof=1):.1f}"
    paper = paper_score(first["game"], first["delay"], first["agent"])
    known = reference(first["game"])
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
        "" if known is None else f"{known.random:.1f}",
        "" if known is None else f"{known.human:.1f}",
        f"{np.mean([record['wall_seconds'] for record in records]) / 60:.1f}",
        f"{np.mean([record['evaluate_seconds']['final'] for record in records]):.0f}",
        first["device"],
    ]


def _over_starts(record: dict[str, Any]) -> str:
    """The commits of a run, a star behind those of changed files; with devices if it moved."""
    starts = record.get("starts", [record])
    moved = len({start["device"] for start in starts}) > 1
    made_by = [
        _short(start["commit"]) + (f" ({start['device']})" if moved else "") for start in starts
    ]
    return ", then ".join(dict.fromkeys(made_by))


def _short(commit: str | None) -> str:
    if commit is None:
        return "commit unknown"
    return commit[:7] + ("*" if commit.endswith("*") else "")


def _interactions(record: dict[str, Any]) -> str:
    """Without the few more than were asked for: a run ends with a step of all environments."""
    count = record["interactions"]
    return _number(count // 1000 * 1000 if count >= 1000 else count)


def _number(value: int) -> str:
    return f"{value:,}".replace(",", " ")


def _line(cells: Any) -> str:
    return "| " + " | ".join(cells) + " |"
