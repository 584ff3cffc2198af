"""Runs a comparison: trains, evaluates, prints tables, draws pictures, stores the results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

import jax

from delayzero.arguments import UsageError
from delayzero.delays import parse
from delayzero.evaluation.compare.by_delay import read_scores, words_for
from delayzero.evaluation.compare.mps import shared_gpu
from delayzero.evaluation.compare.plan import Plan, Run, typed
from delayzero.evaluation.compare.processes import Command, environment, run_side_by_side
from delayzero.evaluation.compare.results import AgentResult, read_agent, read_result
from delayzero.evaluation.compare.tables import EXPLANATION, delay_table, outcome, table
from delayzero.extras import MissingExtraError
from delayzero.files import last_line, write_json
from delayzero.forms import whole, with_keys
from delayzero.playing.environments import make_training_env
from delayzero.playing.system import build_system
from delayzero.progress import progress
from delayzero.runs.machine import commit
from delayzero.settings import AgentName
from delayzero.spaces import Spaces

MADE = with_keys({"interactions": whole})
"""The form of a line or file that says how many interactions were made."""


def compare(plan: Plan, jobs: int, command: Sequence[str]) -> list[AgentResult]:
    """Do the missing parts of a comparison, then print, draw and store its results.

    Args:
        plan: The comparison.
        jobs: How many processes run at the same time.
        command: The command that was typed, for the record.

    Raises:
        UsageError: The plan is invalid, or a run failed.
    """
    jax.config.update("jax_platforms", "cpu")  # the GPU and its memory are for the runs
    check(plan)
    jobs = min(jobs, len(plan.runs()))
    with shared_gpu(jobs) as daemon:
        variables = environment(plan.folder / "compiled", jobs, daemon)
        _train(plan, jobs, variables)
        _evaluate(plan, jobs, variables)
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
    for run in plan.runs():
        config = plan.config(run.agent, run.seed)
        run.folder.finished(config)  # refuses different settings; training checks unfinished runs
    env = make_training_env(replace(config, envs=1))
    env.close()
    _check_agents(plan, Spaces.of(env))


def _check_agents(plan: Plan, spaces: Spaces) -> None:
    """Check that every agent can learn in an environment with these spaces."""
    refused: dict[AgentName, str] = {}
    for agent in plan.agents:
        try:
            build_system(plan.config(agent, plan.seeds[0]), spaces)
        except (UsageError, ValueError) as error:
            refused[agent] = str(error)
    if refused:
        others = [agent for agent in plan.agents if agent not in refused]
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
                **read_result(run),
                "by_delay": read_scores(run.folder.by_delay, plan.law_episodes),
            }
            for run in plan.runs()
        },
    }


def _train(plan: Plan, jobs: int, variables: dict[str, str]) -> None:
    """Train the runs that have not finished."""
    runs = plan.runs()
    total = {run.name: plan.config(run.agent, run.seed).interactions for run in runs}
    commands = [
        Command(run.name, ("delayzero", *run.words), plan.folder / "logs" / f"{run.name}.txt")
        for run in runs
        if not run.folder.result.exists()
    ]

    def done() -> int:
        return sum(min(interactions_made(run), total[run.name]) for run in runs)

    _run("train", commands, jobs, variables, sum(total.values()), done)


def _evaluate(plan: Plan, jobs: int, variables: dict[str, str]) -> None:
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

    _run("other delays", commands, jobs, variables, total, done)


def _missing(plan: Plan, run: Run, laws: Sequence[str]) -> int:
    """The number of laws under which a run has not been evaluated."""
    scores = read_scores(run.folder.by_delay, plan.law_episodes)
    return sum(law not in scores for law in laws)


def _run(
    what: str,
    commands: Sequence[Command],
    jobs: int,
    variables: dict[str, str],
    total: int,
    done: Callable[[], int],
) -> None:
    """Run commands with a progress bar."""
    if not commands:
        return
    with progress(what, total) as advance:
        shown = 0

        def look(running: Sequence[str]) -> None:
            nonlocal shown
            now = max(shown, done())
            advance(now - shown, ", ".join(running))
            shown = now

        run_side_by_side(commands, jobs, variables, look)


def interactions_made(run: Run) -> int:
    """The interactions of a run so far, according to the files in its folder."""
    if run.folder.result.exists():
        return int(read_result(run, MADE)["interactions"])
    if not run.folder.metrics.exists():
        return 0
    remedy = f"delete {run.folder.path} to train the run again"
    last = last_line(run.folder.metrics, remedy, MADE)
    return 0 if last is None else int(last["interactions"])
