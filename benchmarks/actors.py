"""Remote self-play against the local engine: the time of a round of self-play.

    python benchmarks/actors.py > results/actors-2-cores.json             (5 ms a step, asleep)
    python benchmarks/actors.py --preset atari --env atari:Breakout --gpu-actors 1 2 4 8    (a GPU)

All engines are prepared first, side by side: this process, which decides on the GPU if there is
one, and Ray actors that decide on the CPU (``--actors``) or on a share of the GPU
(``--gpu-actors``). Then they play in turn, a round each, so that whatever else the machine does
slows all of them down alike. All have the same number of environments and rows and the same
weights; the cores are divided equally among the actors of an engine.

``speed_up`` is the local engine's time per round over the engine's, each the median after a
warm-up; the quartiles are of the times. Rounds include what a run pays for: weights to the actors,
rows and states back. Nothing is learned meanwhile. Without ``--env`` the environments of the preset
``cartpole`` sleep in every step, one after the other in each actor, as simulators do that wait for
another program.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import gymnasium as gym
import jax
from parts import report, system_of

from delayzero.arguments import positive, whole
from delayzero.campaigns.cluster import connected
from delayzero.envs.make import id_of_function
from delayzero.playing.actor import Actor, SelfPlay, seed_of_environments
from delayzero.playing.environments import Environments
from delayzero.playing.system import System
from delayzero.runs.machine import threads
from delayzero.settings import TrainConfig
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


def engines_of(config: TrainConfig, options: argparse.Namespace) -> dict[str, TrainConfig]:
    """Return the settings of each engine, by its name."""
    engines = {"local": config}
    for counts, gpus, where in (
        (options.actors, 0.0, "CPU"),
        (options.gpu_actors, options.actor_gpus, "GPU"),
    ):
        for count in counts:
            engines[f"{count} on the {where}"] = replace(
                config,
                engine="ray",
                actors=count,
                address=options.address,
                actor_cores=options.actor_cores or options.cores / count,
                actor_gpus=gpus,
            )
    return engines


def prepared(ray: Any, config: TrainConfig, system: System, variables: Any) -> SelfPlay:
    """Start an engine, compile, reset its environments, and play a round to warm up."""
    if config.engine == "local":
        player: SelfPlay = Actor(system, Environments.of(config))
    else:
        player = RemoteActors(ray, config, system.spaces)
    for program in player.acting(variables).programs:
        program.compile()
    player.begin(seed_of_environments(config, 0))
    player.play(variables, config.rows, 0.0)
    return player


def measure(
    engines: Mapping[str, TrainConfig], system: System, rounds: int, address: str | None
) -> dict[str, list[float]]:
    """Return the seconds of each engine's rounds, which are played in turn.

    An engine that does not start, such as one for which the cluster has no room, plays none.
    """
    variables = jax.jit(system.first_state)(jax.random.key(0)).variables
    cores = sum(config.shares * config.actor_cores for config in engines.values())
    times: dict[str, list[float]] = {name: [] for name in engines}
    with connected(address, cores=math.ceil(cores)) as ray, ThreadPoolExecutor() as pool:
        begun = time.monotonic()
        starting = {
            name: pool.submit(prepared, ray, config, system, variables)
            for name, config in engines.items()
        }
        players: dict[str, SelfPlay] = {}
        for name, one in starting.items():
            error = one.exception()
            if error is None:
                players[name] = one.result()
            else:
                print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
        print(f"prepared in {time.monotonic() - begun:.0f} s", file=sys.stderr)
        for _ in range(rounds):
            for name, player in players.items():
                begun = time.monotonic()
                player.play(variables, system.config.rows, 0.0)
                times[name].append(time.monotonic() - begun)
    return times


def summary(config: TrainConfig, times: list[float], local: list[float]) -> dict[str, Any] | None:
    """Return the figures of an engine; None if it did not start."""
    if not times:
        return None
    low, middle, high = statistics.quantiles(times, n=4)
    return {
        "cores": f"{config.actors} x {config.actor_cores:g}" if config.actors else "all",
        "gpu": f"{config.actors} x {config.actor_gpus:g}" if config.actor_gpus else None,
        "seconds": round(middle, 4),
        "quartiles": [round(low, 4), round(high, 4)],
        "steps_per_second": round(config.rows * config.envs / middle),
        "speed_up": round(statistics.median(local) / middle, 2),
    }


def read_options() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", nargs="+", default=["cartpole"], help="such as: atari debug")
    parser.add_argument("--env", help="instead of the environment that sleeps")
    parser.add_argument("--envs", type=whole(1), help="by default the preset's")
    parser.add_argument("--actors", type=whole(1), nargs="*", default=[1, 2, 4])
    parser.add_argument("--gpu-actors", type=whole(1), nargs="*", default=[])
    parser.add_argument("--actor-gpus", type=positive, default=0.05, help="of each GPU actor")
    parser.add_argument("--cores", type=whole(1), default=threads(), help="of all actors")
    parser.add_argument("--actor-cores", type=positive, help="of each, instead of equal shares")
    parser.add_argument("--address", help="of a Ray cluster; by default one is started here")
    parser.add_argument("--rounds", type=whole(2), default=20)
    return parser.parse_args()


def main() -> None:
    """Measure and print."""
    options = read_options()
    changes = {"env": options.env or id_of_function(make_slow)}
    if options.envs:
        changes["envs"] = options.envs
    system = system_of(*options.preset, **changes)
    config = system.config
    engines = engines_of(config, options)
    times = measure(engines, system, options.rounds, options.address)
    report(
        "actors",
        {
            "command": " ".join(["python benchmarks/actors.py", *sys.argv[1:]]),
            "preset": options.preset,
            "env": options.env or f"CartPole-v1, {1000 * SLEEP:g} ms a step",
            "envs": config.envs,
            "rows": config.rows,
            "rounds": options.rounds,
            "cores": options.cores,
            "mps": "CUDA_MPS_PIPE_DIRECTORY" in os.environ,
            "load_average": os.getloadavg()[0],
            "engines": {
                name: summary(engines[name], seconds, times["local"])
                for name, seconds in times.items()
            },
        },
    )


if __name__ == "__main__":
    main()
