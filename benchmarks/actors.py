"""Remote self-play against the local engine: the time of a round with slow simulators.

    python benchmarks/actors.py > results/actors-2-cores.json             (5 ms a step, asleep)
    python benchmarks/actors.py --preset atari --env atari:Breakout --envs 16 --actors 1 4 8 16

Plays rounds with the agent of a preset in this process, then with each number of Ray actors, all in
one run: the same environments, weights and rows. ``speed_up`` is the local engine's time per round
over that with actors, each the median after a warm-up; the quartiles are of the times. Rounds
include what a run pays for: weights to the actors, rows and states back. Without ``--env`` the
environments are CartPoles that sleep in every step, one after the other in each actor, as
simulators do that wait for another program.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import gymnasium as gym
import jax
from parts import report, system_of

from delayzero.arguments import whole
from delayzero.campaigns.cluster import connected
from delayzero.envs.make import id_of_function
from delayzero.playing.actor import Actor, SelfPlay, seed_of_environments
from delayzero.playing.environments import Environments
from delayzero.playing.system import System
from delayzero.settings import TrainConfig, compose
from delayzero.training.remote import RemoteActors

SLEEP = 0.005
"""Seconds that a step of the toy environment takes."""


class Slow(gym.Wrapper[Any, Any, Any, Any]):
    """An environment whose steps take longer, without computing anything."""

    def step(self, action: Any) -> Any:
        time.sleep(SLEEP)
        return super().step(action)


def make_slow() -> gym.Env[Any, Any]:
    """Make the toy environment."""
    return Slow(gym.make("CartPole-v1"))


@contextmanager
def engine(config: TrainConfig, system: System) -> Iterator[SelfPlay]:
    """Yield who plays the environments."""
    if config.engine == "local":
        env = Environments.of(config)
        yield Actor(system, env)
        env.close()
    else:
        with connected(config.address) as ray:
            yield RemoteActors(ray, config, system.spaces)


def measure(config: TrainConfig, system: System, rounds: int) -> dict[str, Any]:
    """Return the times of rounds, in seconds."""
    variables = jax.jit(system.first_state)(jax.random.key(0)).variables
    times = []
    with engine(config, system) as actors:
        for program in actors.acting(variables).programs:
            program.compile()
        actors.begin(seed_of_environments(config, 0))
        for _ in range(1 + rounds):
            begun = time.monotonic()
            actors.play(variables, config.rows, 0.0)
            times.append(time.monotonic() - begun)
    low, middle, high = statistics.quantiles(times[1:], n=4)
    return {"seconds": round(middle, 4), "quartiles": [round(low, 4), round(high, 4)]}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="cartpole", help="atari, minatar or cartpole")
    parser.add_argument("--env", help="instead of the environment that sleeps")
    parser.add_argument("--envs", type=whole(1), default=8)
    parser.add_argument("--actors", type=whole(1), nargs="+", default=[1, 2, 4])
    parser.add_argument("--actor-cores", type=float, default=0.5)
    parser.add_argument("--address", help="of a Ray cluster; by default one is started here")
    parser.add_argument("--rounds", type=whole(2), default=20)
    options = parser.parse_args()
    env = options.env or id_of_function(make_slow)
    config: TrainConfig = replace(compose([options.preset]), env=env, envs=options.envs)
    system = system_of(options.preset, env=env, envs=options.envs)
    local = measure(config, system, options.rounds)
    engines = {"local": {**local, "speed_up": 1.0}}
    for count in options.actors:
        print(f"{count} actors", file=sys.stderr)
        one = replace(
            config,
            engine="ray",
            actors=count,
            address=options.address,
            actor_cores=options.actor_cores,
        )
        found = measure(one, system, options.rounds)
        speed_up = round(local["seconds"] / found["seconds"], 2)
        engines[f"{count} actors"] = {**found, "speed_up": speed_up}
    settings = {
        "env": options.env or f"CartPole-v1, {1000 * SLEEP:g} ms a step",
        "envs": options.envs,
    }
    report(
        "actors", {**settings, "rows": config.rows, "rounds": options.rounds, "engines": engines}
    )


if __name__ == "__main__":
    main()
