"""Which settings keep the policy from collapsing while there is little to learn from.

    python benchmarks/collapse.py --jobs 4 --out results/collapse-asterix-h200.jsonl      (a GPU)
    python benchmarks/collapse.py --preset minatar --env minatar:space_invaders --out FILE  (a CPU)

The reference is a search that stretches the Q-values of each node to [0, 1] however close they are
(the default of mctx), considers eight actions, has no noise at the root, and starts after 1000
random steps. Each variant changes one of these, the last all of them. Writes one JSON line per run:
the entropy of the policy targets as a share of the largest possible, by updates; the scores of
self-play; and the score of a short greedy evaluation. Runs already in the file are not repeated.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from delayzero.playing.environments import make_training_env
from delayzero.runs.machine import versions
from delayzero.settings import SearchingConfig, TrainConfig, changed, compose
from delayzero.spaces import Spaces
from delayzero.training.loop import train

REFERENCE: dict[str, Any] = {
    "q_range": "node",
    "q_floor": 1e-8,
    "considered_actions": 8,
    "dirichlet_fraction": 0.0,
    "random_interactions": 1000,
}
VARIANTS: dict[str, dict[str, Any]] = {
    "reference": {},
    "whole tree": {"q_range": "tree"},
    "floor 0.01": {"q_floor": 0.01},
    "floor 0.1": {"q_floor": 0.1},
    "whole tree, floor 0.01": {"q_range": "tree", "q_floor": 0.01},
    "whole tree, floor 0.1": {"q_range": "tree", "q_floor": 0.1},
    "four actions": {"considered_actions": 4},
    "root noise": {"dirichlet_fraction": 0.25},
    "warm-up 4000": {"random_interactions": 4000},
    "all": {
        "q_range": "tree",
        "q_floor": 0.1,
        "considered_actions": 4,
        "dirichlet_fraction": 0.25,
        "random_interactions": 4000,
    },
}


def config_of(options: argparse.Namespace, variant: str, seed: int, folder: str) -> TrainConfig:
    """Return the preset with a variant's search, for a number of updates."""
    changes = {**REFERENCE, **VARIANTS[variant]}
    warm_up = changes.pop("random_interactions")
    config = compose([options.preset])
    assert isinstance(config, SearchingConfig)
    return changed(
        config,
        env=options.env,
        seed=seed,
        random_interactions=warm_up,
        interactions=warm_up + math.ceil(options.updates / config.update_ratio),
        tail_updates=0,
        log_every=250,
        final_episodes=16,
        final_max_steps=400,
        checkpoint_minutes=1e6,
        folder=folder,
        search=changes,
    )


def run(options: argparse.Namespace, variant: str, seed: int) -> dict[str, Any]:
    """Train one variant; return the entropy of its targets and its scores."""
    with tempfile.TemporaryDirectory() as folder:
        config = config_of(options, variant, seed, folder)
        env = make_training_env(replace(config, envs=1))
        largest = math.log(Spaces.of(env).actions.count)
        env.close()
        train(config, sys.argv)
        text = (Path(folder) / "metrics.jsonl").read_text()
        result = json.loads((Path(folder) / "result.json").read_text())
    lines = [json.loads(line) for line in text.splitlines()]
    return {
        "env": options.env,
        "variant": variant,
        "seed": seed,
        "settings": {**REFERENCE, **VARIANTS[variant]},
        "entropy_share": {
            line["updates"]: round(line["policy/target_entropy"] / largest, 3)
            for line in lines
            if "policy/target_entropy" in line
        },
        "self_play": {
            line["updates"]: line["selfplay/score"] for line in lines if "selfplay/score" in line
        },
        "evaluation": result["score"],
        "versions": versions(),
    }


def finished(out: Path, env: str) -> set[tuple[str, int]]:
    """Return the variants and seeds that a file already has."""
    if not out.exists():
        return set()
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    return {(line["variant"], line["seed"]) for line in lines if line["env"] == env}


def main() -> None:
    """Run the variants and seeds, each in a separate process, several in parallel."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="atari")
    parser.add_argument("--env", default="atari:Asterix")
    parser.add_argument("--updates", type=int, default=2500)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--jobs", type=int, default=1, help="processes in parallel (default: 1)")
    parser.add_argument(
        "--out", type=Path, required=True, help="file to which one JSON line per run is appended"
    )
    options = parser.parse_args()
    requested = [(variant, seed) for seed in options.seeds for variant in options.variants]
    if len(requested) == 1:
        line = json.dumps(run(options, *requested[0]))
        with options.out.open("a") as out:
            out.write(line + "\n")
        return
    done = finished(options.out, options.env)
    common = [sys.executable, __file__, "--preset", options.preset, "--env", options.env]
    common += ["--updates", str(options.updates), "--out", str(options.out)]

    def start(variant: str, seed: int) -> int:
        print(f"{variant}, seed {seed}", file=sys.stderr, flush=True)
        return subprocess.run([*common, "--variants", variant, "--seeds", str(seed)]).returncode

    left = [one for one in requested if one not in done]
    with ThreadPoolExecutor(options.jobs) as pool:
        codes = list(pool.map(lambda one: start(*one), left))
    failed = [one for one, code in zip(left, codes, strict=True) if code]
    if failed:
        sys.exit(f"failed: {failed}; type the same command to run them again")


if __name__ == "__main__":
    main()
