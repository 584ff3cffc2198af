"""The sections of a report about the runs themselves: progress, settings, commands, videos."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import quote

from delayzero.evaluation.over_seeds import shown
from delayzero.progress import duration
from delayzero.report.gather import Gathered
from delayzero.report.groups import comparable, differing
from delayzero.report.markup import Html, details, joined, table, tag
from delayzero.report.runs import Run
from delayzero.report.sections import Section, section

FEW = 6
"""Names that a cell lists before the rest must be opened."""
Link = Callable[[Path], str]
"""Returns the address of a file."""


def relative_to(folder: Path) -> Link:
    """Addresses of files relative to a page's folder."""
    start = folder.resolve()

    def link(path: Path) -> str:
        # "./" keeps a name such as "javascript:x.mp4" from being taken for a scheme.
        return "./" + quote(os.path.relpath(path.resolve(), start))

    return link


def problems(gathered: Gathered) -> Section | None:
    """What could not be read."""
    if not gathered.problems:
        return None
    items = [tag("li", problem) for problem in gathered.problems]
    return section("problems", "Not shown", tag("ul", *items, class_="problems"))


def progress(gathered: Gathered, now: float | None = None) -> Section | None:
    """Runs that have not finished, and how campaigns stand."""
    now = time.time() if now is None else now
    parts: list[Html] = []
    for campaign in gathered.campaigns:
        parts += [tag("h3", campaign.path.name), tag("p", campaign.summary)]
        failed = [(run.name, run.attempts, run.reason) for run in campaign.runs if run.reason]
        if failed:
            parts.append(table("Failed attempts", ("run", "attempts", "reason"), failed))
        parts.append(tag("pre", campaign.command))
    rows = [_progress_row(run, now) for run in gathered.runs if not run.finished]
    if rows:
        columns = (
            "run",
            "trained",
            "interactions",
            "left",
            "last evaluation",
            "metrics",
            "warnings",
        )
        parts.append(table("Runs that have not finished", columns, rows))
    return section("progress", "Progress", *parts) if parts else None


def _progress_row(run: Run, now: float) -> tuple[object, ...]:
    share = run.share
    bar: object = "-"
    if share is not None:
        label = f"{100 * share:.0f} %"
        meter = tag("progress", label, value=round(share, 4), max=1, aria_label=f"trained {label}")
        bar = joined((meter, label), " ")
    evaluation = run.last_evaluation
    score = "-" if evaluation is None else f"{shown(evaluation[1])} at {shown(evaluation[0])}"
    age = "none" if run.modified is None else f"{duration(max(0.0, now - run.modified))} ago"
    warnings = ", ".join(warning.metric for warning in run.warnings if warning.lasts) or "-"
    left = "-" if run.left is None else f"about {duration(run.left)}"
    return run.name, bar, shown(run.interactions), left, score, age, warnings


def outcomes(gathered: Gathered) -> Section | None:
    """What comparisons found, in sentences."""
    parts = []
    for comparison in gathered.comparisons:
        sentences = [tag("li", line) for line in comparison.outcome if line]
        if sentences:
            parts += [tag("h3", comparison.path.parent.name), tag("ul", *sentences)]
        parts.append(tag("pre", comparison.command))
    return section("outcome", "Comparisons", *parts) if parts else None


def settings(runs: Sequence[Run]) -> Section | None:
    """Settings that are not the same in all runs, and which runs have which."""
    with_settings = [run for run in runs if run.config]
    if len(with_settings) < 2:
        return None
    values = {run.name: comparable(run.config) for run in with_settings}
    rows: list[Sequence[object]] = []
    for name in differing(list(values.values())):
        by_value: dict[str, list[str]] = {}
        for run, flat_settings in values.items():
            value = str(flat_settings.get(name, "-"))
            by_value.setdefault(value, []).append(run)
        rows += [(name, value, _names(same)) for value, same in by_value.items()]
    if not rows:
        body: Html = tag("p", "All runs have the same settings, apart from their seeds.")
    else:
        body = table("Settings that differ", ("setting", "value", "runs"), rows)
    note = (
        "Environment, agent, delay and seed are in the list of runs. -: the agent has no such "
        "setting."
    )
    return section("settings", "Settings that differ", tag("p", note, class_="note"), body)


def _names(names: Sequence[str]) -> Html:
    if len(names) <= FEW:
        return joined([", ".join(names)])
    return details(f"{len(names)} runs", ", ".join(names))


def runs_table(runs: Sequence[Run], link: Link) -> Section:
    """All runs, with a switch, their scores and their videos."""
    rows = [
        (
            joined((_switch(run), " ", run.name)),
            *(run.game, run.delay, run.agent, run.seed),
            "finished" if run.finished else "unfinished",
            shown(run.interactions),
            shown(sum(run.scores) / len(run.scores)) if run.scores else "-",
            joined(
                [tag("a", path.name, href=link(path)) for path in run.videos],
                ", ",
            ),
        )
        for run in runs
    ]
    columns = (
        *("run", "environment", "delay", "agent", "seed", "state", "interactions", "score"),
        "videos",
    )
    note = (
        "A run without its tick has no line of its own in the charts; means stay those of all runs."
    )
    return section(
        "runs",
        "Runs",
        tag("p", note, class_="note needs-js"),
        table("Runs", columns, rows, numeric=(4, 6, 7)),
    )


def _switch(run: Run) -> Html:
    return tag(
        "input",
        type="checkbox",
        checked=True,
        data_run=run.name,
        aria_label=f"show {run.name} in the charts",
        class_="needs-js",
    )


def commands(runs: Sequence[Run]) -> Section | None:
    """The exact commands of all starts, with commits and devices."""
    items = []
    for run in runs:
        for number, start in enumerate(run.starts):
            again = " (resumed)" if number else ""
            about = f"{run.name}{again}: {start.commit}, {start.device}"
            items.append(joined((tag("dt", about), tag("dd", tag("code", start.command)))))
    if not items:
        return None
    note = "* marks a commit with uncommitted changes."
    listed = tag("dl", *items, class_="commands")
    body = listed if len(items) <= 2 * FEW else details(f"All {len(items)} commands", listed)
    return section("commands", "Commands", tag("p", note, class_="note"), body)
