"""The cost of delay while acting: the time of one decision for several longest delays M.

python benchmarks/acting.py --preset atari --envs 16     (a GPU)
python benchmarks/acting.py --preset cartpole            (a CPU)

Queues have random lengths from 0 to M, as under the walk. Prints milliseconds per decision, their
ratio to M = 0, and the milliseconds for planning a first queue, which happens once per episode.
"""

from __future__ import annotations

import argparse
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from parts import jittered, milliseconds, report, system_of

from delayzero.actions import Queue
from delayzero.agents import act, begin_acting, plan_first_queue
from delayzero.playing.system import System


def measure(system: System, envs: int, longest: int) -> dict[str, float]:
    """Return the time of a decision, and of planning a first queue."""
    spaces, stack = system.spaces, system.config.stack
    state = jax.jit(system.first_state)(jax.random.key(0))
    carry = begin_acting(system.agent, envs, spaces, stack)
    observation = jnp.zeros((envs, *spaces.shape), spaces.dtype)
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, longest + 1, size=(envs, 1))
    actions = rng.integers(0, spaces.actions.count, size=(envs, longest))
    queue = Queue(jnp.asarray(actions), jnp.asarray(np.arange(longest) < lengths))
    first = jnp.zeros(envs, bool)

    def decide(key: Array, variables: Any, observation: Array, queue: Queue) -> Array:
        moved = jittered(key, variables)
        _, decision = act(system.agent, moved, carry, observation, first, queue, key, explore=True)
        assert decision.search is not None
        return decision.search.policy

    figures = {
        "max_delay": longest,
        "mean_delay": round(float(lengths.mean()), 2),
        "decision_milliseconds": milliseconds(
            decide, jax.random.key(1), state.variables, observation, queue
        ),
    }
    if longest:
        plan = functools.partial(
            plan_first_queue, system.agent, stack=stack, length=longest, explore=True
        )

        def first_queue(key: Array, variables: Any, observation: Array) -> Array:
            planned = plan(jittered(key, variables), observation, key)
            return planned.astype(jnp.float32)  # integers would be optimised away

        figures["first_queue_milliseconds"] = milliseconds(
            first_queue, jax.random.key(2), state.variables, observation
        )
    return figures


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="cartpole", help="atari, minatar or cartpole")
    parser.add_argument("--envs", type=int, default=8)
    parser.add_argument("--delays", type=int, nargs="+", default=[0, 5, 15, 25])
    options = parser.parse_args()
    system = system_of(options.preset, agent="dez", delay="walk:25")
    figures = [measure(system, options.envs, longest) for longest in options.delays]
    base = figures[0]["decision_milliseconds"]
    for one in figures:
        one["ratio"] = round(one["decision_milliseconds"] / base, 3)
    report("acting", {"preset": options.preset, "envs": options.envs, "delays": figures})


if __name__ == "__main__":
    main()
