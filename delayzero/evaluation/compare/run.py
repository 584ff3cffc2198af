"""Runs a comparison: trains, evaluates, prints tables, draws pictures, stores the results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import jax

from delayzero.arguments import UsageError
from delayzero.campaigns.engine import Board, Command, Engine, raise_failures, run_all
from delayzero.campaigns.engines import Where, open_engine
from delayzero.campaigns.run import Run, interactions_made, refusals, typed
from delayzero.delays import parse
from delayzero.evaluation.compare.by_delay import read_scores, words_for
from delayzero.evaluation.compare.plan import Plan
from delayzero.evaluation.compare.results import AgentResult, read_agent, read_compared
from delayzero.evaluation.compare.tables import EXPLANATION, delay_table, outcome, table
from delayzero.extras import MissingExtraError
from delayzero.files import write_json
from delayzero.progress import progress
from delayzero.runs.machine import commit


def compare(plan: Plan, where: Where, command: Sequence[str]) -> list[AgentResult]:
    """Do the missing parts of a comparison, then print, draw and store its results.

    Args:
        plan: The comparison.
        where: Where its processes run.
        command: The command that was typed, for the record.

    Raises:
        UsageError: The plan is invalid, or a run failed.
    """
    jax.config.update("jax_platforms", "cpu")  # the GPU and its memory are for the runs
    check(plan)
    with open_engine(where, plan.folder / "compiled", len(plan.runs())) as (engine, _):
        _train(plan, engine)
        _evaluate(plan, engine)
    results = [read_agent(plan, agent) for agent in plan.agents]
    _print_tables(plan, results)
    stored = plan.folder / "compare.json"
    write_json(stored, record(plan, results, command))
    try:
        from delayzero.evaluation.compare.pictures import save_pictures

        pictures = save_pictures(results, plan.delay, plan.laws, plan.folder)
        print("\nPictures:", *pictures, sep="\n  ")
    except MissingExtraError as error:
        print(f"\nNo pictures: {error}")
    print(f"All results: {stored}")
    return results


def _print_tables(plan: Plan, results: Sequence[AgentResult]) -> None:
    config = plan.config(plan.agents[0], plan.seeds[0])
    print(
        f"{config.env} under {plan.delay}. Seeds per agent: {len(plan.seeds)}. "
        f"Per seed: {config.interactions} interactions, {config.final_episodes} final episodes.\n"
        f"{EXPLANATION}\n"
    )
    print(table(results))
    if plan.laws:
        print(
            "\nIQM of the same weights under other delays, "
            f"{plan.law_episodes} episodes per seed; -: not evaluated\n"
        )
        print(delay_table(results, plan.laws))
    sentences = outcome(results)
    print(f"\n{sentences}" if sentences else "")


def check(plan: Plan) -> None:
    """Check that a comparison can run, before it starts anything.

    Raises:
        UsageError: A setting or the environment is invalid, an agent cannot learn in the
            environment, or a finished run has different settings.
        DelayError: A delay law is unknown or invalid.
    """
    parse(plan.delay)
    for law in plan.laws:
        parse(law)
    if not plan.agents or not plan.seeds:
        raise UsageError("a comparison needs at least one agent and one seed")
    refused = refusals(plan.runs())
    if refused:
        agents = {run.config.agent for run in refused}
        others = [agent for agent in plan.agents if agent not in agents]
        hint = f"; type --agents {' '.join(others)}" if others else ""
        raise UsageError(next(iter(refused.values())) + hint)


def record(plan: Plan, results: Sequence[AgentResult], command: Sequence[str]) -> dict[str, Any]:
    """The contents of ``compare.json``: plan, commit, commands, versions, scores and figures."""
    return {
        "command": " ".join(command),
        "commit": commit(),
        "plan": {**asdict(plan), "folder": str(plan.folder)},
        "outcome": outcome(results).split("\n"),
        "agents": {result.agent: asdict(result) for result in results},
        "runs": {
            run.name: {
                "command": typed(run.words),
                **read_compared(run),
                "by_delay": read_scores(run.folder.by_delay, plan.law_episodes),
            }
            for run in plan.runs()
        },
    }


def _train(plan: Plan, engine: Engine) -> None:
    """Train the runs that have not finished."""
    runs = plan.runs()
    total = {run.name: run.config.interactions for run in runs}
    commands = [run.command(plan.folder / "logs") for run in runs if not run.finished]

    def done() -> int:
        return sum(min(interactions_made(run), total[run.name]) for run in runs)

    _run("train", commands, engine, sum(total.values()), done)


def _evaluate(plan: Plan, engine: Engine) -> None:
    """Evaluate the runs under the plan's other laws, one process per agent."""
    commands, parts = [], []
    for agent in plan.agents:
        laws, runs = plan.laws_of(agent), plan.runs_of(agent)
        parts += [(run, laws) for run in runs]
        if any(_missing(plan, run, laws) for run in runs):
            words = words_for(runs, laws, plan.law_episodes)
            log = plan.folder / "logs" / f"{agent}-by-delay.txt"
            commands.append(Command(agent, words, log))
    total = sum(len(laws) for _, laws in parts)

    def done() -> int:
        return total - sum(_missing(plan, run, laws) for run, laws in parts)

    _run("other delays", commands, engine, total, done)


def _missing(plan: Plan, run: Run, laws: Sequence[str]) -> int:
    """The number of laws under which a run has not been evaluated."""
    scores = read_scores(run.folder.by_delay, plan.law_episodes)
    return sum(law not in scores for law in laws)


def _run(
    what: str,
    commands: Sequence[Command],
    engine: Engine,
    total: int,
    done: Callable[[], int],
) -> None:
    """Run commands with a progress bar."""
    if not commands:
        return
    with progress(what, total) as advance:
        shown = 0

        def look(board: Board) -> None:
            nonlocal shown
            now = max(shown, done())
            advance(now - shown, ", ".join(board.running))
            shown = now

        failures = run_all(commands, engine, look)
    raise_failures(failures, len(commands))
