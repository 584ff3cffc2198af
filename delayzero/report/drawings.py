"""The charts of a report, from groups of runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from delayzero.evaluation.over_seeds import (
    Band,
    Points,
    Score,
    band,
    band_of,
    numbers,
    score_of,
    shown,
)
from delayzero.evaluation.paper.tables import (
    KINDS,
    efficientzero_score,
    longest,
    paper_score,
    reference,
)
from delayzero.report.against_paper import AGENTS, DELAYS, Cell
from delayzero.report.charts import Chart, Numbers, Series, Style, View, colour_of, grouped_bars
from delayzero.report.groups import Group, best_groups, final_score
from delayzero.report.reading import ENTROPY, HEALTH
from delayzero.report.runs import Run
from delayzero.training.alarms import SYMPTOMS

EVALUATIONS, SELF_PLAY = "evaluations", "self-play"
"""What learning curves can show."""
MEASURES = {
    "policy_agreement": "same action",
    "action_worth": "worth of action",
    "value_error": "value error",
    "similarity": "similarity",
    "reward_recall": "reward recall",
}
"""Measures of prediction quality, and what their buttons say."""
Y_LABELS = {
    "policy_agreement": "share, same action",
    "action_worth": "probability relative to the best",
    "reward_recall": "share of rewards",
}
"""What the axes of some say."""


def learning_chart(cell: tuple[str, str], groups: Sequence[Group], most: int) -> Chart | None:
    """Scores by interactions: mean and interval over seeds, and each seed; None without any."""
    game, law = cell
    views = []
    for name, curves_of in ((EVALUATIONS, _evaluations), (SELF_PLAY, _selfplay)):
        bands = [(group, band([curves_of(run) for run in group.runs], most)) for group in groups]
        there = [(group, curve) for group, curve in bands if curve is not None]
        if there:
            marks = _published_marks(game, law, groups)
            views.append(View(name, _over_seeds(there), "score", marks))
    if not views:
        return None
    ends = [f"{g.label} {shown(s.mean)}" for g in groups if (s := final_score(g))]
    text = f"Score by interactions in {game} under {law}. "
    text += f"Final scores: {', '.join(ends)}." if ends else "No run has finished."
    return Chart(f"{game} · {law}", text, views, "interactions")


def bar_charts(ours: Sequence[Cell], kind: str) -> list[Chart]:
    """For each of our games, a bar for each delay and agent, beside the paper's."""
    charts = []
    for game in dict.fromkeys(cell.game for cell in ours if cell.kind == kind):
        same = {(c.largest, c.agent): c for c in ours if (c.kind, c.game) == (kind, game)}
        agents = [agent for agent in AGENTS if any(a == agent for _, a in same)]
        delays = [m for m in DELAYS if any(largest == m for largest, _ in same)]
        if not delays:
            continue
        bars: list[tuple[str, str, Style, Numbers, Numbers, Numbers]] = []
        for agent in agents:
            scores = [same[m, agent].ours if (m, agent) in same else None for m in delays]
            bars.append((agent, agent, "bar", *_with_spread(scores)))
            paper = [paper_score(game, f"{kind}:{m}", agent) for m in delays]
            mean: Numbers = [None if p is None else p.mean for p in paper]
            low: Numbers = [None if p is None else p.mean - p.std for p in paper]
            high: Numbers = [None if p is None else p.mean + p.std for p in paper]
            bars.append((f"{agent}, paper", agent, "pale", mean, low, high))
        series, ticks = grouped_bars([f"M = {m}" for m in delays], bars)
        text = (
            f"Final scores in {game} under {kind} delays, ours beside the paper's; as in the table."
        )
        charts.append(Chart(game, text, [View("", series)], "largest delay", ticks))
    return charts


def by_longest_charts(groups: Sequence[Group]) -> list[Chart]:
    """Final score by the largest delay M of training, where there are several."""
    best = best_groups(groups)
    charts = []
    for kind in KINDS:
        laws = {key: g for key, g in best.items() if key[1].partition(":")[0] == kind}
        for game in dict.fromkeys(game for game, _, _ in laws):
            same = {(longest(law), agent): g for (g_, law, agent), g in laws.items() if g_ == game}
            found = {key: group for key, group in same.items() if key[0] is not None}
            delays = sorted({m for m, _ in found if m is not None})
            if len(delays) < 2:
                continue
            all_delays = sorted({*delays, *(DELAYS if reference(game) else ())})
            x = [float(m) for m in all_delays]
            series = []
            for agent in dict.fromkeys(agent for _, agent in found):
                scores = [
                    final_score(found[m, agent]) if (m, agent) in found else None
                    for m in all_delays
                ]
                mean, low, high = _with_spread(scores)
                series.append(Series(agent, agent, x, mean, low, high))
                paper = [paper_score(game, f"{kind}:{m}", agent) for m in all_delays]
                if any(paper):
                    means = [None if p is None else p.mean for p in paper]
                    series.append(Series(f"{agent}, paper", agent, x, means, style="dash"))
            text = f"Final score by the largest delay in {game} under {kind} laws."
            view = View("", series)
            charts.append(Chart(f"{game} · {kind}:M", text, [view], "largest delay M"))
    return charts


def other_laws_chart(cell: tuple[str, str], groups: Sequence[Group]) -> Chart | None:
    """Scores of the same weights under other laws; None if there are none."""
    tested = [group for group in groups if any(run.by_delay for run in group.runs)]
    laws = list(dict.fromkeys(law for g in tested for run in g.runs for law in run.by_delay))
    if not laws:
        return None
    constant = all(law.startswith("constant:") for law in laws)
    ticks = {
        float(i): law.removeprefix("constant:") if constant else law for i, law in enumerate(laws)
    }
    series = []
    for group in tested:
        by_law = [[r.by_delay[law] for r in group.runs if law in r.by_delay] for law in laws]
        scores = [score_of(by_seed) if by_seed else None for by_seed in by_law]
        mean: Numbers = [None if s is None else s.iqm for s in scores]
        low: Numbers = [s.interval[0] if s and s.interval else None for s in scores]
        high: Numbers = [s.interval[1] if s and s.interval else None for s in scores]
        series.append(Series(group.label, colour_of(group), list(ticks), mean, low, high))
    game, law = cell
    text = f"IQM of agents trained in {game} under {law}, evaluated under other laws."
    view = View("", series, "IQM of scores")
    below = "constant delay in evaluation, in steps" if constant else "law in evaluation"
    return Chart(f"{game} · trained under {law}", text, [view], below, ticks)


def foresight_chart(cell: tuple[str, str], groups: Sequence[Group]) -> Chart | None:
    """Quality of the model's predictions by horizon, and of states that are not rolled."""
    views = []
    for measure, button in MEASURES.items():
        series: list[Series] = []
        for group in groups:
            colour, rolled = colour_of(group), foreseen(group.runs, measure)
            if rolled is not None:
                series.append(_of_band(group.label, colour, rolled))
            stale = foreseen(group.runs, f"stale_{measure}")
            if stale is not None:
                label = f"{group.label}, not rolled"
                series.append(Series(label, colour, stale.x, stale.mean, style="dash"))
        if series:
            views.append(View(button, series, Y_LABELS.get(measure, button)))
    if not views:
        return None
    game, law = cell
    text = f"How well the model predicts in {game} under {law}, by the number of steps ahead."
    return Chart(f"{game} · {law}", text, views, "steps ahead")


def foreseen(runs: Sequence[Run], measure: str) -> Band | None:
    """A measure of predictions by horizon over seeds; None if no run has it."""
    there = [run.prediction for run in runs if measure in run.prediction]
    there = [curves for curves in there if any(v is not None for v in curves[measure])]
    if not there:
        return None
    horizon = max((curves["horizon"] for curves in there), key=len)
    values = np.full((len(there), len(horizon)), np.nan)
    for row, curves in enumerate(there):
        entries = [math.nan if v is None else v for v in curves[measure]]
        values[row, : len(entries)] = entries
    return band_of(np.asarray(horizon, np.float64), values)


def health_charts(cell: tuple[str, str], groups: Sequence[Group], most: int) -> list[Chart]:
    """A chart for each health metric, with a line for each run."""
    names = sorted({name for group in groups for run in group.runs for name in run.health})
    charts = []
    for name in names:
        bands = [(g, band([run.health.get(name, []) for run in g.runs], most)) for g in groups]
        series = _over_seeds([(g, b) for g, b in bands if b is not None], with_mean=False)
        title = name.removeprefix(HEALTH).replace("_", " ") if name != ENTROPY else "target entropy"
        text = f"{name} by interactions in {cell[0]} under {cell[1]}, a line for each run."
        view = View("", series, "", _alarm_marks(name))
        charts.append(Chart(title, text, [view], "interactions"))
    return charts


def _evaluations(run: Run) -> Points:
    return run.evaluations


def _selfplay(run: Run) -> Points:
    return run.selfplay


def _over_seeds(bands: Sequence[tuple[Group, Band]], *, with_mean: bool = True) -> list[Series]:
    """A thin line for each run, and the mean of each group with its interval."""
    series = []
    for group, curve in bands:
        colour, several = colour_of(group), len(group.runs) > 1
        for run, each in zip(group.runs, curve.each, strict=True):
            if (several or not with_mean) and any(value is not None for value in each):
                thin = Series(run.name, colour, curve.x, each, style="thin", toggle=group.label)
                series.append(replace(thin, run=run.name))
        if with_mean:
            seeds = f"{len(group.runs)} seeds" if several else f"seed {group.runs[0].seed}"
            mean = _of_band(f"{group.label} ({seeds})", colour, curve)
            run_name = "" if several else group.runs[0].name
            series.append(replace(mean, toggle=group.label, run=run_name))
    return series


def _of_band(label: str, colour: str, curve: Band) -> Series:
    return Series(label, colour, curve.x, curve.mean, curve.low, curve.high)


def _with_spread(scores: Sequence[Score | None]) -> tuple[Numbers, Numbers, Numbers]:
    """Means, and one standard deviation over seeds below and above; none for one seed."""
    ends = [
        (None, None)
        if s is None or s.seeds < 2 or s.spread is None
        else (s.mean - s.spread, s.mean + s.spread)
        for s in scores
    ]
    mean = numbers([math.nan if s is None else s.mean for s in scores])
    return mean, [low for low, _ in ends], [high for _, high in ends]


def _published_marks(game: str, law: str, groups: Sequence[Group]) -> list[tuple[float, str]]:
    """The published final scores of the agents of a cell, and that of random play."""
    marks: dict[str, float] = {
        f"{group.agent}, paper": score.mean
        for group in groups
        if (score := paper_score(game, law, group.agent)) is not None
    }
    late = any(run.config.get("observation_delay") for group in groups for run in group.runs)
    published = None if late else efficientzero_score(game, law)
    if published is not None:
        marks["EfficientZero, published"] = published
    others = reference(game)
    random = [] if others is None else [(others.random, "random play")]
    return [*((value, label) for label, value in marks.items()), *random]


def _alarm_marks(name: str) -> list[tuple[float, str]]:
    """The ends of the healthy range of a metric."""
    for symptom in SYMPTOMS:
        if symptom.metric == name:
            low, high = symptom.low, symptom.high
            below = [(low, "alarm below")] if math.isfinite(low) else []
            return below + ([(high, "alarm above")] if math.isfinite(high) else [])
    return []
