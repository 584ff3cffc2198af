"""The results of a comparison as text: tables, and whether DEZ is significantly better.

A difference between two agents is called significant if the 95 % intervals of their IQMs do not
overlap.
"""

from __future__ import annotations

from collections.abc import Sequence

from delayzero.evaluation.compare.results import AgentResult, Estimate
from delayzero.settings import AGENTS

OURS = "dez"
ENOUGH_SEEDS = 5
"""With fewer seeds a bootstrap interval is much too narrow: ``benchmarks/intervals.py``."""
COLUMNS = ("agent", "IQM", "95 % interval", "mean", "lowest", "training seconds")
EXPLANATION = """\
IQM: the mean of the middle half of all scores, with its 95 % bootstrap interval.
mean, lowest: the mean and the lowest of all scores.
training seconds: per run, without compilation and evaluations; mean over seeds."""
"""Of ``COLUMNS``."""


def table(results: Sequence[AgentResult]) -> str:
    """A table with one row per agent, the best first."""
    rows: list[tuple[str, ...]] = [COLUMNS]
    for result in sorted(results, key=lambda result: -result.estimate.iqm):
        estimate = result.estimate
        rows.append(
            (
                result.agent,
                f"{estimate.iqm:.1f}",
                str(estimate),
                f"{result.mean:.1f}",
                f"{result.lowest:.1f}",
                f"{result.seconds:.0f}",
            )
        )
    return _aligned(rows)


def delay_table(results: Sequence[AgentResult], laws: Sequence[str]) -> str:
    """A table of each delayed agent's IQM under each law; a dash where it was not evaluated."""
    rows: list[tuple[str, ...]] = [("agent", *laws)]
    for result in results:
        if AGENTS[result.agent].delayed:
            estimates = [result.by_delay.get(law) for law in laws]
            cells = ["-" if estimate is None else f"{estimate.iqm:.1f}" for estimate in estimates]
            rows.append((result.agent, *cells))
    return _aligned(rows)


def outcome(results: Sequence[AgentResult]) -> str:
    """Sentences, one per line: how DEZ compares to the others, and how far to trust that."""
    by_agent = {result.agent: result for result in results}
    sentences = []
    if OURS in by_agent:
        ours = by_agent[OURS].estimate
        others: dict[str, Estimate] = {
            result.agent: result.estimate
            for result in results
            if result.agent != OURS and AGENTS[result.agent].delayed and AGENTS[result.agent].learns
        }
        sentences += _against(ours, others)
        if "undelayed" in by_agent:
            bound = by_agent["undelayed"].estimate.iqm
            share = f" ({ours.iqm / bound:.0%})" if bound > 0 else ""
            sentences.append(
                f"The IQM without delay is {bound:.1f}; DEZ reaches {ours.iqm:.1f}{share}."
            )
        if "random" in by_agent:
            floor = by_agent["random"].estimate.iqm
            sentences.append(f"The IQM of random actions is {floor:.1f}.")
    fewest = min((result.seeds for result in results), default=ENOUGH_SEEDS)
    if fewest == 1:
        sentences.append("Only 1 seed: the intervals say nothing about other seeds.")
    elif fewest < ENOUGH_SEEDS:
        sentences.append(
            f"Only {fewest} seeds: the intervals are too narrow, and contain the true value less "
            "often than 95 % (docs/compare.md)."
        )
    return "\n".join(sentences)


def _against(ours: Estimate, others: dict[str, Estimate]) -> list[str]:
    """Whether DEZ is significantly better than the other delayed agents."""
    if not others:
        return []
    better = {agent: other for agent, other in others.items() if other.low > ours.high}
    overlapping = {
        agent: other
        for agent, other in others.items()
        if agent not in better and other.high >= ours.low
    }
    if not better and not overlapping:
        best = max(others, key=lambda agent: others[agent].high)
        return [
            f"DEZ {ours} is significantly better than every other delayed agent: its 95 % interval "
            f"lies above theirs. The next is {best} {others[best]}."
        ]
    sentences = []
    if better:
        sentences.append(
            f"DEZ {ours} is significantly worse than {_listed(better)}: its 95 % interval lies "
            "below theirs."
        )
    if overlapping:
        sentences.append(
            f"DEZ {ours} is not significantly better than {_listed(overlapping)}: the 95 % "
            "intervals overlap."
        )
    return sentences


def _listed(estimates: dict[str, Estimate]) -> str:
    return ", ".join(f"{agent} {estimate}" for agent, estimate in estimates.items())


def _aligned(rows: Sequence[tuple[str, ...]]) -> str:
    """Columns of equal width: the first aligned left, the others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )
