"""Shows how a campaign stands: a live table on a terminal, occasional lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from delayzero.campaigns.record import Standing, State, seconds_left
from delayzero.extras import MissingExtraError, require
from delayzero.progress import duration, say
from delayzero.runs.paths import BUSY

SECONDS_BETWEEN_LINES = 60.0
STATES: tuple[State, ...] = ("running", "failed", "waiting", "done")
Show = Callable[[Sequence[Standing]], None]


def summary(name: str, runs: Sequence[Standing], jobs: int) -> str:
    """One line: how many runs are in each state, and about how long the rest takes."""
    count = Counter(run.state for run in runs)
    begun = sum(run.state == "waiting" and run.share is not None for run in runs)
    half = f" ({begun} half-finished)" if begun else ""
    text = (
        f"{name}: {count['done']} of {len(runs)} done, {count['running']} running, "
        f"{count['waiting']} waiting{half}, {count['failed']} failed"
    )
    left = seconds_left(runs, jobs)
    unfinished = count["running"] + count["waiting"]
    return text + (f"; about {duration(left)} left" if left is not None and unfinished else "")


def table(runs: Sequence[Standing]) -> list[str]:
    """A line for each run that is running, failed, or waits half-finished or to be tried again."""
    shown = [run for state in STATES for run in runs if run.state == state and _speaks(run)]
    rows = [("run", "state", "trained", "left", "score", ""), *map(_row, shown)]
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[5]])
        for row in rows
    ]
    return [line.rstrip() for line in lines] if shown else []


def _speaks(run: Standing) -> bool:
    if run.state == "waiting":
        return run.share is not None or bool(run.reason)
    return run.state != "done"


def _row(run: Standing) -> tuple[str, ...]:
    failed = run.attempts - (run.state == "running")
    over = run.state == "running" and run.share == 1
    left = "evaluating" if over else "-" if run.left is None else duration(run.left)
    return (
        run.name,
        run.state,
        "-" if run.share is None else f"{100 * run.share:.0f} %",
        left if run.state == "running" else "-",
        "-" if run.score is None else f"{run.score:.1f}",
        _why(run, failed),
    )


def _why(run: Standing, failed: int) -> str:
    """Why a run is to be tried again, or is not; empty if nothing has happened to it."""
    if run.reason.startswith(BUSY):
        return run.reason
    return f"attempt {failed} failed: {run.reason}" if run.reason else ""


@contextmanager
def display(
    name: str,
    jobs: int,
    *,
    to: TextIO | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Show]:
    """Show a campaign while it runs.

    On a terminal this is a table that changes in place. Elsewhere, or without rich, it is a line
    for each run that ends or fails, and a summary at most every ``SECONDS_BETWEEN_LINES``.

    Args:
        name: The campaign's name.
        jobs: How many runs there are at the same time.
        to: The stream to write to; standard error by default.
        clock: Returns the time in seconds.

    Yields:
        The function that shows how the runs stand.
    """
    to = sys.stderr if to is None else to
    if not to.isatty():
        yield _lines(name, jobs, clock)
        return
    try:
        live, text, console = (require(f"rich.{p}", "cli") for p in ("live", "text", "console"))
    except MissingExtraError:
        yield _lines(name, jobs, clock)
        return
    with live.Live(console=console.Console(file=to), auto_refresh=False) as shown:

        def show(runs: Sequence[Standing]) -> None:
            lines = [summary(name, runs, jobs), *table(runs)]
            rendered = text.Text("\n".join(lines), no_wrap=True, overflow="ellipsis")
            shown.update(rendered, refresh=True)

        yield show


def _lines(name: str, jobs: int, clock: Callable[[], float]) -> Show:
    """Print a line for each change, and a summary now and then."""
    before: dict[str, tuple[State, int]] = {}
    last = clock()

    def show(runs: Sequence[Standing]) -> None:
        nonlocal last
        for run in runs:
            now = (run.state, run.attempts)
            first: tuple[State, int] = ("done" if run.state == "done" else "waiting", 0)
            old = before.get(run.name, first)
            before[run.name] = now
            if now != old:
                _say_change(run, old)
        if clock() - last >= SECONDS_BETWEEN_LINES:
            say(summary(name, runs, jobs))
            last = clock()

    return show


def _say_change(run: Standing, old: tuple[State, int]) -> None:
    if run.state == "done" and old[0] != "done":
        score = "" if run.score is None else f", score {run.score:.1f}"
        say(f"{run.name}: done{score}")
    elif run.reason and run.state != "running" and (old[0] == "running" or run.attempts != old[1]):
        held = run.reason.startswith(BUSY)
        again = "" if run.state == "failed" or held else "; it will be tried again"
        say(f"{run.name}: {_why(run, run.attempts)}{again}")
    elif run.state == "running" and old[0] != "running":
        resumed = run.saved and run.share is not None
        say(f"{run.name}: {f'resumed at {run.share:.0%}' if resumed else 'started'}")
