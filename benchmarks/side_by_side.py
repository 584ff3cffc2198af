"""The speed of updates with several processes on one device, relative to one process alone.

    python benchmarks/side_by_side.py                                     (a GPU)
    python benchmarks/side_by_side.py --mps both                          (with and without MPS)
    python benchmarks/side_by_side.py --preset minatar --processes 1 2    (a CPU)

Each process has its own weights and replay, and makes updates in calls, as training does. The
baseline, one process alone without MPS, is measured first. Then as many processes as the largest
number are started, each with the share of cores and memory that ``delayzero compare --jobs`` would
give it. When the last one has compiled, they work while others wait, for each number of processes:

- ``milliseconds_per_update``: of one process, the mean over processes.
- ``relative_rate``: updates per second of all processes together, in units of one process alone.
- ``whole_runs_in_the_time_of_one``: the number of processes, divided by the slowdown of the slowest
  one relative to one process alone.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from parts import compiled_update, filled_replay, report, system_of

from delayzero.arguments import whole
from delayzero.campaigns.engine import endings_as_interrupts
from delayzero.campaigns.mps import PIPES, daemon_runs, has_gpu, shared_gpu
from delayzero.campaigns.processes import environment

READY = "ready"
Made = tuple[int, float]
"""The number of updates that a process made, and the seconds they took."""


def work(options: argparse.Namespace) -> None:
    """Run as a worker: compile, report that it is ready, measure and print for each line read."""
    system = system_of(*options.preset)
    replay = filled_replay(system, options.positions // system.config.envs)
    state = jax.jit(system.first_state)(jax.random.key(0))
    arguments = (state, replay, jax.random.key(1), jnp.int32(options.updates))
    update = compiled_update(system, *arguments)
    jax.block_until_ready(update(*arguments))
    print(READY, flush=True)
    while sys.stdin.readline():
        begun, made, spent = time.perf_counter(), 0, 0.0
        while not made or spent < options.seconds:
            jax.block_until_ready(update(*arguments))
            made, spent = made + options.updates, time.perf_counter() - begun
        print(json.dumps((made, spent)), flush=True)


def measured(counts: Sequence[int], variables: Mapping[str, str]) -> list[list[Made]]:
    """Return the updates and seconds of each process, for each number of parallel processes.

    As many processes as the largest number are started, once; those that are not measured wait.
    """
    words = [sys.executable, __file__, *sys.argv[1:], "--worker"]
    workers = [
        subprocess.Popen(
            words, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(max(counts, default=0))
    ]
    try:
        for worker in workers:
            while _line(worker) != READY:
                pass
        results = [_measured_once(workers[:count]) for count in counts]
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.close()
            worker.wait()  # the next workers need its memory
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    return results


def _measured_once(workers: Sequence[subprocess.Popen[str]]) -> list[Made]:
    """Return the updates and seconds of processes that are ready, measured at the same time."""
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    made = [json.loads(_line(worker)) for worker in workers]
    return [(updates, seconds) for updates, seconds in made]


def _line(worker: subprocess.Popen[str]) -> str:
    assert worker.stdout is not None
    line = worker.stdout.readline()
    if not line:
        sys.exit("side_by_side: a process failed; its error is above")
    return line.strip()


def figures(made: Sequence[Made], alone: Made) -> dict[str, float]:
    """Return the figures of parallel processes; see the top of this file."""
    times = [seconds / updates for updates, seconds in made]
    time_alone = alone[1] / alone[0]
    return {
        "processes": len(made),
        "milliseconds_per_update": round(1e3 * statistics.mean(times), 3),
        "relative_rate": round(sum(time_alone / each for each in times), 3),
        "whole_runs_in_the_time_of_one": round(len(made) * time_alone / max(times), 3),
    }


def compared(counts: Sequence[int], mps: str) -> list[dict[str, Any]]:
    """Return the figures for each number of processes, with MPS, without, or both.

    Args:
        counts: Numbers of processes.
        mps: ``auto`` (if it is available), ``on``, ``off`` or ``both``.
    """
    counts = sorted({1, *counts})
    most = counts[-1] if mps != "off" else 1
    with tempfile.TemporaryDirectory() as folder, shared_gpu(most) as daemon:
        nowhere, cache = {PIPES: folder}, Path(folder) / "compiled"
        shared = most > 1 and (bool(daemon) or (has_gpu() and daemon_runs()))
        if mps in ("on", "both") and not shared:
            sys.exit("side_by_side: no MPS here; type --mps off")
        ((alone,),) = measured([1], environment(cache, 1) | nowhere)
        results: list[dict[str, Any]] = [{"mps": False, **figures([alone], alone)}]
        for used in (False, True) if mps == "both" else (shared,):
            variables = environment(cache, counts[-1], daemon) | ({} if used else nowhere)
            for made in measured(counts if used else counts[1:], variables):
                results.append({"mps": used, **figures(made, alone)})
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--preset", nargs="+", default=["atari"], help="one or several (default: atari)"
    )
    parser.add_argument("--processes", type=whole(1), nargs="+", default=[1, 2, 3, 4], metavar="N")
    parser.add_argument("--mps", choices=("auto", "on", "off", "both"), default="auto")
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="seconds of updates in each process"
    )
    parser.add_argument("--updates", type=whole(1), default=64, help="updates in one call")
    parser.add_argument(
        "--positions", type=int, default=20_000, help="positions stored in each replay"
    )
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options)
        return
    with endings_as_interrupts():
        results = compared(options.processes, options.mps)
    report(
        "side_by_side",
        {
            "preset": " ".join(options.preset),
            "positions": options.positions,
            "updates_per_call": options.updates,
            "seconds": options.seconds,
            "results": results,
        },
    )


if __name__ == "__main__":
    main()
