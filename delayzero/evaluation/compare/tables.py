"""The outcome of a comparison in words: a table, and what its numbers say."""

from __future__ import annotations

from collections.abc import Sequence

from delayzero.evaluation.compare.results import AgentResult, Estimate
from delayzero.settings import AGENTS

OURS = "dez"
ENOUGH_SEEDS = 5
"""With fewer a bootstrap's interval is much too narrow: ``benchmarks/intervals.py``."""


def table(results: Sequence[AgentResult]) -> str:
    """One row for each agent, the best first."""
    rows: list[tuple[str, ...]] = [("agent", "IQM", "95 % interval", "mean", "lowest", "seconds")]
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
    """The IQM of each agent under each law; a dash where it was not evaluated."""
    rows: list[tuple[str, ...]] = [("agent", *laws)]
    for result in results:
        if AGENTS[result.agent].delayed:
            found = [result.by_delay.get(law) for law in laws]
            cells = ["-" if estimate is None else f"{estimate.iqm:.1f}" for estimate in found]
            rows.append((result.agent, *cells))
    return _aligned(rows)


def outcome(results: Sequence[AgentResult]) -> str:
    """What the numbers say about DEZ, and how far they can be trusted."""
    by_agent = {result.agent: result for result in results}
    said = []
    if OURS in by_agent:
        ours = by_agent[OURS].estimate
        others: dict[str, Estimate] = {
            result.agent: result.estimate
            for result in results
            if result.agent != OURS and AGENTS[result.agent].delayed and AGENTS[result.agent].learns
        }
        said += _against(ours, others)
        if "undelayed" in by_agent:
            bound = by_agent["undelayed"].estimate.iqm
            share = f" ({ours.iqm / bound:.0%})" if bound > 0 else ""
            said.append(f"Without delay the IQM is {bound:.1f}; DEZ has {ours.iqm:.1f}{share}.")
        if "random" in by_agent:
            said.append(f"Deciding at random has {by_agent['random'].estimate.iqm:.1f}.")
    fewest = min((result.seeds for result in results), default=ENOUGH_SEEDS)
    if fewest == 1:
        said.append("One seed only: the intervals tell nothing of other seeds.")
    elif fewest < ENOUGH_SEEDS:
        said.append(
            f"{fewest} seeds only: the intervals are too narrow, and hold the truth less often "
            "than they say (docs/compare.md)."
        )
    return "\n".join(said)


def _against(ours: Estimate, others: dict[str, Estimate]) -> list[str]:
    if not others:
        return []
    ahead = {agent: other for agent, other in others.items() if other.low > ours.high}
    level = {
        agent: other
        for agent, other in others.items()
        if agent not in ahead and other.high >= ours.low
    }
    if not ahead and not level:
        best = max(others, key=lambda agent: others[agent].high)
        return [
            f"DEZ's interval {ours} lies above that of every other delayed agent; the next is "
            f"{best} {others[best]}."
        ]
    said = [f"DEZ's interval {ours} does not lie above that of every other delayed agent."]
    if ahead:
        said.append(f"Above it: {_named(ahead)}.")
    if level:
        said.append(f"Overlapping with it: {_named(level)}.")
    return said


def _named(estimates: dict[str, Estimate]) -> str:
    return ", ".join(f"{agent} {estimate}" for agent, estimate in estimates.items())


def _aligned(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )
