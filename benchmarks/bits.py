"""Digests of the results of short runs, to compare two versions of the code bit for bit.

    python benchmarks/bits.py --save before.json       (before a change)
    python benchmarks/bits.py --against before.json    (after it: prints differences)

Each run is a command in a separate process. A digest is kept of every array of its last checkpoint,
and of its metrics and result without times. Bits depend on the CPU, the number of threads and the
versions of libraries: compare on one machine only.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

SMALL = ("--interactions", "400", "--checkpoint-minutes", "inf", "--prediction-rows", "8")
SEARCHING = ("dez", "oblivious", "oblivious-executed", "augmented")
CASES: dict[str, tuple[str, ...]] = {
    **{
        f"cartpole {agent}": ("cartpole", "debug", "--agent", agent, "--delay", "walk:3", *SMALL)
        for agent in SEARCHING
    },
    "cartpole undelayed": ("cartpole", "debug", "--agent", "undelayed", *SMALL),
    "cartpole delayed-q": (
        *("cartpole", "debug", "--agent", "delayed-q", "--delay", "walk:3", *SMALL[:4]),
    ),
    "cartpole random": ("cartpole", "debug", "--agent", "random", *SMALL[:4]),
    "cartpole overlap": ("cartpole", "debug", "--overlap", "True", "--delay", "walk:3", *SMALL),
    "minatar dez": ("minatar", "debug", "--delay", "walk:2", *SMALL),
    "minatar augmented": ("minatar", "debug", "--agent", "augmented", "--delay", "walk:2", *SMALL),
    "atari dez": (
        *("atari", "debug", "--model.kind", "mlp", "--delay", "walk:2", "--prediction-rows", "0"),
    ),
    "atari delayed-q": ("atari", "debug", "--agent", "delayed-q", "--delay", "walk:2"),
}
TIMES = ("seconds", "compile", "gigabytes", "versions", "config", "command", "folder")
"""Words in the names of values that differ from run to run."""


def digests(folder: Path) -> dict[str, str]:
    """Return a digest for each array of a run's checkpoint, and for its metrics and result."""
    by_name = {}
    steps = [path for path in (folder / "checkpoints").iterdir() if path.name.isdigit()]
    newest = max(steps, key=lambda path: int(path.name))
    for part in sorted(path for path in newest.iterdir() if (path / "_METADATA").exists()):
        tree = ocp.PyTreeCheckpointer().restore(part)
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
            name = f"{part.name}{jax.tree_util.keystr(path)}"
            by_name[name] = hashlib.sha256(np.ascontiguousarray(leaf).tobytes()).hexdigest()[:16]
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    written = {"metrics": [json.loads(line) for line in lines]}
    written["result"] = json.loads((folder / "result.json").read_text())
    for name, values in written.items():
        text = json.dumps(_without_times(values), sort_keys=True)
        by_name[name] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return by_name


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {k: v for k, v in value.items() if not any(word in k for word in TIMES)}
        return {name: _without_times(inner) for name, inner in kept.items()}
    return [_without_times(inner) for inner in value] if isinstance(value, list) else value


def run(name: str) -> dict[str, str]:
    """Train one case in a temporary folder; return its digests."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["-m", "delayzero", "train", *CASES[name], "--folder", f"{folder}/run"]
        subprocess.run([sys.executable, *words], check=True, capture_output=True)
        return digests(Path(folder) / "run")


def main() -> None:
    """Run all cases, or those named; print, save or compare their digests."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES), metavar="CASE")
    parser.add_argument("--save", type=Path)
    parser.add_argument("--against", type=Path)
    options = parser.parse_args()
    before = json.loads(options.against.read_text()) if options.against else {}
    after, differing = {}, 0
    for name in options.cases:
        after[name] = run(name)
        previous = before.get(name, {})
        names = previous.keys() | after[name].keys() if previous else set()
        changed = sorted(key for key in names if previous.get(key) != after[name].get(key))
        differing += bool(changed)
        print(f"{name}: {len(after[name])} digests", *changed[:12], sep="\n    ", flush=True)
    if options.save:
        options.save.write_text(json.dumps(after, indent=1))
    if differing:
        sys.exit(f"{differing} of {len(after)} cases differ")


if __name__ == "__main__":
    main()
