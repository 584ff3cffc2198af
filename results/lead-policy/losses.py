"""Print what each finished run loses, beside the exact losses of ways of acting.

    python results/lead-policy/losses.py table.jsonl RUN ... >> runs.jsonl

A loss is a share of the distance between the optimum and random play, in %.
"""

import argparse
import json
from pathlib import Path


def main():
    """Print a line for each run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", type=Path)
    parser.add_argument("runs", type=Path, nargs="+")
    options = parser.parse_args()
    rows = map(json.loads, options.table.read_text().splitlines())
    exact = {(row["problem"], row["law"]): row for row in rows}
    for run in options.runs:
        if not (run / "result.json").exists():
            continue
        variant, name, seed, rest = run.name.split("-", 3)
        law, *settings = rest.replace("_--", "--").split("--")
        result = json.loads((run / "result.json").read_text())
        row = exact[name, law]
        scale = (row["optimum"] - row["random"]) / 100
        line = {
            "problem": name,
            "law": law,
            "variant": variant,
            "settings": [setting.replace("_", " ") for setting in settings],
            "seed": int(seed),
            "score": round(result["score"], 3),
            "loss": round((row["optimum"] - result["score"]) / scale, 1),
            "error": round(result["standard_error"] / scale, 1),
        }
        for way in ("at the most likely state", "Q averaged over the belief", "vote"):
            line[way] = round((row["optimum"] - row[way]) / scale, 1)
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
