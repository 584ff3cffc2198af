"""Runs a campaign: checks it, starts and resumes its runs, shows how they stand."""

from __future__ import annotations

import math
import platform
import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import jax

from delayzero.arguments import UsageError
from delayzero.campaigns.collect import scores_table
from delayzero.campaigns.display import Show, display, summary
from delayzero.campaigns.engine import Board, raise_failures, run_all
from delayzero.campaigns.engines import Where, open_engine
from delayzero.campaigns.plan import Campaign
from delayzero.campaigns.record import Record, Standing, State, standings, write_record
from delayzero.campaigns.run import Run, refusals, typed
from delayzero.extras import check_installed
from delayzero.files import make_folder
from delayzero.runs import lock
from delayzero.runs.machine import commit

SECONDS_BETWEEN_READINGS = 2.0
"""How often the folders of the runs are read, if no run has started or ended."""
SECONDS_BETWEEN_RECORDS = 10.0
"""How often the record is written, if no run has started or ended."""


def checked_runs(campaign: Campaign, root: Path) -> list[Run]:
    """The runs of a campaign, checked before anything starts.

    Raises:
        UsageError: A setting or an environment is invalid, an agent cannot learn in its
            environment, or a finished run has different settings.
        DelayError: A law is invalid.
    """
    jax.config.update("jax_platforms", "cpu")  # the GPU and its memory are for the runs
    runs = campaign.runs(root)
    for run, reason in refusals(runs).items():
        raise UsageError(f"{run.config.agent} in {run.config.env}: {reason}")
    return runs


def run_campaign(campaign: Campaign, root: Path, where: Where, command: Sequence[str]) -> None:
    """Do the missing runs of a campaign.

    Args:
        campaign: Its plan.
        root: The folder of its runs.
        where: Where they run.
        command: The command that was typed, for the record.

    Raises:
        UsageError: The plan is invalid, another process does this campaign, there is no such
            cluster, or runs failed.
        MissingExtraError: The runs should be tasks of a Ray cluster, and Ray is not installed.
    """
    if where.on_ray:
        check_installed("ray", "ray")  # first: without it, no folder is left behind
    runs = checked_runs(campaign, root)
    commands = [run.command(root / "logs") for run in runs if not run.finished]
    make_folder(root)
    with locked(root), open_engine(where, root / "compiled", len(runs)) as (engine, jobs):
        record = new_record(campaign, runs, jobs, command)
        try:
            with display(campaign.name, jobs) as show:
                failures = run_all(commands, engine, Watch(root, record, show).look)
        finally:
            record["ended"] = True
            write_record(root, record)
    found = standings(root, record, alive=False)
    print("\n".join([summary(campaign.name, found, jobs), *scores_table(record, found)]))
    raise_failures(failures, len(commands))


def new_record(
    campaign: Campaign, runs: Sequence[Run], jobs: int, command: Sequence[str]
) -> Record:
    """The record of a campaign that begins or goes on."""
    return {
        "plan": campaign.name,
        "command": shlex.join(command),
        "commit": commit(),
        "host": platform.node(),
        "jobs": jobs,
        "ended": False,
        "runs": {
            run.name: {
                "state": "done" if run.finished else "waiting",
                "attempts": 0,
                "reason": "",
                "env": run.config.env,
                "delay": run.config.law,
                "agent": run.config.agent,
                "seed": run.config.seed,
                "interactions": run.config.interactions,
                "updates": run.config.total_updates,
                "command": typed(run.words),
            }
            for run in runs
        },
    }


class Watch:
    """Keeps the record of a campaign up to date, and shows how it stands."""

    def __init__(self, root: Path, record: Record, show: Show) -> None:
        self._root, self._record, self._show = root, record, show
        self._done: dict[str, Standing] = {}
        self._read = self._written = -math.inf

    def look(self, board: Board) -> None:
        """Take over the states of a board; write and show them if they are new, or now and then."""
        now, changed = time.monotonic(), self._take_over(board)
        if changed or now - self._written >= SECONDS_BETWEEN_RECORDS:
            write_record(self._root, self._record)
            self._written = now
        if changed or now - self._read >= SECONDS_BETWEEN_READINGS:
            self._show(standings(self._root, self._record, alive=True, known=self._done))
            self._read = now

    def _take_over(self, board: Board) -> bool:
        """Write the states of a board into the record; return whether one has changed."""
        states: dict[str, State] = {command.name: "waiting" for command in board.waiting}
        states |= dict.fromkeys(board.running, "running")
        states |= dict.fromkeys(board.done, "done")
        states |= dict.fromkeys(board.failed, "failed")
        changed = False
        for name, state in states.items():
            entry = self._record["runs"][name]
            now = (state, board.attempts[name], board.reasons.get(name, ""))
            changed |= now != (entry["state"], entry["attempts"], entry["reason"])
            entry["state"], entry["attempts"], entry["reason"] = now
        return changed


@contextmanager
def locked(root: Path) -> Iterator[None]:
    """Keep other processes from doing the same campaign.

    Raises:
        UsageError: Another process does.
    """
    file = root / "lock"
    taken = lock.take(file)
    if taken is None:
        raise UsageError(
            f"another process runs the campaign in {root} ({lock.holder(file)}); to see how it "
            f"stands, type: delayzero campaign status {root}"
        )
    with taken:
        yield
