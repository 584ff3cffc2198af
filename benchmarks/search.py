"""Expansions per second of the search, with few roots (acting) and many (reanalysis).

python benchmarks/search.py --preset atari --roots 16 1536     (a GPU)
python benchmarks/search.py --preset minatar --roots 8 512     (a CPU)
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from parts import jittered, milliseconds, report, system_of

from delayzero.playing.system import System
from delayzero.settings import SearchConfig

SETTINGS = {"gumbel": SearchConfig(), "puct": SearchConfig(method="puct")}


def measure(system: System, roots: int, config: SearchConfig) -> dict[str, float]:
    """Return the time of encoding and searching a number of roots."""
    planner = replace(system.planner, config=config.resolved(system.spaces.actions.count))
    model = planner.model
    variables = jax.jit(system.first_state)(jax.random.key(0)).variables
    shape = (roots, system.config.stack, *system.spaces.shape)
    observation = jnp.zeros(shape, system.spaces.dtype)

    def encode(key: Array, variables: Any, observation: Array) -> Array:
        latent: Array = model.bind(jittered(key, variables)).represent(observation)
        return latent

    def search(key: Array, variables: Any, latent: Array) -> Any:
        return planner.search(variables, key, latent, explore=True)[1:4]

    latent = jax.jit(encode)(jax.random.key(1), variables, observation)
    key, simulations = jax.random.key(2), planner.config.simulations or 0
    spent = milliseconds(search, key, variables, latent)
    return {
        "roots": roots,
        "simulations": simulations,
        "encode_milliseconds": milliseconds(encode, key, variables, observation),
        "search_milliseconds": spent,
        "expansions_per_second": round(roots * simulations / spent * 1e3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="minatar", help="atari, minatar or cartpole")
    parser.add_argument("--roots", type=int, nargs="+", default=[8, 512])
    options = parser.parse_args()
    system = system_of(options.preset)
    figures = {
        name: [measure(system, roots, config) for roots in options.roots]
        for name, config in SETTINGS.items()
    }
    report("search", {"preset": options.preset, **figures})


if __name__ == "__main__":
    main()
