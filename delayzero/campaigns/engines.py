"""Where runs run: the choice between processes of this machine and a Ray cluster."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from delayzero.arguments import Parser, UsageError, whole
from delayzero.campaigns.cluster import Share, cluster_of, connected
from delayzero.campaigns.engine import Engine
from delayzero.campaigns.mps import gpus, shared_gpu
from delayzero.campaigns.processes import Processes, environment
from delayzero.progress import say

USUAL_JOBS = 2
EngineName = Literal["processes", "ray"]


@dataclass(frozen=True)
class Where:
    """Where runs run, and at most how many at a time."""

    engine: EngineName | None = None
    """None: Ray if there is an address, processes otherwise."""
    address: str | None = None
    """The Ray cluster's address; None starts one on this machine."""
    jobs: int | None = None
    """The most runs at a time; None: as many as there is room for."""
    share: Share = field(default_factory=Share)
    """What a run takes of a machine."""

    def __post_init__(self) -> None:
        """Validate the fields."""
        if self.address is not None and self.engine == "processes":
            raise UsageError(
                "--address is the address of a Ray cluster; leave it out, or --engine processes"
            )

    @property
    def on_ray(self) -> bool:
        """Whether runs are tasks of a Ray cluster."""
        return self.engine == "ray" or self.address is not None


def jobs_of(share: Share) -> int:
    """How many runs this machine can hold, by the share that each takes.

    With GPUs that is what fits on all of them; without, the number of cores. For a share of neither
    it is two.
    """
    if share.gpus is not None and (there := gpus()):
        return len(there) * max(1, math.floor(1 / share.gpus + 1e-9))
    if share.cores is not None:
        return max(1, int(len(os.sched_getaffinity(0)) // share.cores))
    return USUAL_JOBS


def add_where(parser: Parser, jobs_help: str) -> None:
    """Add the options ``--jobs``, ``--engine`` and ``--address``.

    Args:
        parser: The parser of a command.
        jobs_help: The default of ``--jobs``, in words.
    """
    parser.add_argument(
        "--jobs",
        type=whole(1),
        metavar="N",
        help=f"processes that run at the same time (default: {jobs_help})",
    )
    parser.add_argument(
        "--engine",
        choices=get_args(EngineName),
        help="where they run: processes of this machine, or a Ray cluster (default: ray with "
        "--address, processes without)",
    )
    parser.add_argument(
        "--address",
        help="address of a Ray cluster, `auto` for the one on this machine (default with --engine "
        "ray: start one on this machine)",
    )


@contextmanager
def open_engine(where: Where, cache: Path, runs: int) -> Iterator[tuple[Engine, int]]:
    """Open an engine.

    Args:
        where: The kind of engine.
        cache: The folder of compiled programs.
        runs: How many runs there are.

    Yields:
        The engine, and how many runs it has room for at the same time.

    Raises:
        UsageError: There is no such cluster, or it has no room for a run.
    """
    share = where.share
    if not where.on_ray:
        jobs, there = min(where.jobs or jobs_of(share), runs), gpus()
        if share.gpus is not None and not there:
            say("each run should have a share of a GPU, and there is none: runs use the CPU")
        # A single run that asks for no share may have all GPUs.
        own = there if jobs > 1 or share.gpus is not None else []
        count = max(1, len(own))
        with shared_gpu(math.ceil(jobs / count)) as daemon:
            yield Processes(jobs, environment(cache, jobs, daemon, count), own), jobs
        return
    most = min(where.jobs or runs, runs)
    sharing = share.gpus is not None and share.gpus < 1
    here: AbstractContextManager[dict[str, str]] = nullcontext({})
    if where.address is None and sharing:
        here = shared_gpu(2)
    with here as daemon, connected(where.address) as ray:
        cluster = cluster_of(ray, share, most, cache.absolute(), daemon)
        yield cluster, cluster.room()
