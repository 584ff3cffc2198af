"""The time of an update by kernels, on a GPU.

    python benchmarks/kernels.py --preset atari

Profiles one compiled call of several updates. Prints how long the device is busy, how many kernels
an update launches, the time of its parts, and the slowest kernels with the operations they compute.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from parts import compiled_update, filled_replay, report, system_of


def kernel_events(folder: Path) -> list[dict[str, Any]]:
    """Return the events on the device's streams, from the trace of JAX's profiler."""
    (path,) = folder.rglob("*.trace.json.gz")
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    names = {
        (event["name"], event["pid"], event.get("tid")): event["args"]["name"]
        for event in events
        if event.get("ph") == "M" and "name" in event.get("args", {})
    }

    def on_device(event: dict[str, Any]) -> bool:
        process = names.get(("process_name", event["pid"], None), "")
        thread = names.get(("thread_name", event["pid"], event["tid"]), "")
        return "GPU" in process and thread.startswith("Stream")

    return [event for event in events if event.get("ph") == "X" and on_device(event)]


PARTS = {
    "batch": r"/batch/",
    "augmentation": r"/augmentation/",
    "real latents": r"real_latents",
    **{name: rf"/{name}[./]" for name in ("encoder", "dynamics", "prefix", "prediction")},
    "projection": r"/(projector|predictor)/",
    "optimiser": r"/while/body/(closed_call/)?[^/]*(/(mul|add|select_n|reduce_sum))?$",
}
"""Patterns of operations for each part of an update; the first match counts."""


def operations(program: str) -> dict[str, str]:
    """Return the operation of each instruction of a program, by its name and its kernel's."""
    by_name: dict[str, str] = {}
    for line in program.splitlines():
        instruction = re.match(r"^\s+(?:ROOT )?%?([\w.-]+) = ", line)
        operation = re.search(r'op_name="([^"]*)"', line)
        if instruction and operation:
            for name in (instruction[1], re.sub(r"[.-]", "_", instruction[1])):
                by_name[name] = operation[1]
    return by_name


def part_of(operation: str) -> str:
    """Return the part of an update that an operation belongs to."""
    for part, pattern in PARTS.items():
        if re.search(pattern, operation):
            backward = "transpose(" in operation
            return f"{part}, backward" if backward else part
    return "the rest"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="atari")
    parser.add_argument(
        "--positions", type=int, default=20_000, help="positions stored in the replay"
    )
    parser.add_argument("--updates", type=int, default=16, help="updates in the profile")
    parser.add_argument("--most", type=int, default=40, help="kernels to print")
    options = parser.parse_args()
    system = system_of(options.preset)
    replay = filled_replay(system, options.positions // system.config.envs)
    state = jax.jit(system.first_state)(jax.random.key(0))
    arguments = (state, replay, jax.random.key(1), jnp.int32(options.updates))
    update = compiled_update(system, *arguments)
    sources = operations(update.as_text() or "")
    jax.block_until_ready(update(*arguments))
    begun = time.perf_counter()
    jax.block_until_ready(update(*arguments))
    spent = (time.perf_counter() - begun) * 1e3
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            jax.block_until_ready(update(*arguments))
        events = kernel_events(Path(folder))
    parts: dict[str, list[float]] = defaultdict(list)
    kernels: dict[tuple[str, str], list[float]] = defaultdict(list)
    for event in events:
        took = event["dur"] / 1e3 / options.updates
        # In a CUDA graph only the kernel's name identifies its operation.
        instruction = event.get("args", {}).get("hlo_op", "")
        operation = sources.get(instruction) or sources.get(event["name"], "")
        parts[part_of(operation)].append(took)
        kernels[event["name"][:60], operation.split("/while/body/")[-1][-110:]].append(took)
    busy = sum(event["dur"] for event in events) / 1e3
    report(
        "kernels",
        {
            "preset": options.preset,
            "update_milliseconds": round(spent / options.updates, 3),
            "busy_milliseconds": round(busy / options.updates, 3),
            "launches": round(len(events) / options.updates, 1),
            "parts": summed(parts, options.updates),
            "kernels": summed(
                {" | ".join(name): took for name, took in kernels.items()}, options.updates
            )[: options.most],
        },
    )


def summed(groups: dict[str, list[float]], updates: int) -> list[dict[str, Any]]:
    """Return the milliseconds and launches of each group per update, the longest first."""
    longest = sorted(groups.items(), key=lambda group: -sum(group[1]))
    return [
        {
            "what": name,
            "milliseconds": round(sum(took), 4),
            "launches": round(len(took) / updates, 1),
        }
        for name, took in longest
    ]


if __name__ == "__main__":
    main()
