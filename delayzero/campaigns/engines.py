"""Where the runs of a campaign run: the choice between processes and a Ray cluster."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from delayzero.arguments import UsageError
from delayzero.campaigns.cluster import Share, cluster_of, connected
from delayzero.campaigns.engine import Engine
from delayzero.campaigns.mps import has_gpu, shared_gpu
from delayzero.campaigns.plan import Campaign
from delayzero.campaigns.processes import Processes, environment
from delayzero.progress import say

USUAL_JOBS = 2
EngineName = Literal["processes", "ray"]


@dataclass(frozen=True)
class Where:
    """Where runs run, and at most how many at a time."""

    engine: EngineName = "processes"
    address: str | None = None
    """The Ray cluster's address; None starts one on this machine."""
    jobs: int | None = None
    """The most runs at a time; None: as many as there is room for."""

    def __post_init__(self) -> None:
        """Validate the fields."""
        if self.address is not None and self.engine != "ray":
            raise UsageError("--address is the address of a Ray cluster; type --engine ray too")


def jobs_of(campaign: Campaign) -> int:
    """How many runs this machine can hold, by the share that each takes.

    With a GPU that is the share of one GPU; without, the number of cores. A plan that has neither
    gets two.
    """
    if campaign.gpus is not None and has_gpu():
        return max(1, math.floor(1 / campaign.gpus + 1e-9))
    if campaign.cores is not None:
        return max(1, len(os.sched_getaffinity(0)) // campaign.cores)
    return USUAL_JOBS


@contextmanager
def open_engine(
    where: Where, campaign: Campaign, root: Path, runs: int
) -> Iterator[tuple[Engine, int]]:
    """Open the engine of a campaign.

    Args:
        where: The kind of engine.
        campaign: The plan, which says what a run takes of a machine.
        root: The campaign's folder.
        runs: How many runs there are.

    Yields:
        The engine, and how many runs it has room for at the same time.

    Raises:
        UsageError: There is no such cluster, or it has no room for a run.
    """
    cache = root / "compiled"
    if where.engine == "processes":
        jobs = min(where.jobs or jobs_of(campaign), runs)
        if campaign.gpus is not None and not has_gpu():
            say("the plan gives each run a share of a GPU, and there is none: runs use the CPU")
        with shared_gpu(jobs) as daemon:
            yield Processes(jobs, environment(cache, jobs, daemon)), jobs
        return
    share, most = Share(campaign.gpus, campaign.cores), min(where.jobs or runs, runs)
    sharing = campaign.gpus is not None and campaign.gpus < 1
    here: AbstractContextManager[dict[str, str]] = nullcontext({})
    if where.address is None and sharing:
        here = shared_gpu(2)
    with here as daemon, connected(where.address) as ray:
        cluster = cluster_of(ray, share, most, cache.absolute(), daemon)
        yield cluster, cluster.room()
