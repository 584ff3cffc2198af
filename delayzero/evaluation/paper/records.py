"""Records: one small file per finished run, with its settings, provenance and results."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from delayzero.arguments import UsageError
from delayzero.envs.atari import rom, title
from delayzero.evaluation.stored import (
    MADE_BY,
    OPTIONAL_RECORD,
    RECORD,
    RECORDED_RESULT,
    START,
)
from delayzero.files import file_name, read_json, read_lines, write_json
from delayzero.forms import with_keys
from delayzero.progress import say
from delayzero.runs.curves import read_curve
from delayzero.runs.paths import RunPaths
from delayzero.runs.result import read_result
from delayzero.settings.stored import FREE_FIELDS, code_named, from_json


def record_of(run: Path) -> dict[str, Any]:
    """Make the record of a finished run.

    ``wall_seconds`` is the time of training, with compilation and without evaluations; these are
    in ``evaluate_seconds``.

    Raises:
        UsageError: The folder holds no finished run, or one of its files is damaged, or the result
            is of another run.
    """
    files = RunPaths(run)
    for path in (files.result, files.settings, files.starts):
        if not path.exists():
            raise UsageError(f"{run} holds no finished run: {path.name} is missing")
    remedy = "delete it, and type the run's command to evaluate it again"
    result = read_result(files, remedy, with_keys(RECORDED_RESULT))
    config = read_json(files.settings, "restore a copy")
    seconds = dict(result["seconds"])
    on_the_way = seconds.pop("evaluating", 0.0)
    curve = read_curve(run)
    versions = result["versions"]
    starts = [
        {"command": start["command"], **{name: start["versions"][name] for name in MADE_BY}}
        for start in read_lines(files.starts, "restore a copy", with_keys(START))
    ]
    if not starts:
        raise UsageError(f"{files.starts} is damaged: it has no line; restore a copy")
    return {
        "game": _game(result["env"]),
        "delay": result["delay"] or "none",
        "agent": result["agent"],
        "seed": result["seed"],
        "interactions": result["interactions"],
        "updates": result["updates"],
        "wall_seconds": round(result["train_seconds"] + result["compile_seconds"] - on_the_way, 1),
        "seconds": {**seconds, "compiling": result["compile_seconds"]},
        "evaluate_seconds": {"on_the_way": on_the_way, "final": result["evaluate_seconds"]},
        "peak_gigabytes": result.get("peak_gigabytes"),
        "scores": result["scores"],
        "truncated": result.get("truncated"),
        "distinct": result.get("distinct"),
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
    """The name of an environment in the paper's tables, from the name that was typed."""
    kind, _, name = env.partition(":")
    return title(rom(name)) if kind.lower() == "atari" else name or env


def settings_of(record: dict[str, Any]) -> dict[str, Any]:
    """The settings that are the same in runs that differ only in their seed."""
    values = record["config"]
    if not code_named(values, with_env=False):  # reading them would run it
        values = asdict(from_json(values))  # older records have other names
    return {k: v for k, v in values.items() if k not in (*FREE_FIELDS, "seed")}


def write_record(run: Path, folder: Path) -> Path:
    """Write the record of a run to a folder of records; return its file.

    Raises:
        UsageError: The folder has a record of the same game, agent, delay and seed with different
            settings.
    """
    record = record_of(run)
    settings = _checked_settings(record, RunPaths(run).settings, "restore a copy")
    words = (record["game"], record["agent"], record["delay"], f"seed{record['seed']}")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{file_name(*words)}.json"
    if path.exists():
        before = _read_record(path)
        if settings_of(before) != settings:
            raise UsageError(
                f"{path} records a run with different settings; delete it, or type another --folder"
            )
        if before["scores"] != record["scores"]:
            say(f"{path} recorded another run of these settings and is replaced by {run}")
    write_json(path, record)
    return path


def read_records(folder: Path) -> list[dict[str, Any]]:
    """Read all records of a folder, sorted by game, delay law, agent and seed.

    Raises:
        UsageError: A record is damaged.
    """
    records = [_read_record(path) for path in sorted(folder.glob("*.json"))]
    return sorted(records, key=lambda r: (r["game"], r["delay"], r["agent"], r["seed"]))


def _read_record(path: Path) -> dict[str, Any]:
    remedy = "delete it, or restore a copy"
    record = read_json(path, remedy, with_keys(RECORD))
    there = {name: form for name, form in OPTIONAL_RECORD.items() if name in record}
    if wrong := with_keys(there)(record, ""):
        raise UsageError(f"{path} is damaged: {wrong}; {remedy}")
    _checked_settings(record, path, remedy)
    return record


def _checked_settings(record: dict[str, Any], path: Path, remedy: str) -> dict[str, Any]:
    """Return the :func:`settings_of` a record.

    Raises:
        UsageError: They are invalid; the message names the file that they are from.
    """
    try:
        return settings_of(record)
    except (UsageError, ValueError, TypeError) as error:
        raise UsageError(f"{path} is damaged: {error}; {remedy}") from None
