"""Print scores of self-play by interactions and the alarms that each run would raise."""

import json
from pathlib import Path

from delayzero.training.alarms import Alarms

AT = (10_000, 15_000, 20_000, 30_000, 40_000, 50_000, 56_000)
NEAR = 700
ACTIONS = 18

for path in sorted(Path(__file__).parent.glob("*.jsonl")):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines = [line for line in lines if "loss" in line]
    row = []
    for wanted in AT:
        near = [line for line in lines if abs(line["interactions"] - wanted) < NEAR]
        row.append(f"{near[0]['selfplay/score']:.0f}" if near else "")
    alarms, told = Alarms(ACTIONS), dict[str, int]()
    for line in lines:
        for warning in alarms.check(line, line["updates"]):
            told.setdefault(warning.partition(":")[0], line["updates"])
    print(f"| {path.stem} | {' | '.join(row)} | {told or ''} |")
