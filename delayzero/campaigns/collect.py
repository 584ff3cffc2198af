"""The scores of a campaign's finished runs, collected over seeds. Imports no JAX."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from delayzero.campaigns.record import Record, Standing

COLUMNS = ("environment", "law", "agent", "seeds", "mean", "spread")


def scores_table(record: Record, runs: Sequence[Standing]) -> list[str]:
    """A line for each environment, law and agent with a finished run; none if there is none.

    The columns: how many seeds have finished and how many are planned, the mean over seeds of their
    scores, and the standard deviation of these.
    """
    groups: dict[tuple[str, str, str], list[float | None]] = {}
    for run in runs:
        entry = record["runs"][run.name]
        key = (entry["env"], entry["delay"] or "none", entry["agent"])
        score = run.score if run.state == "done" else None
        groups.setdefault(key, []).append(score)
    rows = [COLUMNS]
    for key, all_scores in groups.items():
        scores = [score for score in all_scores if score is not None]
        if scores:
            spread = f"{statistics.stdev(scores):.1f}" if len(scores) > 1 else "-"
            seeds = f"{len(scores)} of {len(all_scores)}"
            rows.append((*key, seeds, f"{statistics.mean(scores):.1f}", spread))
    widths = [max(len(row[i]) for row in rows) for i in range(len(COLUMNS))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return lines if len(rows) > 1 else []
