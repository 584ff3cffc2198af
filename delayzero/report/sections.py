"""The sections of a report that show results: scores, curves, the paper's tables, foresight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from delayzero.evaluation.over_seeds import shown
from delayzero.evaluation.paper.tables import KINDS
from delayzero.report.against_paper import AGENTS, Cell, normalised, our_cells, paper_table
from delayzero.report.charts import Chart
from delayzero.report.drawings import (
    MEASURES,
    bar_charts,
    by_longest_charts,
    foreseen,
    foresight_chart,
    health_charts,
    learning_chart,
    other_laws_chart,
)
from delayzero.report.gather import Gathered
from delayzero.report.groups import Group, cells, final_score
from delayzero.report.laws import drawn_laws
from delayzero.report.markup import Html, details, joined, table, tag

KIND_TITLES = {"walk": "Stochastic delay (walk:M)", "constant": "Constant delay (constant:M)"}
HORIZONS = (1, 2, 5, 10, 15, 20, 25, 35, 45)
"""Steps ahead in the table of predictions."""
SIGNS = {"above": "▲", "below": "▼", "": ""}


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
        interval = "-" if score.interval is None else "{} to {}".format(*map(shown, score.interval))
        seeds = tag("span", "1, no interval", class_="single") if score.seeds == 1 else score.seeds
        cells_ = (*group.cell, group.label, seeds, str(score), shown(score.iqm), interval)
        rows.append(cells_)
    if not rows:
        return None
    note = (
        "score: mean over seeds of the final evaluation, ± the standard deviation over seeds (in "
        "brackets: one seed, over its episodes). IQM: the mean of the middle half of all scores, "
        "with its 95 % bootstrap interval; with few seeds it is too narrow."
    )
    columns = ("environment", "delay", "agent", "seeds", "score", "IQM", "95 % interval")
    numbers = (4, 5, 6)
    scored = table("Final scores", columns, rows, numeric=numbers)
    return section("scores", "Final scores", tag("p", note, class_="note"), scored)


def learning(groups: Sequence[Group], canvas: Canvas, most: int) -> Section | None:
    """Learning curves by environment and law."""
    charts = [learning_chart(cell, same, most) for cell, same in cells(groups).items()]
    drawn = [chart for chart in charts if chart is not None]
    if not drawn:
        return None
    note = (
        "Thick lines: mean over seeds; bands: its 95 % bootstrap interval over seeds (none for one "
        "seed); thin lines: single seeds. Dashed: the paper's final scores and random play. "
        "Self-play explores, evaluations do not."
    )
    views = list(dict.fromkeys(view.name for chart in drawn for view in chart.views))
    return section(
        "learning",
        "Learning curves",
        tag("p", note, class_="note"),
        controls("learning", views, seeds=True),
        canvas.figures(drawn),
        details("Means as a table", _curve_table(drawn)),
    )


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


def paper(groups: Sequence[Group], canvas: Canvas) -> Section | None:
    """The paper's tables with ours beside them, bars, and human-normalised scores."""
    ours = our_cells(groups)
    in_tables = [cell for cell in ours if cell.paper is not None]
    if not in_tables:
        return None
    parts: list[object] = [
        tag(
            "p",
            "paper: mean ± standard deviation, from its two tables. ours: mean ± standard "
            "deviation of the seeds (in brackets: one seed, over its episodes), with the number of "
            "seeds. ▲ and ▼: our mean is above or below the paper's. The paper has one oblivious "
            "agent; it stands beside both of ours. Lines in bars: one standard deviation; "
            "ours has none for one seed.",
            class_="note",
        )
    ]
    for kind in KINDS:
        same = [cell for cell in in_tables if cell.kind == kind]
        if same:
            parts += _paper_part(same, kind, canvas)
    parts.append(_normalised_table(in_tables))
    return section("paper", "Beside the paper", *parts)


def _paper_part(ours: Sequence[Cell], kind: str, canvas: Canvas) -> list[Html]:
    """The table and the bars of a kind of law."""
    played = {cell.agent for cell in ours}
    agents = [a for a in AGENTS if a in played or a != "oblivious-executed"]
    rows = paper_table(ours, kind, agents)
    with_ours = [row for row in rows if any(cell.ours for cell in row)]
    others = [row for row in rows if not any(cell.ours for cell in row)]
    columns = [
        *("game", "M"),
        *(heading for agent in agents for heading in (f"{agent}: paper", "ours")),
    ]
    title = KIND_TITLES[kind]
    count = sum(cell.verdict == "above" for cell in ours)
    summary = f"{count} of {len(ours)} cells are above the paper's mean."
    parts = [
        tag("h3", title),
        tag("p", summary),
        table(title, columns, map(_paper_row, with_ours), class_="paper"),
        controls(f"paper-{kind}"),
        canvas.figures(bar_charts(ours, kind)),
    ]
    if others:
        rest = table(f"{title}: not played yet", columns, map(_paper_row, others), class_="paper")
        parts.insert(3, details(f"The {len(others)} rows without ours", rest))
    return [tag("div", *parts, class_="part")]


def _paper_row(row: Sequence[Cell]) -> list[object]:
    cells_: list[object] = [row[0].game, row[0].largest]
    for cell in row:
        score = cell.paper
        cells_.append("" if score is None else f"{shown(score.mean)} ± {shown(score.std)}")
        if cell.ours is None:
            cells_.append(tag("td", "-", class_="missing"))
            continue
        seeds = f", {cell.ours.seeds} seed{'s' * (cell.ours.seeds > 1)}"
        sign = tag("span", SIGNS[cell.verdict], title=f"{cell.verdict} the paper's mean")
        cells_.append(tag("td", sign, f" {cell.ours}", tag("small", seeds), class_=cell.verdict))
    return cells_


def _normalised_table(ours: Sequence[Cell]) -> Html:
    rows = [
        (
            *(row.kind, row.largest, row.agent, len(row.games)),
            *(_share(row.mean), _share(row.paper_mean), _share(row.iqm), _share(row.paper_iqm)),
        )
        for row in normalised(ours)
    ]
    note = (
        "0 is random play, 1 a human. Both columns of a pair are over the same games, those that "
        "we have played. Mean: over games. IQM: ours over games and seeds, the paper's over its "
        "games' means."
    )
    columns = ("law", "M", "agent", "games", "mean: ours", "paper", "IQM: ours", "paper")
    scored = table("Human-normalised scores by M", columns, rows, numeric=range(3, 8))
    return tag("div", tag("h3", "Human-normalised"), tag("p", note, class_="note"), scored)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def by_longest(groups: Sequence[Group], canvas: Canvas) -> Section | None:
    """Scores by the largest delay, and under laws other than that of training."""
    charts = by_longest_charts(groups)
    others = [other_laws_chart(cell, same) for cell, same in cells(groups).items()]
    tested = [chart for chart in others if chart is not None]
    if not charts and not tested:
        return None
    parts: list[Html] = [controls("delay")]
    if charts:
        note = "Agents trained under each delay; bands: one standard deviation over seeds."
        parts += [tag("h3", "By the largest delay of training"), tag("p", note, class_="note")]
        parts += [canvas.figures(charts), _chart_table(charts, "Score by the largest delay")]
    if tested:
        note = "The same weights under other laws: IQM, with its 95 % interval over seeds."
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
    charts = [foresight_chart(cell, same) for cell, same in cells(groups).items()]
    drawn = [chart for chart in charts if chart is not None]
    if not drawn:
        return None
    note = (
        "Solid: the state that the model predicts through the pending actions, compared with the "
        "real one; bands: 95 % intervals over seeds. Dashed: the current state, not rolled "
        "forward. Same action: how often the policy's likeliest action agrees. Reward recall: the "
        "share of rewards of which the model predicts at least half."
    )
    views = [button for button in MEASURES.values() if any(_has(c, button) for c in drawn)]
    rows = []
    for group in groups:
        rolled = foreseen(group.runs, "policy_agreement")
        if rolled is not None:
            at = dict(zip(rolled.x, rolled.mean, strict=True))
            values = [at.get(float(h)) for h in HORIZONS]
            rows.append(
                (*group.cell, group.label, *("-" if v is None else f"{v:.2f}" for v in values))
            )
    columns = ("environment", "delay", "agent", *(f"{h}" for h in HORIZONS))
    title = "Same action at predicted and real state, by steps ahead"
    return section(
        "foresight",
        "Foresight by horizon",
        tag("p", note, class_="note"),
        controls("foresight", views),
        canvas.figures(drawn),
        table(title, columns, rows, numeric=range(3, 3 + len(HORIZONS))),
    )


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
    columns = ("law", "rule", "mean", "median", "p95", "dropped", "age of what runs")
    note = (
        "Simulated in the steady state. Delays are in steps. dropped: the share of decisions that "
        "never run. age of what runs: the mean age of the decision that is executed."
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
        else tag("p", "No run warned of anything.")
    ]
    if len(blocks) > 1:
        options = [tag("option", name, value=i) for i, name in enumerate(names)]
        chooser = tag("select", *options, id="health-cell", data_blocks=True)
        label = tag("label", "Environment and delay ", chooser)
        parts.append(tag("div", label, class_="controls needs-js"))
    note = "A line for each run; dashed: where an alarm is raised. docs/health.md explains them."
    parts += [tag("p", note, class_="note"), controls("health"), joined(blocks)]
    return section("health", "Health", *parts)


def _input(kind: str, name: str, value: str, *, checked: bool = False) -> Html:
    return tag("input", type=kind, name=name, value=value, checked=checked)
