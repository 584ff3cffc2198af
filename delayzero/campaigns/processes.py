"""The engine that runs each command in a process of this machine."""

from __future__ import annotations

import math
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from delayzero.campaigns.engine import Command
from delayzero.campaigns.leash import leashed

GPU_SHARE = 0.9
"""The share of the GPU's memory that all processes may use together."""


def compiled_in(cache: Path) -> dict[str, str]:
    """The variables by which processes share the compiled programs in a folder."""
    return {
        "JAX_COMPILATION_CACHE_DIR": str(cache.absolute()),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }


def environment(
    cache: Path, jobs: int, daemon: Mapping[str, str] = {}, gpus: int = 1
) -> dict[str, str]:
    """The environment variables of the processes; variables that the user has set take precedence.

    The processes share compiled programs. Each gets an equal share of the cores and of its GPU's
    memory, which it allocates as it needs it.

    Args:
        cache: The folder of compiled programs.
        jobs: How many processes run at the same time.
        daemon: The variables of :func:`~delayzero.campaigns.mps.shared_gpu`.
        gpus: How many GPUs they share.
    """
    ours, on_one = {**daemon, **compiled_in(cache)}, math.ceil(jobs / gpus)
    if jobs > 1:
        ours["NPROC"] = str(max(1, len(os.sched_getaffinity(0)) // jobs))  # threads of XLA
        ours["CUDA_VISIBLE_DEVICES"] = "0"  # they share one GPU, not each of them all
    if on_one > 1:
        ours["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
        if "XLA_CLIENT_MEM_FRACTION" not in os.environ:  # its new name; JAX refuses both
            ours["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{GPU_SHARE / on_one:.4f}"
    return {**ours, **os.environ}


def spawn(
    words: Sequence[str], log: Path, variables: Mapping[str, str], folder: Path | None = None
) -> subprocess.Popen[bytes]:
    """Start a process that is asked to stop if the calling process dies.

    It is in a new session, so that Ctrl-C reaches only the calling process.

    Args:
        words: The words after ``python -m``.
        log: The file to which its output and errors are appended.
        variables: Its environment variables.
        folder: Where it runs; the current folder by default.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        return subprocess.Popen(
            leashed(words),
            env=dict(variables),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


@dataclass(frozen=True)
class Processes:
    """Processes of this machine, at most ``jobs`` at a time."""

    jobs: int
    variables: Mapping[str, str]
    """Their environment variables."""
    gpus: Sequence[str] = ()
    """The GPUs, by their names in ``CUDA_VISIBLE_DEVICES``: a process sees one, the one that the
    fewest others use. Empty: all processes see what the variables say."""
    _users: dict[str, list[subprocess.Popen[bytes]]] = field(default_factory=dict)
    """The processes that were started on each GPU."""

    def has_room(self, running: int) -> bool:
        """Whether another process can start beside this many."""
        return running < self.jobs

    def start(self, command: Command) -> Process:
        """Start a process."""
        variables = dict(self.variables)
        if not self.gpus:
            return Process(spawn(command.words, command.log, variables))
        for gpu in self.gpus:
            self._users[gpu] = [one for one in self._users.get(gpu, []) if one.poll() is None]
        gpu = min(self.gpus, key=lambda name: len(self._users[name]))
        process = spawn(command.words, command.log, {**variables, "CUDA_VISIBLE_DEVICES": gpu})
        self._users[gpu].append(process)
        return Process(process)


@dataclass(frozen=True)
class Process:
    """A process that was started."""

    process: subprocess.Popen[bytes]

    def exit_code(self) -> int | None:
        """The exit code, negative for a signal; None while the process runs."""
        return self.process.poll()

    def stop(self) -> None:
        """Ask the process to save its work and end."""
        self.process.terminate()

    def kill(self) -> None:
        """End the process at once."""
        self.process.kill()

    def wait(self) -> None:
        """Wait until the process has ended."""
        self.process.wait()
