"""Progress of long work: a bar on a terminal, an occasional line of text elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import ModuleType
from typing import Any, Protocol, TextIO

from delayzero.extras import MissingExtraError, require


class Advance(Protocol):
    """Reports finished units of work, with a note on how the work stands.

    ``advance(0, note)`` changes the note alone; leaving the note out clears it.
    """

    def __call__(self, units: int, note: str = "") -> None: ...


SECONDS_BETWEEN_LINES = 5.0
SECONDS_LATER = 60.0
"""Between lines, once the work has taken longer than this."""
WIDEST_BAR = 40


_quiet: ContextVar[bool] = ContextVar("quiet", default=False)


@contextmanager
def silence() -> Iterator[None]:
    """Print nothing, in this thread, for a while."""
    token = _quiet.set(True)
    try:
        yield
    finally:
        _quiet.reset(token)


def say(text: str) -> None:
    """Print a message for the user on standard error."""
    if not _quiet.get():
        print(text, file=sys.stderr, flush=True)


@contextmanager
def progress(
    what: str,
    total: int,
    *,
    done: int = 0,
    to: TextIO | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Advance]:
    """Show the progress of a piece of work.

    On a terminal this is a bar of rich with the time left, and the note on a line below it. Where
    ``to`` is not a terminal, or rich is not installed, it is a line ``what: done/total, about 4 min
    left (note)`` at most every ``SECONDS_BETWEEN_LINES`` seconds, later every ``SECONDS_LATER``,
    and one at the end.

    Args:
        what: The name of the work, such as ``"demo"``.
        total: The number of units.
        done: Units that were done before, as by a run that is resumed.
        to: The stream to write to; standard error by default.
        clock: Returns the time in seconds.

    Yields:
        The function that reports progress, see :class:`Advance`.
    """
    if _quiet.get():
        yield lambda units, note="": None
        return
    to = sys.stderr if to is None else to
    rich = _rich() if to.isatty() else None
    if rich is None:
        yield _lines(what, total, done, to, clock)
        return
    with _bar(rich, rich["console"].Console(file=to)) as bar:
        task = bar.add_task(what, total=total, completed=done, note="")

        def advance(units: int, note: str = "") -> None:
            bar.update(task, advance=units, note=note)

        yield advance


def duration(seconds: float) -> str:
    """A time in the unit that suits it, such as ``4 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _rich() -> dict[str, ModuleType] | None:
    """The modules of rich that draw a bar, by name; None where rich is not installed."""
    try:
        return {part: require(f"rich.{part}", "cli") for part in ("progress", "console", "text")}
    except MissingExtraError:
        return None


def _bar(rich: dict[str, ModuleType], console: Any) -> Any:
    """A ``rich.progress.Progress`` that puts each task's note on a line of its own, wrapped."""
    parts, text = rich["progress"], rich["text"]

    class Bar(parts.Progress):  # type: ignore[misc, name-defined]
        def get_renderables(self) -> Iterable[Any]:
            yield self.make_tasks_table(self.tasks)
            for task in self.tasks:
                if task.fields["note"]:
                    yield text.Text(task.fields["note"])

    return Bar(
        parts.TextColumn("{task.description}", markup=False),
        parts.BarColumn(bar_width=min(WIDEST_BAR, console.width // 4)),
        parts.MofNCompleteColumn(),
        parts.TimeRemainingColumn(),
        console=console,
    )


def _lines(what: str, total: int, done: int, to: TextIO, clock: Callable[[], float]) -> Advance:
    """Print a line every now and then, and one when the work is done."""
    before, begun = done, clock()
    last_line = begun

    def advance(units: int, note: str = "") -> None:
        nonlocal done, last_line
        ends = done < total <= done + units
        done += units
        now = clock()
        taken = now - begun
        pause = SECONDS_LATER if taken > SECONDS_LATER else SECONDS_BETWEEN_LINES
        if ends or now - last_line >= pause:
            left = taken / (done - before) * (total - done) if before < done < total else 0.0
            in_time = f", about {duration(left)} left" if left else ""
            in_brackets = f" ({note})" if note else ""
            print(f"{what}: {done}/{total}{in_time}{in_brackets}", file=to, flush=True)
            last_line = now

    return advance
