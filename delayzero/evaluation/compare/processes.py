"""Running commands of delayzero side by side, each in a process of its own."""

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
"""They end a comparison as Ctrl-C does."""
GPU_SHARE = 0.9
"""Of the GPU's memory, for all processes together."""


@dataclass(frozen=True)
class Command:
    """A process to start."""

    name: str
    words: tuple[str, ...]
    """Behind ``python -m``."""
    log: Path
    """Gets all that it says."""


def environment(cache: Path, jobs: int, daemon: Mapping[str, str] = {}) -> dict[str, str]:
    """The variables of the processes; those that the user has set stay as they are.

    Compiled programs are shared by all of them. Each gets its share of the cores and of the GPU's
    memory, which it takes as it needs it.

    Args:
        cache: The folder of compiled programs.
        jobs: How many processes run side by side.
        daemon: The variables of :func:`~delayzero.evaluation.compare.mps.shared_gpu`.
    """
    ours = {
        **daemon,
        "JAX_COMPILATION_CACHE_DIR": str(cache.absolute()),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    if jobs > 1:
        ours["NPROC"] = str(max(1, len(os.sched_getaffinity(0)) // jobs))  # the threads of XLA
        ours["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
        if "XLA_CLIENT_MEM_FRACTION" not in os.environ:  # the new name; JAX refuses both
            ours["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{GPU_SHARE / jobs:.4f}"
    return {**ours, **os.environ}


def run_side_by_side(
    commands: Sequence[Command],
    jobs: int,
    variables: Mapping[str, str],
    look: Callable[[Sequence[str]], None],
) -> None:
    """Run commands, so many at a time, until all have ended.

    If this is interrupted, the processes are asked to stop, and waited for.

    Args:
        commands: What to run, in this order.
        jobs: How many side by side.
        variables: The environment of the processes.
        look: Called now and then with the names of those that are running.

    Raises:
        UsageError: Some failed; the message has the last line of the first one's log.
    """
    waiting, running, failed = list(commands), dict[str, subprocess.Popen[bytes]](), list[Command]()
    known = {command.name: command for command in commands}
    with endings_as_interrupts():
        try:
            while waiting or running:
                while waiting and len(running) < jobs:
                    command = waiting.pop(0)
                    running[command.name] = _start(command, variables)
                for name, process in list(running.items()):
                    if process.poll() is not None:
                        del running[name]
                        failed += [known[name]] if process.returncode else []
                look(list(running))
                if running:
                    time.sleep(SECONDS_BETWEEN_LOOKS)
        finally:
            _stop(list(running.values()))
    if failed:
        names = ", ".join(command.name for command in failed)
        raise UsageError(
            f"{len(failed)} of {len(commands)} processes failed: {names}; the first said: "
            f"{_last_line(failed[0].log)} (all of it: {failed[0].log}); the same command goes on"
        )


def _start(command: Command, variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """In a session of its own, so that Ctrl-C reaches this process alone."""
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
    if not processes:
        return
    print("stopping; runs write a checkpoint, and the same command goes on", file=sys.stderr)
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
    """Raise KeyboardInterrupt for SIGTERM and SIGHUP too."""
    before = {name: signal.signal(name, signal.default_int_handler) for name in ENDINGS}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").split("\n")
    said = [line.strip() for line in lines if line.strip()]
    return said[-1].removeprefix("delayzero: error: ") if said else "nothing"
