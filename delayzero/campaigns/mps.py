"""Several processes on one NVIDIA GPU, through NVIDIA's Multi-Process Service (MPS).

Without MPS, processes take turns on the GPU. With MPS, kernels of several processes run at the same
time.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path

from delayzero.campaigns.engine import endings_as_interrupts

CONTROL = "nvidia-cuda-mps-control"
PIPES = "CUDA_MPS_PIPE_DIRECTORY"
LOGS = "CUDA_MPS_LOG_DIRECTORY"
DEFAULT_PIPES = Path("/tmp/nvidia-mps")
"""Where processes look for a daemon if ``CUDA_MPS_PIPE_DIRECTORY`` is not set."""
LONGEST_PLACE = 50
"""Most characters of the temporary directory's path: paths of sockets are limited to 107."""
TIMEOUT_SECONDS = 60
"""Time limit of each call of NVIDIA's programs."""


@contextmanager
def shared_gpu(jobs: int) -> Iterator[dict[str, str]]:
    """Run a private MPS daemon, and stop it at the end.

    No daemon is started for a single process, without an NVIDIA GPU or NVIDIA's program, if one is
    already running, or if the user has set where to look for one. If the daemon fails to start, a
    line on stderr says so. While it runs, SIGTERM and SIGHUP interrupt as Ctrl-C does, so that it
    is always stopped.

    Args:
        jobs: How many processes run at the same time.

    Yields:
        The environment variables by which processes find the daemon; empty if none was started.
    """
    users_own = PIPES in os.environ or daemon_runs()
    if jobs <= 1 or users_own or not has_gpu() or shutil.which(CONTROL) is None:
        yield {}
        return
    with endings_as_interrupts():
        variables = _start()
        try:
            yield variables
        finally:
            if variables:
                _stop(variables)


def has_gpu() -> bool:
    """Whether JAX can use an NVIDIA GPU."""
    return bool(gpus())


def gpus() -> list[str]:
    """The NVIDIA GPUs that JAX can use, by their names in ``CUDA_VISIBLE_DEVICES``.

    Asks nvidia-smi: asking JAX would open them.
    """
    platform = os.environ.get("JAX_PLATFORMS", "").split(",")[0].strip().lower()
    if platform == "cpu" or shutil.which("nvidia-smi") is None:
        return []
    try:
        listed = subprocess.run(
            ["nvidia-smi", "-L"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    if listed.returncode != 0:
        return []
    there = [str(i) for i, _ in enumerate(re.findall("^GPU ", listed.stdout, re.MULTILINE))]
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if not there or chosen is None:
        return there
    names = [name.strip() for name in chosen.split(",")]
    # As CUDA does: the first name that stands for no GPU ends the list. Others may be UUIDs.
    return list(takewhile(lambda name: name in there or name[:4] in ("GPU-", "MIG-"), names))


def daemon_runs() -> bool:
    """Whether a daemon is running where this process would look for one."""
    place = Path(os.environ.get(PIPES, DEFAULT_PIPES))
    try:
        process = int((place / f"{CONTROL}.pid").read_text())
    except (OSError, ValueError):
        return False
    return Path(f"/proc/{process}").exists()


def _start() -> dict[str, str]:
    """Start a daemon in a new folder; return its variables, or none if it fails to start."""
    place = tempfile.gettempdir() if len(tempfile.gettempdir()) <= LONGEST_PLACE else "/tmp"
    folder = Path(tempfile.mkdtemp(prefix="dz-mps-", dir=place))
    variables = {PIPES: str(folder / "pipe"), LOGS: str(folder / "log")}
    for name in variables.values():
        Path(name).mkdir()
    try:
        problem = _launch(variables)
    except (OSError, subprocess.SubprocessError) as error:
        problem = str(error)
    if not problem:
        return variables
    shutil.rmtree(folder, ignore_errors=True)
    print(f"{CONTROL} failed, processes take turns on the GPU: {problem}", file=sys.stderr)
    return {}


def _launch(variables: Mapping[str, str]) -> str:
    """Start the daemon; return the error message, empty if it runs."""
    with tempfile.TemporaryFile("w+") as output:  # not a pipe: the daemon keeps it open
        code = subprocess.run(
            [CONTROL, "-d"],
            env=_environment(variables),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            timeout=TIMEOUT_SECONDS,
            start_new_session=True,  # Ctrl-C does not reach it
        ).returncode
        output.seek(0)
        message = " ".join(output.read().split())
    return "" if code == 0 else message or f"exit code {code}"


def _stop(variables: Mapping[str, str]) -> None:
    """Stop the daemon and delete its folder; keep the folder if the daemon does not stop."""
    try:
        subprocess.run(
            [CONTROL],
            env=_environment(variables),
            input=b"quit\n",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=TIMEOUT_SECONDS,
            start_new_session=True,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        print(
            f"{CONTROL} did not stop; type: echo quit | {PIPES}={variables[PIPES]} {CONTROL}",
            file=sys.stderr,
        )
    else:
        shutil.rmtree(Path(variables[PIPES]).parent, ignore_errors=True)


def _environment(variables: Mapping[str, str]) -> dict[str, str]:
    """The environment variables of the daemon, without CUDA_VISIBLE_DEVICES: it serves all GPUs.

    With that variable it would renumber the GPUs, and processes that have the same variable would
    not find theirs.
    """
    environment = {**variables, **os.environ}
    environment.pop("CUDA_VISIBLE_DEVICES", None)
    return environment
