"""Milliseconds per update, and where they go.

    python benchmarks/learner.py --preset atari      (a GPU)
    python benchmarks/learner.py --preset minatar    (a CPU)
    python benchmarks/learner.py --preset atari --delay walk:25
    python benchmarks/learner.py --preset atari --delay walk:25 --with lead_gradient=True

``update`` is a whole update as in training: one of many in a compiled loop. The parts are compiled
separately, each in its own loop, so they do not add up exactly. Under a long delay,
``without_leads`` is an update in which no position has a lead, and ``cost_of_leads`` the ratio of
the two; each is the least of three measurements, which alternate. ``--with`` measures updates with
other settings of the learner beside them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import Array
from parts import (
    compiled_update,
    filled_replay,
    jittered,
    milliseconds,
    report,
    system_of,
    with_settings,
)

from delayzero.learning import Learner, LearnerState
from delayzero.learning.loss import efficientzero_loss
from delayzero.learning.optimiser import make_optimiser
from delayzero.playing.system import System
from delayzero.replay import Replay

REPEATS = 3


def whole_updates(systems: list[System], replay: Replay, count: int) -> list[float]:
    """Return the milliseconds of an update of each system, one of ``count`` in a call."""
    calls = []
    for system in systems:
        state = jax.jit(system.first_state)(jax.random.key(0))
        arguments = (state, replay, jax.random.key(1), jnp.int32(count))
        calls.append((compiled_update(system, *arguments), arguments))
        jax.block_until_ready(calls[-1][0](*arguments))

    def once(update: Any, arguments: Any) -> float:
        begun = time.perf_counter()
        jax.block_until_ready(update(*arguments))
        return (time.perf_counter() - begun) * 1e3 / count

    rounds = [[once(*call) for call in calls] for _ in range(REPEATS)]
    return [round(min(times), 3) for times in zip(*rounds, strict=True)]


def update_times(
    system: System, replay: Replay, count: int, others: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the milliseconds of an update, with and without leads where there are some.

    Args:
        system: The system to measure.
        replay: A filled replay.
        count: Updates in one call.
        others: Settings of the learner to measure beside it, see :func:`~parts.with_settings`.
    """
    learner = system.learner
    assert isinstance(learner, Learner)
    systems = [system, *(with_settings(system, text) for text in others)]
    if learner.leads:
        systems.append(replace(system, learner=replace(learner, leads=0)))
    update, *further = whole_updates(systems, replay, count)
    figures: dict[str, Any] = {"update": update}
    if learner.leads:
        without = further.pop()
        figures |= {"without_leads": without, "cost_of_leads": round(update / without, 3)}
    return {**figures, **dict(zip(others, further, strict=True))}


def parts(system: System, state: LearnerState, replay: Replay) -> dict[str, float]:
    """Return the milliseconds of each part of an update."""
    learner = system.learner
    assert isinstance(learner, Learner)
    _, batch = jax.jit(learner.batch)(state, replay, jax.random.key(2))
    changed = jax.jit(learner.augmented)(batch, jax.random.key(3))
    gradient, _ = jax.jit(learner.gradients)(state.variables, changed)
    optimiser = make_optimiser(learner.config, learner.total_updates)

    def gather(key: Array, state: LearnerState, replay: Replay) -> Any:
        return jax.tree.map(lambda x: x.astype(jnp.float32), learner.batch(state, replay, key)[1])

    def forward(key: Array, variables: Any, batch: Any) -> Any:
        moved = jittered(key, variables)
        loss, output = efficientzero_loss(learner.planner.model, moved, batch, learner.config)
        return loss, output.variables

    def gradients(key: Array, variables: Any, batch: Any) -> Any:
        gradient, output = learner.gradients(jittered(key, variables), batch)
        return gradient, output.variables

    def optimise(key: Array, gradient: Any, state: LearnerState) -> Any:
        params = state.variables["params"]
        change, new_state = optimiser.update(jittered(key, gradient), state.optimiser, params)
        return optax.apply_updates(params, change), new_state

    key = jax.random.key(4)
    forward_ms = milliseconds(forward, key, state.variables, changed)
    both_ms = milliseconds(gradients, key, state.variables, changed)
    return {
        "gather": milliseconds(gather, key, state, replay),
        "augmentation": milliseconds(lambda k, b: learner.augmented(b, k)[:2], key, batch),
        "forward": forward_ms,
        "backward": round(both_ms - forward_ms, 3),
        "optimiser": milliseconds(optimise, key, gradient, state),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="minatar", help="atari, minatar or cartpole")
    parser.add_argument(
        "--positions", type=int, default=20_000, help="positions stored in the replay"
    )
    parser.add_argument("--updates", type=int, default=64, help="updates in one call")
    parser.add_argument("--delay", default="constant:0", metavar="LAW", help="the delay law")
    parser.add_argument("--whole", action="store_true", help="whole updates only, without parts")
    parser.add_argument(
        "--with",
        dest="others",
        nargs="+",
        default=[],
        metavar="NAME=VALUE,...",
        help="also measure updates with these settings of the learner",
    )
    options = parser.parse_args()
    system = system_of(options.preset, delay=options.delay)
    replay = filled_replay(system, options.positions // system.config.envs)
    state = jax.jit(system.first_state)(jax.random.key(0))
    figures = {
        "preset": options.preset,
        "delay": options.delay,
        "batch_size": system.searching.learner.batch_size,
        "unroll": system.searching.learner.unroll,
        "dtype": jnp.dtype(system.planner.model.dtype).name,
        "positions": options.positions,
        "milliseconds": {
            **update_times(system, replay, options.updates, options.others),
            **({} if options.whole else parts(system, state, replay)),
        },
    }
    report("learner", figures)


if __name__ == "__main__":
    main()
