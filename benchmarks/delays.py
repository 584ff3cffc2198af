"""The cost of the delay wrappers: their added time, as a ratio to a bare environment step.

    python benchmarks/delays.py

The time of the bare environment is measured inside the steps of the wrapped one, so that both come
from the same calls: machines are noisy. Each ratio is a median over rounds. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from typing import Any

import gymnasium as gym
import numpy as np
from ale_py.vector_env import AtariVectorEnv
from gymnasium.vector import SyncVectorEnv, VectorEnv, VectorWrapper

from delayzero.delays import DelayedExecution, DelayedExecutionVector


class Timed(gym.Wrapper[Any, Any, Any, Any]):
    """Adds up the time of the bare environment's steps."""

    seconds = 0.0

    def step(self, action: Any) -> Any:
        begin = time.perf_counter()
        result = self.env.step(action)
        self.seconds += time.perf_counter() - begin
        return result


class TimedVector(VectorWrapper[Any, Any, Any, Any, Any]):
    """:class:`Timed` for vector environments."""

    seconds = 0.0

    def step(self, actions: Any) -> Any:
        begin = time.perf_counter()
        result = self.env.step(actions)
        self.seconds += time.perf_counter() - begin
        return result


def single_round(env: DelayedExecution, steps: int) -> float:
    """Return the seconds for the steps of one environment, without resets."""
    actions = np.random.default_rng(0).integers(0, 2, steps).tolist()
    env.reset(seed=0)
    seconds = 0.0
    for action in actions:
        begin = time.perf_counter()
        _, _, terminated, truncated, _ = env.step(action)
        seconds += time.perf_counter() - begin
        if terminated or truncated:
            env.reset()
    return seconds


def vector_round(env: DelayedExecutionVector, steps: int) -> float:
    """Return the seconds for the steps of a vector environment."""
    high = env.single_action_space.n  # type: ignore[attr-defined]
    actions = np.random.default_rng(0).integers(0, high, (steps, env.num_envs))
    env.reset(seed=0)
    begin = time.perf_counter()
    for action in actions:
        env.step(action)
    return time.perf_counter() - begin


def added_time(
    env: gym.Env[Any, Any] | VectorEnv[Any, Any, Any], law: str, steps: int, rounds: int
) -> dict[str, float]:
    """Return the added time of the delay relative to the bare environment, in the same steps."""
    measure: Any
    timed: Any
    if isinstance(env, VectorEnv):
        timed, measure = TimedVector(env), vector_round
        wrapped: Any = DelayedExecutionVector(timed, law)
    else:
        timed, measure = Timed(env), single_round
        wrapped = DelayedExecution(timed, law)
    measure(wrapped, steps)
    ratios, bare = [], []
    for _ in range(rounds):
        timed.seconds = 0.0
        total = measure(wrapped, steps)
        ratios.append(total / timed.seconds - 1)
        bare.append(timed.seconds / steps)
    quartiles = statistics.quantiles(ratios, n=4)
    return {
        "added_over_bare": round(statistics.median(ratios), 4),
        "first_quartile": round(quartiles[0], 4),
        "third_quartile": round(quartiles[2], 4),
        "bare_us": round(1e6 * statistics.median(bare), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="The added time of delays, as ratios.")
    parser.add_argument(
        "--rounds", type=int, default=20, help="measurements of each ratio (default: 20)"
    )
    rounds = parser.parse_args().rounds
    results = {
        f"CartPole-v1, {law}": added_time(gym.make("CartPole-v1"), law, 2000, rounds)
        for law in ("constant:5", "walk:5", "walk:25")
    }
    cartpoles = SyncVectorEnv([lambda: gym.make("CartPole-v1")] * 64)
    results["64 x CartPole-v1, walk:25"] = added_time(cartpoles, "walk:25", 50, rounds)
    atari = AtariVectorEnv("breakout", num_envs=64)
    results["64 x Atari Breakout, walk:25"] = added_time(atari, "walk:25", 25, rounds)
    host = {"machine": platform.machine(), "python": platform.python_version()}
    print(json.dumps({"benchmark": "delays", **host, "results": results}, indent=2))


if __name__ == "__main__":
    main()
