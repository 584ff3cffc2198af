"""Print the scores of presets over seeds.

    python results/presets/table.py              the table of runs.jsonl
    python results/presets/table.py FOLDER ...   add the finished runs in these folders first

A folder is what ``delayzero compare`` wrote. A run replaces an earlier one of the same environment,
delay, agent, processor and seed.
"""

import json
import sys
from itertools import groupby
from pathlib import Path

KEPT = Path(__file__).with_name("runs.jsonl")
CELL = ("env", "delay", "agent")
FIELDS = (*CELL, "seed", "interactions", "updates", "episodes", "score", "standard_error")
FIELDS += ("lowest", "highest", "distinct", "train_seconds")
VERSIONS = ("commit", "device", "cpu", "threads", "jax")
SOLVED = {"CartPole-v1": 475.0}
"""The score from which an environment counts as solved."""


def key(run):
    """Return what tells a run from others."""
    return (*(run[name] for name in CELL), run["versions"]["cpu"], run["seed"])


def kept(result):
    """Return what is kept of a result."""
    versions = {name: result["versions"].get(name) for name in VERSIONS}
    return {**{name: result[name] for name in FIELDS}, "versions": versions}


runs = {}
if KEPT.exists():
    runs = {key(run): run for run in map(json.loads, KEPT.read_text().splitlines())}
for folder in sys.argv[1:]:
    found = [kept(json.loads(path.read_text())) for path in Path(folder).glob("*/result.json")]
    if not found:
        sys.exit(f"{folder} has no finished run")
    runs |= {key(run): run for run in found}
runs = dict(sorted(runs.items()))
if sys.argv[1:]:
    KEPT.write_text("".join(json.dumps(run) + "\n" for run in runs.values()))

print("| environment | delay | agent | processor | seeds | scores by seed | mean | solved |")
print("|---|---|---|---|---|---|---|---|")
for cell, group in groupby(runs.values(), lambda run: key(run)[:-1]):
    members = list(group)
    scores, enough = [run["score"] for run in members], SOLVED.get(cell[0])
    solved = f"{sum(s >= enough for s in scores)} of {len(scores)}" if enough else ""
    each = ", ".join(f"{score:.0f}" if enough else f"{score:.1f}" for score in scores)
    mean, seeds = sum(scores) / len(scores), f"{members[0]['seed']} to {members[-1]['seed']}"
    env, delay, agent, cpu = cell
    print(f"| {env} | `{delay}` | {agent} | {cpu} | {seeds} | {each} | {mean:.1f} | {solved} |")
