"""Print what was measured of foresight in MinAtar.

    python results/foresight-minatar/table.py             the table of runs.jsonl
    python results/foresight-minatar/table.py RUN ...     add these finished runs first

A run is a folder named GAME-VARIANT-SEED, such as ``si-base-0``. Health is the mean of the last
eight lines of metrics.
"""

import json
import sys
from itertools import groupby
from pathlib import Path
from statistics import mean

KEPT = Path(__file__).with_name("runs.jsonl")
LINES = 8
HEALTH = ("reward_recall", "reward_recall_fresh", "prefix_explained", "prefix_fresh")
HORIZONS = (1, 5, 10, 15, 25)
VERSIONS = ("commit", "cpu", "jax", "threads")


def kept(folder):
    """Return what is kept of a run."""
    result = json.loads((folder / "result.json").read_text())
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    last = [line for line in lines if "loss" in line][-LINES:]
    starts = folder / "starts.jsonl"
    command = json.loads(starts.read_text().splitlines()[0])["command"] if starts.exists() else ""
    return {
        "name": folder.name,
        "command": command,
        "versions": {name: result["versions"].get(name) for name in VERSIONS},
        "score": result["score"],
        "updating": result["seconds"]["updating"],
        "agreement": [round(x, 4) for x in result["prediction"]["policy_agreement"]],
        "health": {name: round(_mean_of(f"health/{name}", last), 3) for name in HEALTH},
    }


def _mean_of(key, lines):
    """Return the mean of a metric over the lines that have it."""
    return mean(line[key] for line in lines if key in line)


runs = {}
if KEPT.exists():
    runs = {run["name"]: run for run in map(json.loads, KEPT.read_text().splitlines())}
for folder in map(Path, sys.argv[1:]):
    runs[folder.name] = kept(folder)
runs = dict(sorted(runs.items()))
if sys.argv[1:]:
    KEPT.write_text("".join(json.dumps(run) + "\n" for run in runs.values()))

steps = " | ".join(map(str, HORIZONS))
print(f"| runs | scores | {' | '.join(HEALTH)} | {steps} |")
print("|---" * (2 + len(HEALTH) + len(HORIZONS)) + "|")
for name, group in groupby(runs.values(), lambda run: run["name"].rpartition("-")[0]):
    members = list(group)
    scores = ", ".join(f"{run['score']:.1f}" for run in members)
    health = [mean(run["health"][key] for run in members) for key in HEALTH]
    agreement = [mean(run["agreement"][k - 1] for run in members) for k in HORIZONS]
    cells = " | ".join(f"{x:.2f}" for x in (*health, *agreement))
    print(f"| {name} | {scores} | {cells} |")
