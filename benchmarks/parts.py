"""Shared by the benchmarks of the learner and the search: systems, data, timing, output."""

from __future__ import annotations

import json
import statistics
import time
from ast import literal_eval
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.stages import Compiled

from delayzero.playing.environments import make_training_env
from delayzero.playing.system import System, build_system
from delayzero.replay import Replay, Targets, Transitions, append, create
from delayzero.runs.machine import versions
from delayzero.settings import changed, compose
from delayzero.spaces import Spaces
from delayzero.training.programs import compiler_options


def system_of(*presets: str, **changes: Any) -> System:
    """Return the system of presets, for the spaces of their environment."""
    config = replace(compose(presets), **changes)
    env = make_training_env(config, 1)
    spaces = Spaces.of(env)
    env.close()
    return build_system(config, spaces)


def with_settings(system: System, text: str) -> System:
    """Return the system with other settings of the learner, ``name=value`` joined by commas."""
    return build_system(changed(system.config, learner=settings_in(text)), system.spaces)


def settings_in(text: str) -> dict[str, Any]:
    """Read ``name=value`` joined by commas; a value that is no Python literal is text."""
    return {name: _value(value) for name, value in (part.split("=") for part in text.split(","))}


def _value(text: str) -> Any:
    try:
        return literal_eval(text)
    except (SyntaxError, ValueError):
        return text


def filled_replay(system: System, rows: int) -> Replay:
    """Return a replay full of random trajectories with episode ends."""
    spaces, envs = system.spaces, system.config.envs
    rng = np.random.default_rng(0)
    grid = (rows, envs)
    ends = rng.random(grid) < 0.01
    transitions = Transitions(
        first=jnp.asarray(np.roll(ends, 1, axis=0)),
        final=jnp.zeros(grid, bool),
        action=jnp.asarray(rng.integers(0, spaces.actions.count, grid), jnp.int32),
        reward=jnp.asarray(rng.normal(size=grid), jnp.float32),
        terminated=jnp.asarray(ends),
        truncated=jnp.zeros(grid, bool),
    )
    values = jnp.asarray(rng.normal(size=grid), jnp.float32)
    policy = jnp.full((*grid, spaces.actions.count), 1 / spaces.actions.count)
    targets = Targets(policy, values, values, jnp.zeros(grid, jnp.int32))
    shape = (*grid, *spaces.shape)
    if spaces.dtype == np.uint8:
        frames = jax.random.randint(jax.random.key(0), shape, 0, 255, jnp.uint8)
    else:
        frames = jax.random.normal(jax.random.key(0), shape, jnp.float32)
    stack = system.config.stack
    empty = create(rows, envs, spaces, stack=stack)
    replay: Replay = jax.jit(append)(empty, frames, transitions, targets)
    return replay


def jittered(key: Array, tree: Any) -> Any:
    """Scale numbers by at most one part in a million, so that no loop treats them as constant."""
    factor = 1 + 1e-6 * jax.random.uniform(key)
    return jax.tree.map(lambda x: (x * factor).astype(x.dtype), tree)


def milliseconds(
    call: Callable[..., Any], *arguments: Any, loops: int = 8, repeats: int = 5
) -> float:
    """Return the median time of a call in a compiled loop; the first argument is a random key."""
    key, *others = arguments

    def looped(key: Array, *others: Any) -> Array:
        def body(i: Array, total: Array) -> Array:
            # XLA must neither drop the result as unused nor hoist it out of the loop as constant.
            result = call(jax.random.fold_in(key, i + (total > 1e30)), *others)
            for leaf in jax.tree.leaves(result):
                if jnp.issubdtype(leaf.dtype, jnp.floating):
                    total = total + 1e-20 * jnp.sum(leaf.astype(jnp.float32))
            return total

        total: Array = jax.lax.fori_loop(0, loops, body, jnp.zeros(()))
        return total

    program = jax.jit(looped)
    jax.block_until_ready(program(key, *others))
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        jax.block_until_ready(program(key, *others))
        times.append((time.perf_counter() - begun) * 1e3 / loops)
    return round(statistics.median(times), 3)


def compiled_update(system: System, *arguments: Any) -> Compiled:
    """Return the learner's updates, compiled as in training."""
    return jax.jit(system.learner.update).lower(*arguments).compile(compiler_options())


def report(name: str, figures: dict[str, Any]) -> None:
    """Print figures as JSON, with the versions and the device."""
    print(json.dumps({"benchmark": name, **figures, "versions": versions()}, indent=2))
