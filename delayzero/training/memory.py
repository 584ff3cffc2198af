"""Checks before the first step that a run fits into memory."""

from __future__ import annotations

import math
import os
from typing import Any

import jax

from delayzero.arguments import UsageError
from delayzero.learning.devices import learner_devices
from delayzero.playing.system import System
from delayzero.settings import LearningConfig, TrainConfig

SHARE_FOR_FRAMES = 0.6
"""Share of the device memory that frames may take by default."""
GIGA = 1e9


def device_bytes() -> int:
    """Return the free memory of the device; for a CPU, that of the machine."""
    stats = jax.local_devices()[0].memory_stats() or {}
    if "bytes_limit" in stats:
        return int(stats["bytes_limit"]) - int(stats.get("bytes_in_use", 0))
    return host_bytes()


def peak_gigabytes() -> float | None:
    """Return the peak of device memory used by this process; None if it is unknown."""
    stats = jax.local_devices()[0].memory_stats() or {}
    peak = stats.get("peak_bytes_in_use")
    return None if peak is None else round(peak / GIGA, 2)


def host_bytes() -> int:
    """Return the free memory of the machine."""
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def allowed_bytes(config: TrainConfig) -> int:
    """Return the device memory that a run may use."""
    free = device_bytes()
    allowed = config.memory_gigabytes
    return free if allowed is None else min(free, round(allowed * GIGA))


def frame_bytes(system: System) -> int:
    """Return the size of the replay's frames."""
    spaces = system.spaces
    count = system.replay_rows * system.config.envs
    return count * math.prod(spaces.shape) * spaces.dtype.itemsize


def frames_on_host(system: System) -> tuple[bool, str]:
    """Return whether the frames stay on the host, and a message about it.

    Raises:
        UsageError: They fit neither on the device nor on the host.
    """
    config, devices = system.config, learner_devices(system.config)
    needed = frame_bytes(system)
    budget = config.replay.device_gigabytes if isinstance(config, LearningConfig) else None
    room = SHARE_FOR_FRAMES * allowed_bytes(system.config) if budget is None else budget * GIGA
    if needed <= room * devices:
        return False, ""
    where = "the device" if devices == 1 else f"each of {devices} devices"
    message = (
        f"the replay's frames take {needed / GIGA:.2f} GB, more than the {room / GIGA:.2f} GB "
        f"allowed for them on {where}"
    )
    if needed > host_bytes():
        raise UsageError(
            f"{message}, and the host has {host_bytes() / GIGA:.2f} GB free; type "
            f"--replay.capacity {int(system.config.interactions * host_bytes() / needed / 2)} "
            "or less"
        )
    return True, f"{message}: they stay on the host, which is slower"


def tree_bytes(tree: Any) -> int:
    """Return the size of a tree's arrays, or of arrays with these shapes."""
    return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def working_bytes(compiled: Any) -> int:
    """Return what a compiled function needs besides its arguments, as reported by XLA."""
    analysis = compiled.memory_analysis()
    return int(getattr(analysis, "temp_size_in_bytes", 0) or 0)


def check_fits(kept: int, working: int, have: int) -> None:
    """Check that a run fits on the device.

    Args:
        kept: Bytes of the replay, the weights and the optimiser.
        working: Bytes that the largest compiled function needs besides them.
        have: Bytes that the run may use.

    Raises:
        UsageError: It does not fit; the message says what to type.
    """
    if kept + working > have:
        raise UsageError(
            f"this run needs {(kept + working) / GIGA:.2f} GB ({kept / GIGA:.2f} GB for replay and "
            f"weights, {working / GIGA:.2f} GB to compute an update), and "
            f"{have / GIGA:.2f} GB are free or allowed by --memory-gigabytes; type a smaller "
            "--learner.batch-size, --reanalysis.roots or --replay.capacity, or keep frames on the "
            "host with a smaller --memory-gigabytes or --replay.device-gigabytes 0"
        )
