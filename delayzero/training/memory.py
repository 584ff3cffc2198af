"""Checks before the first step that a run fits into memory."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from delayzero.actions import Queue
from delayzero.arguments import UsageError
from delayzero.learning.devices import learner_devices
from delayzero.model.build import kind_of
from delayzero.playing.system import System
from delayzero.settings import LearningConfig, SearchingConfig, TrainConfig

SHARE_FOR_FRAMES = 0.6
"""Share of the device memory that frames may take by default."""
GIGA = 1e9
SIMULATIONS = "--search.simulations"
SIZES = {
    "mlp": "--model.width, --model.latent or --model.lstm",
    "conv": "--model.channels, --model.head or --model.lstm",
    "atari": "--model.support",
}
"""The options with the sizes of the networks, by their kind."""


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


class Need(NamedTuple):
    """Memory that a run needs for one purpose."""

    size: int
    """Bytes."""
    purpose: str
    """Such as ``"for the replay"``."""
    options: str
    """What to type a smaller value of."""


def replay_need(system: System, size: int, *, host_frames: bool) -> Need:
    """Return what the replay takes of a device."""
    options = "--envs or --rows"
    if isinstance(system.config, LearningConfig):
        options = "--replay.capacity"
        if not host_frames:
            options += (
                ", or keep frames on the host with a smaller --memory-gigabytes or "
                "--replay.device-gigabytes 0"
            )
    return Need(size, "for the replay", options)


def weights_need(system: System, size: int) -> Need:
    """Return what the weights and the optimiser take."""
    options, config = "--q.width", system.config
    if isinstance(config, SearchingConfig):
        options = SIZES[kind_of(config.model, system.spaces.shape)]
    return Need(size, "for weights and optimiser", options)


def search_need(system: System, variables: Any) -> Need:
    """Return what the trees of the largest search take of a device; nothing without a search.

    Args:
        system: The run's parts.
        variables: The model's variables, or their shapes.
    """
    config = system.config
    if not isinstance(config, SearchingConfig):
        return Need(0, "for searches", "")
    devices = learner_devices(config)
    roots = {"--envs": config.envs, "--final-episodes": config.final_episodes}
    if config.evaluate_every:
        roots["--evaluate-episodes"] = config.evaluate_episodes
    if system.sweeps:
        roots["--reanalysis.roots"] = -(-config.sweep_roots // devices)
    else:
        states = config.learner.unroll + 1  # and the rows after them, if targets need it
        roots["--learner.batch-size"] = -(-config.batch_size * states // devices)
    most = max(roots, key=lambda option: roots[option])
    model, width = system.planner.model, system.agent.queue_width or 0

    def latents(variables: Any) -> Array:
        stack = jnp.zeros((roots[most], config.stack, *system.spaces.shape), system.spaces.dtype)
        shape = (roots[most], width)
        queue = Queue(jnp.zeros(shape, jnp.int32), jnp.zeros(shape, bool))
        return model.bind(variables).represent(stack, queue)

    size = system.planner.tree_bytes(variables, jax.eval_shape(latents, variables))
    return Need(size, f"for searches from {roots[most]} positions", f"{SIMULATIONS} or {most}")


def working_need(config: TrainConfig, name: str, size: int) -> Need:
    """Return what a compiled function needs besides its arguments.

    Args:
        config: The run.
        name: Of the function: that of a program of learning, or ``"self-play"``.
        size: Bytes.
    """
    searching = isinstance(config, SearchingConfig)
    batch_size = "--learner.batch-size" if searching else "--q.batch-size"
    options = {"sweep": "--reanalysis.roots", "fresh": "--rows", "self-play": "--envs"}
    option = options.get(name, batch_size)
    searches = name in ("sweep", "self-play") and searching
    return Need(size, f"to compute ({name})", f"{SIMULATIONS} or {option}" if searches else option)


def check_fits(needs: Iterable[Need], have: int) -> None:
    """Check that a run fits on the device.

    Args:
        needs: What it needs.
        have: Bytes that the run may use.

    Raises:
        UsageError: It does not fit; the message says what takes the most, and what to type.
    """
    ordered = sorted(needs, key=lambda need: need.size, reverse=True)
    total = sum(need.size for need in ordered)
    if total > have:
        parts = ", ".join(f"{need.size / GIGA:.2f} GB {need.purpose}" for need in ordered)
        raise UsageError(
            f"this run needs {total / GIGA:.2f} GB ({parts}), and {have / GIGA:.2f} GB are free or "
            f"allowed by --memory-gigabytes; type a smaller {ordered[0].options}"
        )
