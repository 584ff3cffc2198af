"""What keeps the policy from collapsing before there is anything to learn.

    python benchmarks/collapse.py --seeds 0 1 2 > results/collapse.json

The problem is MountainCar with a reward of 1 at the goal and nothing before it, which random play
hardly ever finds: all actions are equal at first, and whatever the search prefers is noise of the
untrained network. Each variant changes one thing, or several. Printed are the entropy of the policy
targets as a share of the largest possible, at several numbers of updates, and the final score. A
policy that has collapsed has taught itself the noise, and tries little else.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
from parts import report

from delayzero.planning import SearchConfig
from delayzero.training.config import TrainConfig
from delayzero.training.loop import train
from delayzero.training.presets import compose

ACTIONS = 3
ENV = "delayzero/SparseMountainCar-v0"
STRETCHED: dict[str, Any] = {"q_range": "node", "q_floor": 1e-8}  # as mctx has it by default
VARIANTS: dict[str, dict[str, Any]] = {
    "tree, floor 0.01": {},
    "tree, floor 0.1": {"q_floor": 0.1},
    "tree, no floor": {"q_floor": 1e-8},
    "node, floor 0.01": {"q_range": "node"},
    "node, no floor": STRETCHED,
    "node, no floor, fewer actions": {**STRETCHED, "considered_actions": 2},
    "node, no floor, root noise": {**STRETCHED, "dirichlet_fraction": 0.25},
    "node, no floor, longer warm-up": {**STRETCHED, "random_interactions": 4000},
}


def sparse_mountain_car(**kwargs: Any) -> gym.Env[Any, Any]:
    """MountainCar where only the goal counts: each step's cost of 1 is given back."""
    env = gym.make("MountainCar-v0", disable_env_checker=True, **kwargs).unwrapped
    return _OnlyTheGoal(env)


class _OnlyTheGoal(gym.Wrapper[Any, Any, Any, Any]):
    def step(self, action: Any) -> Any:
        observation, _, terminated, truncated, info = self.env.step(action)
        return observation, float(terminated), terminated, truncated, info


def config_of(changes: dict[str, Any], seed: int, folder: str, updates: int) -> TrainConfig:
    changes = dict(changes)
    random_interactions = changes.pop("random_interactions", 500)
    search = replace(SearchConfig(simulations=16, considered_actions=ACTIONS), **changes)
    return replace(
        compose(["cartpole"]),
        env=ENV,
        seed=seed,
        random_interactions=random_interactions,
        interactions=random_interactions + 2 * updates,
        log_every=250,
        final_episodes=8,
        folder=folder,
        search=search,
    )


def entropies(metrics: Path, at: list[int]) -> list[float]:
    """The share of the largest entropy that policy targets have after numbers of updates."""
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    taken = [line for line in lines if "policy/target_entropy" in line]
    nearest = [min(taken, key=lambda line: abs(line["updates"] - n)) for n in at]
    return [round(line["policy/target_entropy"] / math.log(ACTIONS), 3) for line in nearest]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--updates", type=int, default=2000)
    options = parser.parse_args()
    gym.register(ENV, sparse_mountain_car, max_episode_steps=200)
    at = [options.updates * i // 4 for i in (1, 2, 3, 4)]
    figures: dict[str, Any] = {}
    for name, changes in VARIANTS.items():
        runs = []
        for seed in options.seeds:
            with tempfile.TemporaryDirectory() as folder:
                config = config_of(changes, seed, folder, options.updates)
                train(config, sys.argv)
                share = entropies(Path(folder) / "metrics.jsonl", at)
                result = json.loads((Path(folder) / "result.json").read_text())
            runs.append({"seed": seed, "entropy_share": share, "score": result["score"]})
        figures[name] = {"settings": changes, "runs": runs}
        print(f"{name}: {runs}", file=sys.stderr, flush=True)
    report("collapse", {"updates": at, "variants": figures})


if __name__ == "__main__":
    main()
