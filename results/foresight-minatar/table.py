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
LIFE = ("life_policy_agreement", "life_value_error")
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
        "agreement": _rounded(result, "policy_agreement"),
        "lives": {name: _rounded(result, name) for name in ("value_error", *LIFE)},
        "health": {name: round(_mean_of(f"health/{name}", last), 3) for name in HEALTH},
    }


def _rounded(result, name):
    """Return a curve of a result."""
    return [None if x is None else round(x, 4) for x in result["prediction"][name]]


def _cells(curves):
    """Return the means of curves at the horizons that they have."""
    found = [[curve[k - 1] for curve in curves if len(curve) >= k] for k in HORIZONS]
    kept = [[x for x in entries if x is not None] for entries in found]
    return " | ".join(f"{mean(entries):.2f}" if entries else "-" for entries in kept)


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

groups = [
    (name, list(group))
    for name, group in groupby(runs.values(), lambda run: run["name"].rpartition("-")[0])
]
steps = " | ".join(map(str, HORIZONS))
print(f"| runs | scores | {' | '.join(HEALTH)} | {steps} |")
print("|---" * (2 + len(HEALTH) + len(HORIZONS)) + "|")
for name, members in groups:
    scores = ", ".join(f"{run['score']:.1f}" for run in members)
    health = " | ".join(f"{mean(run['health'][key] for run in members):.2f}" for key in HEALTH)
    print(f"| {name} | {scores} | {health} | {_cells([run['agreement'] for run in members])} |")

print(f"\n| runs with lives | {steps} |")
print("|---" * (1 + len(HORIZONS)) + "|")
for name, members in groups:
    if "-lives" in name:
        for curve in ("value_error", *LIFE):
            print(f"| {name}, {curve} | {_cells([run['lives'][curve] for run in members])} |")
