"""What a learner on several devices keeps and moves, in bytes; nothing is run, so a CPU will do.

    python benchmarks/scale_sizes.py                    (the preset atari)
    python benchmarks/scale_sizes.py atari --devices 8  (bytes per device, of 8)
    python benchmarks/scale_sizes.py --collectives      (with XLA_FLAGS as in docs/scale.md)

Sizes are those of the arrays' shapes. ``sent`` is what each device sends: of x bytes, a
reduce-scatter or an all-gather sends x (D - 1) / D, an all-reduce twice as much. With
``--collectives``, the update is compiled for all local devices, and what its program exchanges is
counted.
"""

from __future__ import annotations

import argparse
import math
import re
from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
from parts import report, system_of

from delayzero.learning import Learner
from delayzero.learning.learner import LearnerState
from delayzero.playing.system import System
from delayzero.replay import Replay, mesh_of, replicated
from delayzero.training.memory import frame_bytes, tree_bytes

COLLECTIVE = re.compile(
    r"= (.*?) (all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter)(?:-start)?\("
)
ARRAY = re.compile(r"(pred|[a-z]+[0-9]+)\[([0-9,]*)\]")


def batch_sizes(system: System, state: LearnerState, replay: Replay) -> dict[str, int]:
    """Return the bytes of a batch as it is gathered: frames, and the windows of other columns."""
    _, batch = jax.eval_shape(system.learner.batch, state, replay, jax.random.key(0))
    columns = tree_bytes(replay) - frame_bytes(system)
    rows = system.searching.batch_size * (system.learner.window + 1)
    return {
        "frames": tree_bytes([batch.observation, batch.following]),
        "other columns": rows * columns // replay.priority.size,
    }


def sweep_sizes(system: System) -> dict[str, int]:
    """Return the bytes of a chunk of a sweep: frames, and targets."""
    spaces, roots = system.spaces, system.sweep_roots
    frame = tree_bytes(jax.ShapeDtypeStruct(spaces.shape, spaces.dtype))
    target = tree_bytes([jnp.zeros(spaces.actions.count), *(jnp.zeros(()) for _ in range(3))])
    return {"frames": roots * system.config.stack * frame, "targets": roots * target}


def sizes(system: System) -> dict[str, Any]:
    """Return the bytes of everything that is kept or moved."""
    config, learner = system.searching, system.learner
    assert isinstance(learner, Learner)
    state = jax.eval_shape(lambda: system.first_state(jax.random.key(0)))
    replay = jax.eval_shape(system.empty_replay)
    row = system.config.envs * tree_bytes(
        jax.ShapeDtypeStruct(system.spaces.shape, system.spaces.dtype)
    )
    columns = tree_bytes(replay) - frame_bytes(system)
    return {
        "learner": {
            "parameters and statistics": tree_bytes(state.variables),
            "gradient": tree_bytes(state.variables["params"]),
            "optimiser": tree_bytes(state.optimiser),
        },
        "replay": {"frames": frame_bytes(system), "other columns": columns},
        "batch": batch_sizes(system, state, replay),
        "sweep chunk": sweep_sizes(system),
        "candidates of the draw": config.batch_size * 12,
        "round": {
            "weights": tree_bytes(state.variables),
            "frames": config.rows * row,
            "other columns": config.rows * columns // system.replay_rows,
        },
    }


def sent(system: System, made: dict[str, Any], devices: int) -> dict[str, float]:
    """Return the bytes that each of ``devices`` sends, on average per update."""
    config = system.searching
    once = (devices - 1) / devices
    chunks = config.reanalysis.positions_per_update / system.sweep_roots
    sweeps = config.reanalysis.mode == "sweep"
    return {
        "gradient": 2 * once * made["learner"]["gradient"],
        "batch": once * sum(made["batch"].values()),
        "draw": (devices - 1) * made["candidates of the draw"],
        "sweeps": once * chunks * sum(made["sweep chunk"].values()) if sweeps else 0.0,
    }


def collectives(system: System) -> dict[str, Any]:
    """Compile an update for all local devices; return what its program exchanges, by kind.

    Bytes are those of the results on one device.
    """
    mesh = mesh_of(jax.local_device_count())
    state = jax.eval_shape(lambda: system.first_state(jax.random.key(0)))
    replay = system.empty_replay(rows=64, mesh=mesh)
    program = jax.jit(system.learner.update).lower(
        replicated(mesh, state), replay, jax.random.key(0), jnp.int32(1)
    )
    counts: Counter[str] = Counter()
    moved: Counter[str] = Counter()
    for line in (program.compile().as_text() or "").splitlines():
        if match := COLLECTIVE.search(line):
            shapes, kind = match.groups()
            counts[kind] += 1
            for dtype, shape in ARRAY.findall(shapes):
                bits = 8 if dtype == "pred" else int(re.sub(r"\D", "", dtype))
                moved[kind] += bits // 8 * math.prod(int(n) for n in shape.split(",") if n)
    return {kind: {"count": n, "bytes": moved[kind]} for kind, n in sorted(counts.items())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("presets", nargs="*", default=["atari"])
    parser.add_argument("--delay", default="walk:15")
    parser.add_argument("--devices", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--collectives", action="store_true")
    options = parser.parse_args()
    system = system_of(*options.presets, delay=options.delay)
    made = sizes(system)
    figures: dict[str, Any] = {"presets": options.presets, "delay": options.delay, "bytes": made}
    kept = sum(made["learner"].values())
    for devices in options.devices:
        moved = sent(system, made, devices)
        figures[f"{devices} devices"] = {
            "kept": kept + sum(made["replay"].values()) // devices,
            "sent per update": {name: round(value) for name, value in moved.items()},
            "sent per update in all": round(sum(moved.values())),
        }
    if options.collectives:
        figures["collectives of an update"] = collectives(system)
    report("scale_sizes", figures)


if __name__ == "__main__":
    main()
