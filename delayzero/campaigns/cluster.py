"""The engine that runs each command as a task of a Ray cluster.

The nodes share the campaign's folder and the current one, and have this package installed.
"""

from __future__ import annotations

import logging
import math
import os
import signal
import socket
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from delayzero.arguments import UsageError
from delayzero.campaigns.engine import Command
from delayzero.campaigns.processes import GPU_SHARE, compiled_in, spawn
from delayzero.extras import require

LOOPBACK = "127.0.0.1"
LOOPBACK_ALONE = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""Ray then binds to the loopback address; otherwise to all interfaces, without a password."""
START_ONE = "start one as docs/scale.md shows, or leave out --address"
HAS_TOKEN = "if the cluster has a token, type: export RAY_AUTH_MODE=token"
OTHER_TOKEN = "if it has another token than this machine, copy ~/.ray/auth_token from its head"
SECONDS_BETWEEN_POLLS = 0.2


@dataclass(frozen=True)
class Share:
    """What a run or an actor takes of a node."""

    gpus: float | None = None
    cores: float | None = None

    @property
    def cpus(self) -> float:
        """The cores that Ray sets aside: one for a run that has neither cores nor a GPU."""
        return self.cores or (0 if self.gpus else 1)

    def fits(self, resources: Mapping[str, float]) -> int:
        """How many fit on a node with these resources."""
        rooms = []
        if self.gpus:
            rooms.append(int(resources.get("GPU", 0)) * math.floor(1 / self.gpus + 1e-9))
        if self.cpus:
            rooms.append(int(resources.get("CPU", 0) // self.cpus))
        return min(rooms)

    def variables(self) -> dict[str, str]:
        """The environment variables by which a process keeps to its share.

        Ray hides no GPU from a process that takes none.
        """
        ours = {} if self.gpus else {"JAX_PLATFORMS": "cpu"}
        if self.cores:
            ours["NPROC"] = str(math.ceil(self.cores))  # threads of XLA
        if self.gpus and self.gpus < 1:
            ours["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
            ours["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{GPU_SHARE * self.gpus:.4f}"
        return ours


@contextmanager
def connected(address: str | None, *, cores: int | None = None) -> Iterator[Any]:
    """Connect to a Ray cluster, or start one on this machine that no other machine can reach.

    Args:
        address: The cluster's address, ``auto`` for the one that runs on this machine; None starts
            one, which ends with the block. A process that is connected to a cluster already keeps
            to that one.
        cores: How many cores a cluster that is started here counts; by default the machine's.

    Yields:
        The module ``ray``.

    Raises:
        MissingExtraError: Ray is not installed.
        UsageError: There is no cluster at the address.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if address is None:
        os.environ.update(LOOPBACK_ALONE)  # Ray reads it when it is imported
    ray = require("ray", "ray")
    if ray.is_initialized():
        yield ray
        return
    if address is not None:
        os.environ.setdefault("RAY_gcs_server_port_wait_time_s", "1")  # it would try for minutes
        _check_answers(address)
    own: dict[str, Any] = {}
    if address is None:
        own = {"include_dashboard": False, "_node_ip_address": LOOPBACK, "num_cpus": cores}
    before = signal.getsignal(signal.SIGTERM)
    try:
        with warnings.catch_warnings():  # JAX warns of the forks, which become Ray's programs
            warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
            ray.init(address or "local", log_to_driver=False, logging_level=logging.ERROR, **own)
    except (ConnectionError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
        said = str(error).partition("\n")[0]
        if address is None:
            raise UsageError(f"Ray does not start here: {said}") from None
        token = OTHER_TOKEN if os.environ.get("RAY_AUTH_MODE") == "token" else HAS_TOKEN
        raise UsageError(f"--address {address}: {said}; {START_ONE}; {token}") from None
    in_main = threading.current_thread() is threading.main_thread()
    if in_main:  # Ray replaced it by one that aborts; whoever saves work replaces it again
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if address is None and ray.nodes()[0]["NodeManagerAddress"] != LOOPBACK:
            raise UsageError(
                f"this version of Ray does not stay on {LOOPBACK}; start a cluster yourself and "
                "type --address auto, or leave out --engine ray"
            )
        yield ray
    finally:
        ray.shutdown()
        if in_main:
            signal.signal(signal.SIGTERM, before)


def _check_answers(address: str) -> None:
    """Check that something listens at an address of the form ``HOST:PORT``.

    Raises:
        UsageError: Nothing does; Ray would take minutes to say so.
    """
    host, _, port = address.rpartition(":")
    if "://" in address or not host or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except (OSError, OverflowError) as error:
        raise UsageError(
            f"--address {address}: no Ray cluster answers there ({error}); {START_ONE}"
        ) from None


@dataclass(frozen=True)
class Cluster:
    """Tasks of a Ray cluster: as many at a time as its nodes have room for, at most ``most``."""

    ray: Any
    share: Share
    most: int
    variables: Mapping[str, str]
    """Environment variables of the commands; those of a node take precedence."""

    def room(self) -> int:
        """How many commands the nodes that are there now can run at the same time."""
        return min(self.most, sum(self.share.fits(node) for node in nodes_of(self.ray)))

    def has_room(self, running: int) -> bool:
        """Whether another command can start beside this many."""
        return running < self.room()

    def start(self, command: Command) -> ClusterTask:
        """Hand a command to Ray. It starts when Ray finds room for it, which others may take."""
        resources = {"num_gpus": self.share.gpus or 0, "num_cpus": self.share.cpus}
        task = self.ray.remote(work).options(name=command.name, max_retries=0, **resources)
        log = command.log.absolute()
        return ClusterTask(
            self.ray, task.remote(command.words, log, dict(self.variables), Path.cwd()), log
        )


@dataclass(frozen=True)
class ClusterTask:
    """A command that was handed to Ray."""

    ray: Any
    result: Any
    """The reference to its exit code."""
    log: Path

    def exit_code(self) -> int | None:
        """The exit code, negative for a signal; None while the command is not over."""
        ready, _ = self.ray.wait([self.result], timeout=0)
        if not ready:
            return None
        try:
            return int(self.ray.get(self.result))
        except self.ray.exceptions.RayError as error:  # the node is gone, or the worker
            self.log.parent.mkdir(parents=True, exist_ok=True)
            with self.log.open("a") as log:
                print(f"Ray: {' '.join(str(error).split())}", file=log)
            return 1

    def stop(self) -> None:
        """Ask the command to save its work and end."""
        self.ray.cancel(self.result)

    def kill(self) -> None:
        """End the command at once."""
        self.ray.cancel(self.result, force=True)

    def wait(self) -> None:
        """Wait until the command has ended."""
        self.ray.wait([self.result])


def work(words: Sequence[str], log: Path, variables: Mapping[str, str], folder: Path) -> int:
    """Run a command on a node; return its exit code.

    Args:
        words: The words after ``python -m``.
        log: The file to which its output and errors are appended.
        variables: Its environment variables, besides those of the node.
        folder: Where it runs.
    """
    process = spawn(words, log, {**variables, **os.environ}, folder)
    try:
        while process.poll() is None:  # wait() would not notice that Ray cancels the task
            time.sleep(SECONDS_BETWEEN_POLLS)
    except KeyboardInterrupt:
        process.terminate()
    return process.wait()


def cluster_of(
    ray: Any, share: Share, most: int, cache: Path, daemon: Mapping[str, str]
) -> Cluster:
    """Make the engine.

    Args:
        ray: The module, connected.
        share: What a run takes of a node.
        most: The most runs at a time.
        cache: The folder of compiled programs.
        daemon: The variables of :func:`~delayzero.campaigns.mps.shared_gpu`.

    Raises:
        UsageError: No node has room for a run.
    """
    fits = {i: share.fits(node) for i, node in enumerate(nodes_of(ray))}
    if not any(fits.values()):
        what = f"{share.gpus:g} GPUs" if share.gpus else ""
        cores = f"{share.cpus:g} cores" if share.cpus else ""
        raise UsageError(
            f"no node of the cluster has {' and '.join(filter(None, (what, cores)))}, which each "
            "run should have; change the share, or type another --address"
        )
    return Cluster(ray, share, most, {**daemon, **compiled_in(cache), **share.variables()})


def nodes_of(ray: Any) -> list[dict[str, float]]:
    """The resources of each node that is alive."""
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]
