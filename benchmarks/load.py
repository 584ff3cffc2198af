"""The delay wrappers under load: many steps of one environment, and many environments at once.

    python benchmarks/load.py > results/load-2-cores.json    (five minutes of CPU time)

Two questions, each for ``walk:15``, under which 19 % of the decisions never run and as many steps
run a decision again, and for ``uniform:0-15``, where both are 70 %:

- Does a wrapper slow down or take more memory over millions of steps? One wrapped environment that
  does nothing, in one endless episode and in episodes of 1000 steps. ``time_ratio`` is the median
  time of the last tenth of the parts over that of the first tenth. ``growth_bytes`` is the resident
  memory at the end less that after the first part, ``growth_blocks`` the same for the blocks of
  memory that Python has allocated.
- Does an environment in a large vector cost more than one in a small vector? CartPoles in
  Gymnasium's own vector environment, with each number of them in turn. ``step_ratio`` is the time
  per step and environment in the large vector over that in the small one, ``added_ratio`` the same
  for the part that the wrapper adds. Both are medians over repeats, with quartiles.

Times are CPU times of this process, so that other work on the machine counts little.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import os
import resource
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import VectorWrapper

from delayzero.arguments import whole
from delayzero.delays import DelayedExecution, DelayedExecutionVector

LAWS = ("walk:15", "uniform:0-15")
EPISODES = (None, 1000)
"""Steps per episode of the long runs; None never ends."""
PARTS = 100
"""Parts of a long run; the first is the warm-up."""


class Timed(VectorWrapper[Any, Any, Any, Any, Any]):
    """Adds up the CPU time of the bare environment's steps."""

    seconds = 0.0

    def step(self, actions: Any) -> Any:
        begun = time.process_time()
        result = self.env.step(actions)
        self.seconds += time.process_time() - begun
        return result


class Vector:
    """CartPoles under delay, whose steps are timed."""

    def __init__(self, envs: int, law: str, steps: int, seed: int) -> None:
        bare = gym.make_vec("CartPole-v1", envs, vectorization_mode="vector_entry_point")
        self._timed = Timed(bare)
        self._env = DelayedExecutionVector(self._timed, law)
        self._actions = np.random.default_rng(seed).integers(0, 2, (steps, envs))
        self._env.reset(seed=seed)

    def measure(self) -> tuple[float, float]:
        """Return the seconds per step and environment: in all, and what the wrapper adds."""
        self._timed.seconds = 0.0
        begun = time.process_time()
        for actions in self._actions:
            self._env.step(actions)
        seconds = time.process_time() - begun
        return seconds / self._actions.size, (seconds - self._timed.seconds) / self._actions.size


def many_environments(
    law: str, envs: Sequence[int], steps: int, repeats: int, seed: int
) -> dict[str, Any]:
    """Compare the time of an environment in a large vector with that in a small one."""
    few, many = (Vector(count, law, steps, seed) for count in envs)
    pairs = [(few.measure(), many.measure()) for _ in range(repeats + 1)][1:]  # less a warm-up
    microseconds = [1e6 * statistics.median(pair[i][0] for pair in pairs) for i in (0, 1)]
    return {
        "law": law,
        "envs": list(envs),
        "step_ratio": quartiles([large[0] / small[0] for small, large in pairs]),
        "added_ratio": quartiles([large[1] / small[1] for small, large in pairs]),
        "step_microseconds": [round(each, 3) for each in microseconds],
    }


class Idle(gym.Env[Any, Any]):
    """An environment that does nothing, so that the time of a step is the wrapper's."""

    def __init__(self, episode: int | None) -> None:
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (4,), np.float32)
        self.action_space = gym.spaces.Discrete(2)
        self._observation = np.zeros(4, np.float32)
        self._episode, self._time = episode, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self._time = 0
        return self._observation, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._time += 1
        return self._observation, 0.0, False, self._time == self._episode, {}


def many_steps(law: str, episode: int | None, steps: int, seed: int) -> dict[str, Any]:
    """Run one wrapper for many steps; compare its speed and memory at the end and the beginning."""
    env = DelayedExecution(Idle(episode), law)
    actions = itertools.cycle(np.random.default_rng(seed).integers(0, 2, 1000).tolist())
    env.reset(seed=seed)
    seconds = np.zeros(PARTS)
    before = (0, 0)
    for part in range(PARTS):
        begun = time.process_time()
        for action in itertools.islice(actions, steps // PARTS):
            *_, truncated, _ = env.step(action)
            if truncated:
                env.reset()
        seconds[part] = time.process_time() - begun
        if part == 0:
            before = memory()
    after = memory()
    tenth = PARTS // 10
    first, last = float(np.median(seconds[1 : 1 + tenth])), float(np.median(seconds[-tenth:]))
    return {
        "law": law,
        "episode": episode,
        "steps": PARTS * (steps // PARTS),
        "time_ratio": round(last / first, 3),
        "step_microseconds": round(1e6 * first / (steps // PARTS), 2),
        "resident_bytes": before[0],
        "growth_bytes": after[0] - before[0],
        "growth_blocks": after[1] - before[1],
    }


def memory() -> tuple[int, int]:
    """Return the resident memory of this process in bytes, and Python's allocated blocks."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize(), sys.getallocatedblocks()


def quartiles(values: Sequence[float]) -> dict[str, float]:
    """Return the median and the quartiles."""
    low, middle, high = np.percentile(values, (25, 50, 75)).tolist()
    return {
        "median": round(middle, 3),
        "first_quartile": round(low, 3),
        "third_quartile": round(high, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--envs",
        type=whole(1),
        nargs=2,
        default=[64, 4096],
        metavar=("FEW", "MANY"),
        help="environments in the two vectors (default: 64 4096)",
    )
    parser.add_argument(
        "--vector-steps",
        type=whole(1),
        default=256,
        metavar="N",
        help="steps of a vector in one repeat (default: 256, one block of delays)",
    )
    parser.add_argument("--repeats", type=whole(1), default=15, help="(default: 15)")
    parser.add_argument(
        "--steps",
        type=whole(PARTS),
        default=10_000_000,
        metavar="N",
        help="steps of one wrapper (default: 10 million)",
    )
    parser.add_argument("--seed", type=whole(0), default=0)
    options = parser.parse_args()
    # The long runs come first: memory that the vectors free could hide growth.
    long_runs = [
        many_steps(law, episode, options.steps, options.seed)
        for law in LAWS
        for episode in EPISODES
    ]
    vectors = [
        many_environments(law, options.envs, options.vector_steps, options.repeats, options.seed)
        for law in LAWS
    ]
    from parts import report  # imports JAX, which would blur the memory above

    report(
        "load",
        {
            "command": " ".join(["python", "benchmarks/load.py", *sys.argv[1:]]),
            "cores": os.cpu_count(),
            "seed": options.seed,
            "repeats": options.repeats,
            "many_steps": long_runs,
            "many_environments": vectors,
        },
    )


if __name__ == "__main__":
    main()
