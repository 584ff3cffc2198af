"""A finished run as one small file: enough to know what was run, and what came out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from delayzero.arguments import UsageError
from delayzero.envs.atari import rom, title
from delayzero.files import file_name, read_json, read_lines, write_json
from delayzero.runs.curves import read_curve
from delayzero.runs.paths import RunPaths
from delayzero.runs.run_folder import FREE_FIELDS

KEYS = (
    *("game", "delay", "agent", "seed", "interactions", "updates", "wall_seconds"),
    *("scores", "curve", "config", "command", "commit", "device"),
)
"""What every record has."""
MADE_BY = ("commit", "device")


def record_of(run: Path) -> dict[str, Any]:
    """The record of a finished run.

    ``wall_seconds`` is the training with compiling and without evaluations, which have figures of
    their own.

    Raises:
        UsageError: The folder holds no finished run, or a damaged one.
    """
    files = RunPaths(run)
    for path in (files.result, files.settings, files.starts):
        if not path.exists():
            raise UsageError(f"{run} holds no finished run: {path.name} is missing")
    remedy = "delete it, and type the run's command to evaluate it again"
    result = read_json(files.result, remedy, ("env", "scores"))
    config = read_json(files.settings, "restore a copy", ("env",))
    spent = dict(result["seconds"])
    on_the_way = spent.pop("evaluating", 0.0)
    curve = read_curve(run)
    versions = result["versions"]
    starts = [
        {"command": start["command"], **{name: start["versions"][name] for name in MADE_BY}}
        for start in read_lines(files.starts, "restore a copy")
    ]
    return {
        "game": _game(result["env"]),
        "delay": result["delay"] or "none",
        "agent": result["agent"],
        "seed": result["seed"],
        "interactions": result["interactions"],
        "updates": result["updates"],
        "wall_seconds": round(result["train_seconds"] + result["compile_seconds"] - on_the_way, 1),
        "seconds": {**spent, "compiling": result["compile_seconds"]},
        "evaluate_seconds": {"on_the_way": on_the_way, "final": result["evaluate_seconds"]},
        "peak_gigabytes": result.get("peak_gigabytes"),
        "scores": result["scores"],
        "curve": curve.evaluations,
        "selfplay": curve.selfplay,
        "prediction": result["prediction"],
        "config": config,
        "command": starts[0]["command"],
        **{name: versions[name] for name in MADE_BY},
        "starts": starts,
        "versions": versions,
    }


def _game(env: str) -> str:
    """The name that the paper's tables have, of an environment as it was typed."""
    kind, _, name = env.partition(":")
    return title(rom(name)) if kind.lower() == "atari" else name or env


def settings_of(record: dict[str, Any]) -> dict[str, Any]:
    """What runs of one cell have in common that differ in the seed alone."""
    apart = (*FREE_FIELDS, "seed")
    return {name: value for name, value in record["config"].items() if name not in apart}


def write_record(run: Path, folder: Path) -> Path:
    """Write the record of a run into a folder of records; its file.

    Raises:
        UsageError: The folder has the same cell and seed, with other settings.
    """
    record = record_of(run)
    words = (record["game"], record["agent"], record["delay"], f"seed{record['seed']}")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{file_name(*words)}.json"
    if path.exists() and settings_of(read_json(path, "take it away", KEYS)) != settings_of(record):
        raise UsageError(
            f"{path} is of a run with other settings: take it away, or type --folder with another"
        )
    write_json(path, record)
    return path


def read_records(folder: Path) -> list[dict[str, Any]]:
    """All records of a folder, by game, law, agent and seed.

    Raises:
        UsageError: One is damaged.
    """
    found = [read_json(path, "take it away", KEYS) for path in sorted(folder.glob("*.json"))]
    return sorted(found, key=lambda r: (r["game"], r["delay"], r["agent"], r["seed"]))
