"""Runs many commands at the same time on an engine, and tries failed ones again."""

from __future__ import annotations

import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from delayzero.arguments import UsageError
from delayzero.runs.lock import is_free
from delayzero.runs.paths import BUSY

SECONDS_BETWEEN_LOOKS = 0.5
SECONDS_BETWEEN_KNOCKS = 5.0
"""How often to look whether a folder that another process uses is free."""
ENDINGS = (signal.SIGTERM, signal.SIGHUP)
"""Signals that interrupt as Ctrl-C does."""
RETRIES = 2
"""How often a failed command is started again."""
USAGE = 2
"""The exit code of ``delayzero`` for an error that only the user can fix: trying again is vain."""
LONGEST_REASON = 1 << 16
"""Bytes at the end of a log in which its last line is looked for."""


@dataclass(frozen=True)
class Command:
    """A command to run."""

    name: str
    words: tuple[str, ...]
    """The words after ``python -m``."""
    log: Path
    """The file to which its output and errors are appended."""
    lock: Path | None = None
    """The file that another process locks as long as the command cannot run; None: not known."""


class Task(Protocol):
    """A command that was started."""

    def exit_code(self) -> int | None:
        """The exit code, negative for a signal; None while the command is not over."""
        ...

    def stop(self) -> None:
        """Ask the command to save its work and end."""
        ...

    def kill(self) -> None:
        """End the command at once."""
        ...

    def wait(self) -> None:
        """Wait until the command has ended."""
        ...


class Engine(Protocol):
    """Where commands run: processes of this machine, or of a cluster."""

    def has_room(self, running: int) -> bool:
        """Whether another command can start beside this many."""
        ...

    def start(self, command: Command) -> Task:
        """Start a command."""
        ...


@dataclass(frozen=True)
class Failure:
    """A command that failed."""

    command: Command
    reason: str
    """How its last attempt ended, and the last line of its log."""
    attempts: int


@dataclass
class Board:
    """The commands by state. Every command is in exactly one of the first four."""

    waiting: list[Command]
    running: dict[str, Task] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)
    failed: dict[str, Failure] = field(default_factory=dict)
    """Failed, and not to be tried again."""
    attempts: Counter[str] = field(default_factory=Counter)
    """How often each command was started."""
    reasons: dict[str, str] = field(default_factory=dict)
    """Why the last attempt of a command failed."""
    held: dict[str, float] = field(default_factory=dict)
    """Commands that wait because another process works in their folder: when to look again."""


def run_all(
    commands: Sequence[Command], engine: Engine, look: Callable[[Board], None]
) -> list[Failure]:
    """Run commands until each is done or has failed.

    A failure stops no other command. A failed command is tried ``RETRIES`` times more, after those
    that wait, unless its exit code says that the user must fix something. One whose folder is in
    use has not failed: it waits until the folder is free. An interrupt asks the commands that run
    to stop, and waits for them.

    Args:
        commands: The commands, started in this order; their names differ.
        engine: Where they run.
        look: Called after every change, and at least every ``SECONDS_BETWEEN_LOOKS``.

    Returns:
        The commands that failed for good.
    """
    board = Board(list(commands))
    by_name = {command.name: command for command in commands}
    begins: dict[str, int] = {}
    with endings_as_interrupts():
        try:
            while board.waiting or board.running:
                while board.waiting and engine.has_room(len(board.running)):
                    command = _next(board)
                    if command is None:
                        break
                    board.waiting.remove(command)
                    begins[command.name] = _size(command.log)
                    board.attempts[command.name] += 1
                    board.running[command.name] = engine.start(command)
                for name, task in list(board.running.items()):
                    code = task.exit_code()
                    if code is not None:
                        del board.running[name]
                        _note_end(board, by_name[name], code, begins[name])
                look(board)
                if board.waiting or board.running:
                    time.sleep(SECONDS_BETWEEN_LOOKS)
        finally:
            _stop(list(board.running.values()))
    return list(board.failed.values())


def raise_failures(failures: Sequence[Failure], total: int) -> None:
    """Report failed commands, if there are any.

    Args:
        failures: What :func:`run_all` returned.
        total: How many commands it ran.

    Raises:
        UsageError: Commands failed; the message quotes the last line of the first one's log.
    """
    if not failures:
        return
    first, names = failures[0], ", ".join(failure.command.name for failure in failures)
    raise UsageError(
        f"{len(failures)} of {total} runs failed: {names}; the log of the first ends: "
        f"{first.reason} (see {first.command.log}); type the same command to resume"
    )


def _next(board: Board) -> Command | None:
    """Return the first waiting command that can start; None if there is none."""
    for command in board.waiting:
        due = board.held.get(command.name)
        if due is None:
            return command
        if time.monotonic() < due:
            continue
        if command.lock is None or is_free(command.lock):
            del board.held[command.name], board.reasons[command.name]
            return command
        board.held[command.name] = time.monotonic() + SECONDS_BETWEEN_KNOCKS
    return None


def _note_end(board: Board, command: Command, code: int, begin: int) -> None:
    """Move a command that has ended to its next state."""
    if code == 0:
        board.done.append(command.name)
        board.reasons.pop(command.name, None)
        return
    reason, attempts = _reason(command.log, begin, code), board.attempts[command.name]
    board.reasons[command.name] = reason
    if code == USAGE and reason.startswith(BUSY):
        board.attempts[command.name] -= 1
        board.held[command.name] = time.monotonic() + SECONDS_BETWEEN_KNOCKS
        board.waiting.append(command)
    elif code == USAGE or attempts > RETRIES:
        board.failed[command.name] = Failure(command, reason, attempts)
    else:
        board.waiting.append(command)


def _stop(tasks: Sequence[Task]) -> None:
    """Ask tasks to stop and wait for them; a second interrupt kills them."""
    if not tasks:
        return
    print(
        "stopping: runs save a checkpoint first; type the same command to resume", file=sys.stderr
    )
    for task in tasks:
        task.stop()
    try:
        for task in tasks:
            task.wait()
    except KeyboardInterrupt:
        for task in tasks:
            task.kill()
        raise


@contextmanager
def endings_as_interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt on SIGTERM and SIGHUP too."""
    before = {name: signal.signal(name, signal.default_int_handler) for name in ENDINGS}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


def _size(log: Path) -> int:
    """The bytes of a log; 0 if it does not exist."""
    return log.stat().st_size if log.exists() else 0


def _reason(log: Path, begin: int, code: int) -> str:
    """Why an attempt failed: the signal that ended it, if one did, and its last line.

    Args:
        log: The log of all attempts.
        begin: Where in it this attempt begins, in bytes.
        code: The exit code.
    """
    said = ""
    if log.exists():
        with log.open("rb") as file:
            file.seek(max(begin, _size(log) - LONGEST_REASON))
            lines = file.read().decode(errors="replace").replace("\r", "\n").split("\n")
        filled = [line.strip() for line in lines if line.strip()]
        said = filled[-1].removeprefix("delayzero: error: ") if filled else ""
    killed = [f"killed by {_signal_name(-code)}"] if code < 0 else []
    return "; ".join([*killed, *([said] if said else [])]) or f"(empty, exit code {code})"


def _signal_name(number: int) -> str:
    """The name of a signal, such as SIGKILL."""
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"
