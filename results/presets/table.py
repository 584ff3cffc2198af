"""Print the scores of presets over seeds, from what ``delayzero compare`` saved.

python results/presets/table.py [compare.json ...]
"""

import json
import sys
from pathlib import Path

SOLVED = {"CartPole-v1": 475.0}
"""The score from which an environment counts as solved."""

print("| environment | delay | agent | interactions | scores by seed | mean | solved |")
print("|---|---|---|---|---|---|---|")
for path in (
    map(Path, sys.argv[1:]) if sys.argv[1:] else sorted(Path(__file__).parent.glob("*.json"))
):
    saved = json.loads(path.read_text())
    for agent in saved["agents"]:
        runs = [run for run in saved["runs"].values() if run["agent"] == agent]
        runs.sort(key=lambda run: run["seed"])
        scores, env = [run["score"] for run in runs], runs[0]["env"]
        enough = SOLVED.get(env)
        solved = f"{sum(s >= enough for s in scores)} of {len(scores)}" if enough else ""
        each = ", ".join(f"{run['score']:.0f}" if enough else f"{run['score']:.1f}" for run in runs)
        interactions = round(min(run["interactions"] for run in runs), -3)
        print(
            f"| {env} | {saved['plan']['delay']} | {agent} | {interactions} | {each} | "
            f"{sum(scores) / len(scores):.1f} | {solved} |"
        )
