"""The sections of a report that show results: scores, curves, foresight, delays, health."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from delayzero.evaluation.over_seeds import shown
from delayzero.report.charts import Chart
from delayzero.report.drawings import (
    EVALUATIONS,
    MEASURES,
    SELF_PLAY,
    by_longest_charts,
    foreseen,
    foresight_chart,
    health_charts,
    learning_chart,
    other_laws_chart,
)
from delayzero.report.gather import Gathered
from delayzero.report.groups import Group, cells, final_score
from delayzero.report.laws import STREAMS, drawn_laws
from delayzero.report.markup import Html, details, joined, table, tag

HORIZONS = (1, 2, 5, 10, 15, 20, 25, 35, 45)
"""Steps ahead in the table of predictions."""


class Canvas:
    """Collects the charts of a page.

    Attributes:
        charts: Their data, for ``report.js``.
    """

    def __init__(self) -> None:
        self.charts: list[dict[str, Any]] = []

    def figure(self, chart: Chart) -> Html:
        """Add a chart; return where it is drawn."""
        self.charts.append(chart.to_json())
        label = f"{chart.description} Arrow keys read its values."
        plot = tag("div", class_="plot", tabindex="0", role="group", aria_label=label)
        return tag(
            "figure",
            tag("figcaption", chart.title),
            plot,
            class_="chart",
            data_chart=len(self.charts) - 1,
        )

    def figures(self, charts: Sequence[Chart]) -> Html:
        """Add charts, side by side where there is room."""
        return tag("div", *map(self.figure, charts), class_="charts")


@dataclass(frozen=True)
class Section:
    """A section of the page, to which links can lead."""

    name: str
    title: str
    html: Html


def section(name: str, title: str, *children: object) -> Section:
    """A section with a heading."""
    heading = tag("h2", title, id=f"{name}-title")
    whole = tag("section", heading, *children, id=name, aria_labelledby=f"{name}-title")
    return Section(name, title, whole)


def controls(name: str, views: Sequence[str] = (), *, seeds: bool = False) -> Html:
    """Switches for all charts of a section."""
    parts: list[Html] = []
    if len(views) > 1:
        buttons = [
            tag("label", _input("radio", f"{name}-view", view, checked=not i), " ", view)
            for i, view in enumerate(views)
        ]
        parts.append(tag("span", *buttons, class_="choice", role="radiogroup", aria_label="show"))
    if seeds:
        box = _input("checkbox", f"{name}-seeds", "seeds", checked=True)
        parts.append(tag("label", box, " single seeds"))
    log = _input("checkbox", f"{name}-log", "log")
    parts.append(tag("label", log, " logarithmic"))
    return tag("div", *parts, class_="controls needs-js")


def scores(groups: Sequence[Group]) -> Section | None:
    """Final scores over seeds."""
    rows = []
    for group in groups:
        score = final_score(group)
        if score is None:
            continue
        one = tag("span", "one seed", class_="single")
        interval = "{} to {}".format(*map(shown, score.interval)) if score.interval else one
        rows.append((*group.cell, group.label, str(score), score.seeds, shown(score.iqm), interval))
    if not rows:
        return None
    note = (
        "A score is the sum of rewards in an episode: in Atari, the game's points. score: mean "
        "over seeds of the final evaluation, ± the standard deviation over seeds (in brackets: of "
        "one seed's episodes). IQM: interquartile mean, the mean of the middle half of the scores "
        "of all episodes of all seeds, with its 95 % bootstrap interval over seeds and episodes. "
        "The interval is too narrow with fewer than ten seeds."
    )
    columns = ("environment", "delay", "agent", "score", "seeds", "IQM", "95 % interval of IQM")
    numbers = (3, 4, 5, 6)
    scored = table("Final scores", columns, rows, numeric=numbers)
    return section("scores", "Final scores", tag("p", note, class_="note"), scored)


def by_cell(
    groups: Sequence[Group], draw: Callable[[tuple[str, str], Sequence[Group]], Chart | None]
) -> list[Chart]:
    """The charts of all environments and laws that have one."""
    charts = (draw(cell, same) for cell, same in cells(groups).items())
    return [chart for chart in charts if chart is not None]


def learning(groups: Sequence[Group], canvas: Canvas, most: int) -> Section | None:
    """Learning curves by environment and law."""
    drawn = by_cell(groups, lambda cell, same: learning_chart(cell, same, most))
    if not drawn:
        return None
    note = (
        "Mean score of an episode by interactions (steps of environments). Thick lines: mean over "
        "seeds, between whose evaluations values are interpolated; bands: its 95 % bootstrap "
        "interval over seeds (none for one seed); thin lines: single seeds. Dashed: the "
        "published final scores and random play. Evaluations are episodes without exploration "
        "noise; self-play is what the agent learns from, with its noise."
    )
    return section(
        "learning",
        "Learning curves",
        tag("p", note, class_="note"),
        controls("learning", _learning_views(drawn), seeds=True),
        canvas.figures(drawn),
        details("Means as a table", _curve_table(drawn)),
    )


def _learning_views(charts: Sequence[Chart]) -> list[str]:
    """What the charts can show; evaluations first, unless there are only final ones: points."""
    views = [view for chart in charts for view in chart.views]
    lines = [line.y for view in views if view.name == EVALUATIONS for line in view.series]
    curves = any(sum(y is not None for y in line) > 1 for line in lines)
    order = (EVALUATIONS, SELF_PLAY) if curves else (SELF_PLAY, EVALUATIONS)
    return [name for name in order if any(view.name == name for view in views)]


def _curve_table(charts: Sequence[Chart]) -> Html:
    """The first, the last, and six evaluations between them, of each group's mean."""
    rows = []
    for chart in charts:
        for line in chart.views[0].series:
            if line.style != "line":
                continue
            there = [(x, y) for x, y in zip(line.x, line.y, strict=True) if y is not None]
            chosen = there[:: max(1, len(there) // 7)]
            values = ", ".join(f"{shown(x or 0)}: {shown(y)}" for x, y in chosen)
            rows.append((chart.title, line.label, values))
    columns = ("environment and delay", "agent", "interactions: score")
    return table("Learning curves: means over seeds", columns, rows)


def by_longest(groups: Sequence[Group], canvas: Canvas) -> Section | None:
    """Scores by the largest delay, and under laws other than that of training."""
    charts = by_longest_charts(groups)
    tested = by_cell(groups, other_laws_chart)
    if not charts and not tested:
        return None
    parts: list[Html] = [controls("delay")]
    if charts:
        note = (
            "Agents trained under each delay: mean score of the final evaluation; bands: one "
            "standard deviation over seeds (none for one seed). Dashed: the paper's means."
        )
        parts += [tag("h3", "By the largest delay of training"), tag("p", note, class_="note")]
        parts += [canvas.figures(charts), _chart_table(charts, "Score by the largest delay")]
    if tested:
        note = (
            "The same weights, evaluated under other delays than those of training: IQM of the "
            "scores; bands: its 95 % bootstrap interval over seeds and episodes (none for one "
            "seed)."
        )
        parts += [tag("h3", "By the delay of evaluation"), tag("p", note, class_="note")]
        parts += [canvas.figures(tested), _chart_table(tested, "IQM by the delay of evaluation")]
    return section("delay", "Score by delay", *parts)


def _chart_table(charts: Sequence[Chart], caption: str) -> Html:
    """The values of charts with few points."""
    rows = []
    for chart in charts:
        for line in chart.views[0].series:
            values = [
                f"{chart.ticks.get(x or 0, shown(x or 0))}: {shown(y)}"
                for x, y in zip(line.x, line.y, strict=True)
                if y is not None
            ]
            rows.append((chart.title, line.label, ", ".join(values)))
    return details("As a table", table(caption, ("chart", "agent", "delay: score"), rows))


def foresight(groups: Sequence[Group], canvas: Canvas) -> Section | None:
    """How well models predict, by steps ahead."""
    drawn = by_cell(groups, foresight_chart)
    if not drawn:
        return None
    note = (
        "How well the model predicts the state that a decision will meet, by the number of steps "
        "until then. Solid: the state that it predicts by rolling the current one through the "
        "pending actions, compared with the one that really came; bands: 95 % intervals over "
        "seeds. Dashed: the current state instead, not rolled. Same action: the share of states "
        "at which the policy's likeliest action is the same (1 is perfect). Worth of action: the "
        "probability, at the state that came, of the likeliest action at the predicted one, "
        "relative to the best action's (1 is perfect). Value error: mean absolute difference of "
        "values (0 is perfect). Similarity: cosine of the projected states (1 is perfect). Reward "
        "recall: the share of rewards of which the model predicts at least half."
    )
    views = [button for button in MEASURES.values() if any(_has(c, button) for c in drawn)]
    return section(
        "foresight",
        "Foresight by horizon",
        tag("p", note, class_="note"),
        controls("foresight", views),
        canvas.figures(drawn),
        _foresight_table(groups),
    )


def _foresight_table(groups: Sequence[Group]) -> Html:
    """The share of states with the same action, at the horizons that there are."""
    found = [(group, foreseen(group.runs, "policy_agreement")) for group in groups]
    shares = [(g, dict(zip(band.x, band.mean, strict=True))) for g, band in found if band]
    there = [h for h in HORIZONS if any(at.get(h) is not None for _, at in shares)]
    rows = [
        (
            *group.cell,
            group.label,
            *("-" if (v := at.get(h)) is None else f"{v:.2f}" for h in there),
        )
        for group, at in shares
    ]
    columns = ("environment", "delay", "agent", *map(str, there))
    title = "Share of states with the same action, by steps ahead"
    return table(title, columns, rows, numeric=range(3, 3 + len(there)))


def _has(chart: Chart, name: str) -> bool:
    return any(view.name == name for view in chart.views)


def laws(gathered: Gathered, canvas: Canvas) -> Section | None:
    """The delay laws of the runs."""
    drawn = drawn_laws(gathered.runs)
    if not drawn:
        return None
    rows: list[tuple[object, ...]] = []
    for one in drawn:
        values = one.statistics
        if values is None:
            rows.append((one.law, one.rule, f"not drawn: {one.problem}", "", "", "", ""))
            continue
        figures = (f"{values.mean:.2f}", values.p50, values.p95, f"{values.drop_rate:.0%}")
        rows.append((one.law, one.rule, *figures, f"{values.effective_lag:.2f}"))
    columns = (
        *("law", "rule", "mean delay", "median", "95th percentile", "decisions dropped"),
        "age of what runs",
    )
    note = (
        f"Simulated in the steady state, {STREAMS} streams; all delays are in steps. rule: which "
        "of the decisions that have arrived runs (docs/delays.md). decisions dropped: the share "
        "that never runs. age of what runs: how many steps ago the action that runs now was "
        "decided, on average."
    )
    return section(
        "laws",
        "Delays",
        tag("p", note, class_="note"),
        canvas.figures([chart for one in drawn for chart in one.charts]),
        table("Delay laws", columns, rows, numeric=range(2, 7)),
    )


def health(groups: Sequence[Group], canvas: Canvas, most: int) -> Section | None:
    """Health metrics of the learners, and what the runs warned of."""
    blocks: list[Html] = []
    names = []
    for cell, same in cells(groups).items():
        charts = health_charts(cell, same, most)
        if charts:
            names.append(" · ".join(cell))
            block = tag("div", canvas.figures(charts), data_block=len(blocks), hidden=bool(blocks))
            blocks.append(block)
    warned = [(run, warning) for g in groups for run in g.runs for warning in run.warnings]
    if not blocks and not warned:
        return None
    rows = [
        (
            *(run.name, warning.metric, warning.text.partition(": ")[2]),
            f"{shown(warning.first)} to {shown(warning.last)}" + " (still)" * warning.lasts,
        )
        for run, warning in warned
    ]
    parts: list[Html] = [
        table("Warnings", ("run", "metric", "warning", "interactions"), rows, class_="warnings")
        if rows
        else tag("p", _no_warning(groups))
    ]
    if len(blocks) > 1:
        options = [tag("option", name, value=i) for i, name in enumerate(names)]
        chooser = tag("select", *options, id="health-cell", data_blocks=True)
        label = tag("label", "Environment and delay ", chooser)
        parts.append(tag("div", label, class_="controls needs-js"))
    note = (
        "Metrics of the learner by interactions, a line for each run; dashed: a run warns where a "
        "metric stays beyond it. docs/health.md says what each means."
    )
    parts += [tag("p", note, class_="note"), controls("health"), joined(blocks)]
    return section("health", "Health", *parts)


def _no_warning(groups: Sequence[Group]) -> str:
    """How many runs there are whose metrics have no warning."""
    known = [bool(run.health) for group in groups for run in group.runs]
    others = "" if all(known) else f" Runs without metrics: {known.count(False)}."
    return f"No warning in the metrics of {known.count(True)} of {len(known)} runs.{others}"


def _input(kind: str, name: str, value: str, *, checked: bool = False) -> Html:
    return tag("input", type=kind, name=name, value=value, checked=checked)
