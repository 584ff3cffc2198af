"""Progress of long work: a bar on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TextIO

from delayzero.extras import MissingExtraError, require


class Advance(Protocol):
    """Says that so many more units of the work are done, and how things stand."""

    def __call__(self, units: int, note: str = "") -> None: ...


SECONDS_BETWEEN_LINES = 5.0


@contextmanager
def progress(
    what: str,
    total: int,
    *,
    to: TextIO | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Advance]:
    """Show how far a piece of work has come.

    Args:
        what: What is being done, such as ``"demo"``.
        total: How many units it has.
        to: Where it is shown; standard error unless given.
        clock: The time in seconds.

    Yields:
        A function to call with the number of units done since its last call, and a note to
        show beside them.
    """
    to = sys.stderr if to is None else to
    if to.isatty():
        try:
            rich_progress, rich_console = (
                require("rich.progress", "cli"),
                require("rich.console", "cli"),
            )
        except MissingExtraError:
            pass
        else:
            columns = [
                rich_progress.TextColumn("{task.description}"),
                rich_progress.BarColumn(),
                rich_progress.MofNCompleteColumn(),
                rich_progress.TimeRemainingColumn(),
                rich_progress.TextColumn("{task.fields[note]}"),
            ]
            with rich_progress.Progress(*columns, console=rich_console.Console(file=to)) as bar:
                task = bar.add_task(what, total=total, note="")

                def advance(units: int, note: str = "") -> None:
                    bar.update(task, advance=units, note=note)

                yield advance
            return
    yield _plain_lines(what, total, to, clock)


def _plain_lines(what: str, total: int, to: TextIO, clock: Callable[[], float]) -> Advance:
    """Print a line every few seconds, and one when all is done."""
    done, last_line = 0, clock()

    def advance(units: int, note: str = "") -> None:
        nonlocal done, last_line
        before, done = done, done + units
        now = clock()
        if before < total <= done or now - last_line >= SECONDS_BETWEEN_LINES:
            standing = f" ({note})" if note else ""
            print(f"{what}: {done}/{total}{standing}", file=to, flush=True)
            last_line = now

    return advance
