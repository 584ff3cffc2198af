"""Which kernels an update spends its time in, on a GPU.

    python benchmarks/kernels.py --preset atari

A profile of one compiled call of many updates: how much of the time the device is busy, how many
kernels an update launches, and the kernels that take longest, with the operation each is part of.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from parts import filled_replay, report, system_of


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
    update = jax.jit(system.learner.update)
    arguments = (state, replay, jax.random.key(1), jnp.int32(options.updates))
    jax.block_until_ready(update(*arguments))
    begun = time.perf_counter()
    jax.block_until_ready(update(*arguments))
    spent = (time.perf_counter() - begun) * 1e3
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            jax.block_until_ready(update(*arguments))
        events = kernel_events(Path(folder))
    totals: dict[str, float] = defaultdict(float)
    counts: dict[str, int] = defaultdict(int)
    source: dict[str, str] = {}
    for event in events:
        name = event["name"]
        totals[name] += event["dur"] / 1e3
        counts[name] += 1
        source[name] = str(event.get("args", {}).get("name", ""))[-90:]
    kernels = [
        {
            "kernel": name[:80],
            "milliseconds": round(totals[name] / options.updates, 4),
            "launches": round(counts[name] / options.updates, 1),
            "part": source[name],
        }
        for name in sorted(totals, key=lambda name: -totals[name])[: options.most]
    ]
    report(
        "kernels",
        {
            "preset": options.preset,
            "update_milliseconds": round(spent / options.updates, 3),
            "busy_milliseconds": round(sum(totals.values()) / options.updates, 3),
            "launches": round(len(events) / options.updates, 1),
            "kernels": kernels,
        },
    )


if __name__ == "__main__":
    main()
