"""Whether a run fits into memory, said before its first step."""

from __future__ import annotations

import math
import os
from typing import Any

import jax

from delayzero.arguments import UsageError
from delayzero.playing.system import System
from delayzero.settings import LearningConfig, TrainConfig

SHARE_FOR_FRAMES = 0.6
GIGA = 1e9


def device_bytes() -> int:
    """The memory that the device may use; the free memory of the machine for a CPU."""
    stats = jax.local_devices()[0].memory_stats() or {}
    if "bytes_limit" in stats:
        return int(stats["bytes_limit"]) - int(stats.get("bytes_in_use", 0))
    return host_bytes()


def peak_gigabytes() -> float | None:
    """The most that was taken of the device's memory in this process; None where it is unknown."""
    stats = jax.local_devices()[0].memory_stats() or {}
    peak = stats.get("peak_bytes_in_use")
    return None if peak is None else round(peak / GIGA, 2)


def host_bytes() -> int:
    """The free memory of the machine."""
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def allowed_bytes(config: TrainConfig) -> int:
    """The memory that a run may take on the device."""
    free = device_bytes()
    allowed = config.memory_gigabytes
    return free if allowed is None else min(free, round(allowed * GIGA))


def frame_bytes(system: System) -> int:
    """What the frames of the replay take."""
    spaces = system.spaces
    count = system.replay_rows * system.config.envs
    return count * math.prod(spaces.shape) * spaces.dtype.itemsize


def frames_on_host(system: System) -> tuple[bool, str]:
    """Whether the frames stay on the host, and a sentence that says so.

    Raises:
        UsageError: Neither the device nor the host has room for them.
    """
    config, needed = system.config, frame_bytes(system)
    budget = config.replay.device_gigabytes if isinstance(config, LearningConfig) else None
    room = SHARE_FOR_FRAMES * allowed_bytes(system.config) if budget is None else budget * GIGA
    if needed <= room:
        return False, ""
    message = (
        f"the replay's frames take {needed / GIGA:.2f} GB, more than the {room / GIGA:.2f} GB "
        "that they may take on the device"
    )
    if needed > host_bytes():
        raise UsageError(
            f"{message}, and the host has {host_bytes() / GIGA:.2f} GB free; type "
            f"--replay.capacity {int(system.config.interactions * host_bytes() / needed / 2)} "
            "or less"
        )
    return True, f"{message}: they stay on the host, which is slower"


def tree_bytes(tree: Any) -> int:
    """What the arrays of a tree take, or would take."""
    return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def working_bytes(compiled: Any) -> int:
    """What a compiled function needs beside its arguments, as far as its compiler says."""
    analysis = compiled.memory_analysis()
    return int(getattr(analysis, "temp_size_in_bytes", 0) or 0)


def check_fits(kept: int, working: int, have: int) -> None:
    """Refuse a run that the device has no room for.

    Args:
        kept: What the replay, the weights and the optimiser take.
        working: What the largest compiled function needs beside them.
        have: What it may take.
    """
    if kept + working > have:
        raise UsageError(
            f"this run needs {(kept + working) / GIGA:.2f} GB ({kept / GIGA:.2f} GB for replay and "
            f"weights, {working / GIGA:.2f} GB to compute an update), and "
            f"{have / GIGA:.2f} GB are free or allowed by --memory-gigabytes; type a smaller "
            "--learner.batch-size, --reanalysis.roots or --replay.capacity, or keep frames on the "
            "host with a smaller --memory-gigabytes or --replay.device-gigabytes 0"
        )
