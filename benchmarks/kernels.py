"""Which kernels an update spends its time in, on a GPU.

    python benchmarks/kernels.py --preset atari

A profile of one compiled call of many updates: how much of the time the device is busy, how many
kernels an update launches, the time of its parts, and the kernels that take longest, each with the
operation that it is for.
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
    """What ran on the device's streams, from the trace that JAX's profiler left."""
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
"""What belongs to which part of an update; the first that fits."""


def operations(program: str) -> dict[str, str]:
    """Where each instruction of a compiled program comes from, by its name and its kernel's."""
    found: dict[str, str] = {}
    for line in program.splitlines():
        instruction = re.match(r"^\s+(?:ROOT )?%?([\w.-]+) = ", line)
        operation = re.search(r'op_name="([^"]*)"', line)
        if instruction and operation:
            for name in (instruction[1], re.sub(r"[.-]", "_", instruction[1])):
                found[name] = operation[1]
    return found


def part_of(operation: str) -> str:
    """The part of an update that an operation belongs to."""
    for part, pattern in PARTS.items():
        if re.search(pattern, operation):
            backward = "transpose(" in operation
            return f"{part}, backward" if backward else part
    return "the rest"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="atari")
    parser.add_argument("--positions", type=int, default=20_000, help="stored in the replay")
    parser.add_argument("--updates", type=int, default=16, help="in the profile")
    parser.add_argument("--most", type=int, default=40, help="kernels to print")
    options = parser.parse_args()
    system = system_of(options.preset)
    replay = filled_replay(system, options.positions // system.config.envs)
    state = jax.jit(system.first_state)(jax.random.key(0))
    arguments = (state, replay, jax.random.key(1), jnp.int32(options.updates))
    update = compiled_update(system, *arguments)
    came_from = operations(update.as_text() or "")
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
        # In a CUDA graph only the kernel's own name tells where it comes from.
        instruction = event.get("args", {}).get("hlo_op", "")
        operation = came_from.get(instruction) or came_from.get(event["name"], "")
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
    """Milliseconds and launches of each group in an update, the longest first."""
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
