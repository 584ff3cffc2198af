"""Runs several commands of delayzero at the same time, each in its own process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from delayzero.arguments import UsageError

SECONDS_BETWEEN_LOOKS = 0.5
ENDINGS = (signal.SIGTERM, signal.SIGHUP)
"""Signals that interrupt a comparison as Ctrl-C does."""
GPU_SHARE = 0.9
"""The share of the GPU's memory that all processes may use together."""


@dataclass(frozen=True)
class Command:
    """A process to start."""

    name: str
    words: tuple[str, ...]
    """The words after ``python -m``."""
    log: Path
    """The file to which its output and errors are appended."""


def environment(cache: Path, jobs: int, daemon: Mapping[str, str] = {}) -> dict[str, str]:
    """The environment variables of the processes; variables that the user has set take precedence.

    The processes share compiled programs. Each gets an equal share of the cores and of the GPU's
    memory, which it allocates as it needs it.

    Args:
        cache: The folder of compiled programs.
        jobs: How many processes run at the same time.
        daemon: The variables of :func:`~delayzero.evaluation.compare.mps.shared_gpu`.
    """
    ours = {
        **daemon,
        "JAX_COMPILATION_CACHE_DIR": str(cache.absolute()),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    if jobs > 1:
        ours["NPROC"] = str(max(1, len(os.sched_getaffinity(0)) // jobs))  # threads of XLA
        ours["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
        if "XLA_CLIENT_MEM_FRACTION" not in os.environ:  # its new name; JAX refuses both
            ours["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{GPU_SHARE / jobs:.4f}"
    return {**ours, **os.environ}


def run_side_by_side(
    commands: Sequence[Command],
    jobs: int,
    variables: Mapping[str, str],
    look: Callable[[Sequence[str]], None],
) -> None:
    """Run commands, at most ``jobs`` at a time, until all have ended.

    An interrupt asks the processes to stop, and waits for them.

    Args:
        commands: The commands, started in this order.
        jobs: How many may run at the same time.
        variables: The environment variables of the processes.
        look: Called every ``SECONDS_BETWEEN_LOOKS`` with the names of the running commands.

    Raises:
        UsageError: Commands failed; the message quotes the last line of the first one's log.
    """
    waiting, running, failed = list(commands), dict[str, subprocess.Popen[bytes]](), list[Command]()
    by_name = {command.name: command for command in commands}
    with endings_as_interrupts():
        try:
            while waiting or running:
                while waiting and len(running) < jobs:
                    command = waiting.pop(0)
                    running[command.name] = _start(command, variables)
                for name, process in list(running.items()):
                    if process.poll() is not None:
                        del running[name]
                        failed += [by_name[name]] if process.returncode else []
                look(list(running))
                if running:
                    time.sleep(SECONDS_BETWEEN_LOOKS)
        finally:
            _stop(list(running.values()))
    if failed:
        names = ", ".join(command.name for command in failed)
        raise UsageError(
            f"{len(failed)} of {len(commands)} processes failed: {names}; the log of the first "
            f"ends: {_last_line(failed[0].log)} (see {failed[0].log}); type the same "
            "command to resume"
        )


def _start(command: Command, variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a process in a new session, so that Ctrl-C reaches only the calling process."""
    command.log.parent.mkdir(parents=True, exist_ok=True)
    with command.log.open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", *command.words],
            env=dict(variables),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ask processes to stop and wait for them; a second interrupt kills them."""
    if not processes:
        return
    print(
        "stopping: runs save a checkpoint first; type the same command to resume", file=sys.stderr
    )
    for process in processes:
        process.terminate()
    try:
        for process in processes:
            process.wait()
    except KeyboardInterrupt:
        for process in processes:
            process.kill()
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


def _last_line(log: Path) -> str:
    """The last line of a log that is not empty."""
    lines = log.read_text(errors="replace").split("\n")
    filled = [line.strip() for line in lines if line.strip()]
    return filled[-1].removeprefix("delayzero: error: ") if filled else "(empty)"
