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
from delayzero.settings import AGENTS

FEW = 6
"""Names that a cell lists before the rest must be opened."""
TERMS = {
    "delay": "how many steps pass from a decision until it runs",
    "pending actions": "what was decided and has not run yet",
    "interaction": "one step of one environment",
    "score": "the sum of rewards in an episode, not clipped and not discounted",
    "seed": "the number that a run's randomness begins with; runs that differ only in it are "
    "repetitions",
    "IQM": "interquartile mean: the mean of the middle half",
    "bootstrap interval": "the range of the figure over samples drawn again from what was "
    "measured; 95 % of them are inside",
}
LAWS = {
    "constant:M": "each action is M steps late",
    "walk:M": "the delay goes up or down by one step now and then, between 0 and M",
}
"""The laws of the paper."""
Link = Callable[[Path], str]
"""Returns the address of a file."""


def relative_to(folder: Path) -> Link:
    """Addresses of files relative to a page's folder."""
    start = folder.resolve()

    def link(path: Path) -> str:
        # "./" keeps a name such as "javascript:x.mp4" from being taken for a scheme.
        return "./" + quote(os.fsencode(os.path.relpath(path.resolve(), start)))

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
            "time left",
            "last evaluation",
            "last metrics",
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
    score = "-"
    if evaluation is not None:
        score = f"score {shown(evaluation[1])} at {shown(evaluation[0])} interactions"
    age = "none" if run.modified is None else f"{duration(max(0.0, now - run.modified))} ago"
    warnings = ", ".join(warning.metric for warning in run.warnings if warning.lasts) or "-"
    left = "-" if run.left is None else f"about {duration(run.left)}"
    return run.name, bar, shown(run.interactions), left, score, age, warnings


def outcomes(gathered: Gathered) -> Section | None:
    """What comparisons found, in sentences."""
    parts = []
    for comparison in gathered.comparisons:
        sentences = [tag("li", line) for line in comparison.outcome if line]
        parts += [tag("h3", comparison.place.name), tag("pre", comparison.command)]
        parts += [tag("ul", *sentences)] if sentences else []
    note = "Intervals: 95 % bootstrap intervals of the IQM of the final scores, explained below."
    about = tag("p", note, class_="note")
    return section("outcome", "Comparisons", about, *parts) if parts else None


def settings(runs: Sequence[Run]) -> Section | None:
    """Settings that are not the same in all runs, and which runs have which."""
    with_settings = [run for run in runs if run.config]
    if len(with_settings) < 2:
        return None
    by_game: dict[str, list[Run]] = {}
    for run in with_settings:
        by_game.setdefault(run.game, []).append(run)
    rows = [(game, *row) for game, same in by_game.items() for row in _differing(same)]
    columns = ("setting", "value", "runs")
    title = "Settings that differ between runs of an environment"
    body: list[Html] = [
        table(title, ("environment", *columns), rows)
        if rows
        else tag("p", "Runs of an environment have the same settings, apart from their seeds.")
    ]
    if len(by_game) > 1 and (rest := _differing(with_settings)):
        title = "Settings that differ between any two runs"
        body.append(details(title, table(title, columns, rest)))
    note = (
        "Environment, agent, delay and seed are in the list of runs. -: the agent has no such "
        "setting."
    )
    unknown = len(runs) - len(with_settings)
    note += f" Runs known from comparisons alone, without settings: {unknown}." * bool(unknown)
    return section("settings", "Settings that differ", tag("p", note, class_="note"), *body)


def _differing(runs: Sequence[Run]) -> list[tuple[object, ...]]:
    """For each setting that differs and each of its values: both, and the runs that have it."""
    values = {run.name: comparable(run.config) for run in runs}
    rows: list[tuple[object, ...]] = []
    for name in differing(list(values.values())):
        by_value: dict[str, list[str]] = {}
        for run, flat_settings in values.items():
            value = str(flat_settings.get(name, "-"))
            by_value.setdefault(value, []).append(run)
        rows += [(name, value, _names(same)) for value, same in by_value.items()]
    return rows


def _names(names: Sequence[str]) -> Html:
    if len(names) <= FEW:
        return joined([", ".join(names)])
    return details(f"{len(names)} runs", ", ".join(names))


def runs_table(runs: Sequence[Run], link: Link) -> Section:
    """All runs, with a switch, their scores and their videos."""
    columns = ["run", "environment", "delay", "agent", "seed", "state", "interactions", "score"]
    rows: list[list[object]] = [
        [
            joined((_switch(run), " ", run.name)),
            *(run.game, run.delay, run.agent, run.seed),
            "finished" if run.finished else "unfinished",
            shown(run.interactions),
            shown(sum(run.scores) / len(run.scores)) if run.scores else "-",
        ]
        for run in runs
    ]
    if any(run.videos for run in runs):
        columns.append("videos")
        for row, run in zip(rows, runs, strict=True):
            row.append(joined([tag("a", p.name, href=link(p)) for p in run.videos], ", "))
    note = (
        "A run without its tick has no line of its own in the charts; means stay those of all runs."
    )
    return section(
        "runs",
        "Runs",
        tag("p", note, class_="note needs-js"),
        table("Runs", columns, rows, numeric=(4, 6, 7)),
    )


def terms(runs: Sequence[Run]) -> Section:
    """The words of the page: agents, laws and figures."""
    agents = {run.agent: AGENTS[run.agent].about for run in runs if run.agent in AGENTS}
    kinds = {run.delay.partition(":")[0] for run in runs}
    laws = {name: about for name, about in LAWS.items() if name.partition(":")[0] in kinds}
    words = {**TERMS, **laws, **{f"{name} (agent)": about for name, about in agents.items()}}
    items = [joined((tag("dt", word), tag("dd", about))) for word, about in words.items()]
    return section("terms", "Terms", tag("dl", *items, class_="terms"))


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
