"""Play the same weights with other searches. See docs/lab/2026-11-19-acting.md.

    python results/uncertain-forecasts/acting.py RUN ... --delays walk:25 constant:0 >> acting.jsonl

Prints a line of JSON for each run, delay and way of acting: the scores of whole episodes, the same
games and delays for all. ``policy`` takes the likeliest action of the network and does not search;
``search N`` searches with N simulations; ``all`` considers every action at the root.
"""

import argparse
import json
from dataclasses import dataclass, replace
from pathlib import Path

import jax.numpy as jnp

from delayzero.evaluation.episodes import Evaluator, summary
from delayzero.planning import Planner
from delayzero.runs.weights import load_weights


@dataclass(frozen=True)
class WithoutSearch(Planner):
    """Takes the likeliest action of the network."""

    def search(self, variables, key, latent, **options):
        """Return a search that does not change the policy."""
        found = super().search(variables, key, latent, **options)
        logits = self.model.bind(variables).predict(latent).policy_logits
        return found._replace(action=jnp.argmax(logits, axis=-1).astype(found.action.dtype))


def ways(planner):
    """Yield the ways of acting, by name."""
    few = replace(planner.config, simulations=1)
    fields = {name: getattr(planner, name) for name in ("model", "discount", "prefix_horizon")}
    yield "policy", WithoutSearch(config=few, **fields)
    for count in (4, 16, 50, 200):
        yield f"search {count}", replace(planner, config=replace(planner.config, simulations=count))
    every = replace(planner.config, simulations=50, considered_actions=planner.model.actions.count)
    yield "search 50, all", replace(planner, config=every)


def main():
    """Read the command line, and play."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--delays", nargs="+", required=True)
    parser.add_argument("--episodes", type=int, default=64)
    parser.add_argument("--max-steps", type=int)
    parser.add_argument("--seed", type=int, default=100)
    parser.add_argument("--ways", nargs="+", help="such as policy 'search 16'; all by default")
    options = parser.parse_args()
    for run in options.runs:
        system, variables = load_weights(run, trust=True)
        for delay in options.delays:
            for name, planner in ways(system.planner):
                if options.ways and name not in options.ways:
                    continue
                agent = replace(system.agent, planner=planner)
                evaluator = Evaluator(
                    replace(system, agent=agent),
                    options.episodes,
                    max_steps=options.max_steps,
                    delay=delay,
                )
                played = summary(evaluator.play(variables, options.seed))
                evaluator.close()
                print(
                    json.dumps({"run": run.name, "delay": delay, "way": name, **played}), flush=True
                )


if __name__ == "__main__":
    main()
