"""The section of a report with the paper's tables, and ours beside them."""

from __future__ import annotations

from collections.abc import Sequence

from delayzero.evaluation.over_seeds import shown
from delayzero.evaluation.paper.tables import KINDS
from delayzero.report.against_paper import (
    AGENTS,
    BUDGET,
    Cell,
    normalised,
    our_cells,
    paper_table,
)
from delayzero.report.drawings import bar_charts
from delayzero.report.groups import Group
from delayzero.report.markup import Html, details, table, tag
from delayzero.report.sections import Canvas, Section, controls, section

KIND_TITLES = {"walk": "Stochastic delay (walk:M)", "constant": "Constant delay (constant:M)"}
SIGNS = {"above": "▲", "below": "▼", "": ""}
STATISTICS, SIDES = ("mean", "IQM"), ("ours", "paper")
"""Of the table of human-normalised scores."""


def paper(groups: Sequence[Group], canvas: Canvas) -> Section | None:
    """The paper's tables with ours beside them, bars, and human-normalised scores."""
    ours = our_cells(groups)
    in_tables = [cell for cell in ours if cell.paper is not None]
    if not in_tables:
        return None
    parts: list[object] = [
        tag(
            "p",
            "The paper: Valensi et al., Tree Search-Based Policy Optimization under Stochastic "
            "Execution Delay, ICLR 2024. M: the largest delay, in steps. paper: mean score ± "
            "standard deviation, from its two tables. ours: mean score ± standard deviation over "
            "seeds (in brackets: of one seed's episodes), with the number of seeds, and that of "
            f"interactions if it is not the paper's {shown(BUDGET)}. ▲ and ▼: our mean is above or "
            "below the paper's. The paper has one oblivious agent; it stands beside both of ours. "
            "Lines in bars: one standard deviation; ours has none for one seed.",
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
    summary = f"Our mean is above the paper's in {count} of {len(ours)} scores."
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
        seeds += "" if cell.whole else f", {shown(cell.interactions)} interactions"
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
        "(score - random) / (human - random): 0 is random play, 1 a human. Both columns of a pair "
        "are over the same games, those that we have played. mean: over games. IQM: ours over "
        "games and seeds, the paper's over its games' means."
    )
    columns = ("law", "M", "agent", "games", *(f"{a}: {b}" for a in STATISTICS for b in SIDES))
    scored = table("Human-normalised scores by M", columns, rows, numeric=range(3, 8))
    return tag("div", tag("h3", "Human-normalised"), tag("p", note, class_="note"), scored)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
