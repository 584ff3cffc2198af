"""Reads runs: from their folders, from records, from the file of a comparison.

A damaged file never hides the rest of a run: what is wrong goes to a list of problems. Imports no
JAX, and runs no code that settings name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from delayzero.arguments import UsageError
from delayzero.evaluation.over_seeds import Points
from delayzero.evaluation.stored import POINTS, SCORES, prediction
from delayzero.files import read_json, read_lines
from delayzero.forms import (
    Form,
    anything,
    group,
    is_number,
    list_of,
    number,
    optional,
    text,
    values_of,
    whole,
    with_keys,
)
from delayzero.report.runs import Run, Start, Warned
from delayzero.runs.paths import RunPaths
from delayzero.runs.result import contradiction
from delayzero.settings.stored import code_named, from_json

SCORE = "evaluation/score"
HEALTH = "health/"
ENTROPY = "policy/target_entropy"
VIDEOS = ("*.mp4", "*.webm", "*.gif", "*.html")
GENERATOR = '<meta name="generator" content="delayzero report">'
"""Marks the pages that this package writes."""
SKIPPED = ("checkpoints", "tensorboard", "logs", "compiled")
REMEDY = "restore a copy"
RESULT = {
    "interactions": whole,
    "updates": whole,
    "scores": SCORES,
    "train_seconds": number,
    "env": text,
    "agent": text,
    "delay": optional(text),
    "seed": whole,
    "versions": group,
}
"""What the report needs of ``result.json``."""
COUNTS = ("interactions", "updates", "seconds")
METRICS = with_keys({"interactions": whole})
NAMES = {"env": text, "agent": text, "delay": optional(text), "seed": whole}
RECORD = {
    "game": text,
    "delay": text,
    "agent": text,
    "seed": whole,
    "interactions": whole,
    "scores": SCORES,
    "curve": POINTS,
    "command": text,
    "config": group,
}
"""What the report needs of a record."""


def is_run(folder: Path) -> bool:
    """Whether a folder holds a run, begun or finished."""
    files = RunPaths(folder)
    return any(path.exists() for path in (files.settings, files.metrics, files.result))


class _Reader:
    """Reads files that may be missing or damaged, and notes what is wrong with them."""

    def __init__(self, problems: list[str]) -> None:
        self._problems = problems

    def object(self, path: Path, form: Form) -> dict[str, Any]:
        """Read a JSON object; an empty one if there is none."""
        try:
            return read_json(path, REMEDY, form) if path.exists() else {}
        except (UsageError, OSError) as error:
            self._problems.append(str(error))
            return {}

    def lines(self, path: Path, form: Form) -> list[dict[str, Any]]:
        """Read JSON lines; none if there is no file."""
        try:
            return read_lines(path, REMEDY, form) if path.exists() else []
        except (UsageError, OSError) as error:
            self._problems.append(str(error))
            return []


def read_run(folder: Path, problems: list[str]) -> Run | None:
    """Read a run's folder.

    Args:
        folder: The folder.
        problems: Takes a line for each file that cannot be read.

    Returns:
        None if not even the run's environment and agent are known.
    """
    files, reader = RunPaths(folder), _Reader(problems)
    config = reader.object(files.settings, anything)
    result = reader.object(files.result, with_keys(RESULT))
    if wrong := contradiction(result, config):
        problems.append(f"{files.result} is not the result of this run: {wrong}; {REMEDY}")
        result = {}
    known: dict[str, Any] = {"agent": "dez", "delay": None, "seed": 0, **config, **result}
    if wrong := with_keys(NAMES)(known, ""):
        problems.append(f"{folder} is left out: {wrong}")
        return None
    lines = reader.lines(files.metrics, METRICS)
    starts = reader.lines(files.starts, group)
    foreseen = result.get("prediction")
    if foreseen and (wrong := prediction(foreseen, "prediction")):
        problems.append(f"{files.result} is damaged: {wrong}; {REMEDY}")
        foreseen = None
    evaluations = points(lines, SCORE)
    if result:
        evaluations.append((result["interactions"], _mean(result["scores"])))
    elif not lines:
        problems.append(f"{folder} has no metrics yet")
    last = {key: line[key] for line in lines for key in COUNTS if key in line}
    return Run(
        name=folder.resolve().name,
        path=folder,
        env=known["env"],
        delay=known["delay"] or "none",
        agent=known["agent"],
        seed=known["seed"],
        config=config,
        finished=bool(result),
        interactions=result.get("interactions", last.get("interactions", 0)),
        share=1.0 if result else _share(config, last),
        seconds=result.get("train_seconds", _number(last.get("seconds"))),
        scores=result.get("scores", ()),
        evaluations=evaluations,
        selfplay=points(lines, "selfplay/score"),
        health=_health(lines),
        warnings=_warnings(lines),
        prediction=foreseen or _foreseen_on_the_way(lines),
        by_delay=reader.object(files.by_delay, values_of(SCORES)),
        starts=[_start(start) for start in starts],
        videos=_videos(folder),
        modified=files.metrics.stat().st_mtime if files.metrics.exists() else None,
    )


def run_of_record(path: Path, problems: list[str]) -> Run | None:
    """Read a record of a run, and the metrics beside it; None if it cannot be read."""
    reader = _Reader(problems)
    record = reader.object(path, with_keys(RECORD))
    if not record:
        return None
    lines = reader.lines(path.with_name(f"{path.stem}-metrics.jsonl"), METRICS)
    optional_parts = {"selfplay": POINTS, "prediction": optional(prediction)}
    optional_parts["starts"] = list_of(group)
    for key, form in optional_parts.items():
        if key in record and (wrong := form(record[key], key)):
            problems.append(f"{path} is damaged: {wrong}; {REMEDY}")
            record.pop(key)
    starts = record.get("starts") or [record]
    return Run(
        name=path.stem,
        path=path,
        env=str(record["config"].get("env") or record["game"]),
        delay=record["delay"],
        agent=record["agent"],
        seed=record["seed"],
        config=record["config"],
        interactions=record["interactions"],
        share=1.0,
        seconds=_number(record.get("wall_seconds")),
        scores=record["scores"],
        evaluations=[(x, y) for x, y in record["curve"]],
        selfplay=[(x, y) for x, y in record.get("selfplay", [])],
        health=_health(lines),
        warnings=_warnings(lines),
        prediction=record.get("prediction") or {},
        starts=[_start({**start, "versions": start}) for start in starts],
    )


def run_of_comparison(
    place: Path, entry: Mapping[str, Any], curve: Sequence[Any], problems: list[str]
) -> Run | None:
    """Make a run from its entry in ``compare.json``; None if the entry is damaged.

    Args:
        place: The comparison's folder or file, and in it the run's name.
        entry: Its result, with its command and its scores by delay.
        curve: Its evaluations.
        problems: Takes a line if something cannot be used.
    """
    name = place.name
    forms = {**RESULT, "command": text, "by_delay": values_of(SCORES)}
    if wrong := with_keys(forms)(entry, f"runs.{name}") or POINTS(curve, f"curve of {name}"):
        problems.append(f"the comparison {place.parent} is damaged: {wrong}; {REMEDY}")
        return None
    foreseen = entry.get("prediction")
    return Run(
        name=name,
        path=place,
        env=entry["env"],
        delay=entry["delay"] or "none",
        agent=entry["agent"],
        seed=entry["seed"],
        interactions=entry["interactions"],
        share=1.0,
        seconds=entry["train_seconds"],
        scores=entry["scores"],
        evaluations=[(x, y) for x, y in curve],
        prediction=foreseen if foreseen and not prediction(foreseen, "") else {},
        by_delay=entry["by_delay"],
        starts=[_start(entry)],
    )


def points(lines: Sequence[Mapping[str, Any]], key: str) -> list[tuple[float, float]]:
    """Pairs of interactions and a metric; of lines with equal interactions, the last."""
    found = {line["interactions"]: line[key] for line in lines if is_number(line.get(key))}
    return sorted(found.items())


def _share(config: Mapping[str, Any], last: Mapping[str, Any]) -> float | None:
    """The part of training that is done: in updates, without them in interactions."""
    total, made = config.get("interactions"), last.get("interactions")
    try:
        if not code_named(config, with_env=False):  # reading them would run it
            updates = from_json(config).total_updates
            if updates:
                total, made = updates, last.get("updates")
    except (UsageError, ValueError, TypeError):
        pass  # settings of another version
    if not is_number(total) or not is_number(made) or not total:
        return None
    return min(1.0, float(made / total))


def _health(lines: Sequence[Mapping[str, Any]]) -> dict[str, Points]:
    names = {name for line in lines for name in line if name.startswith(HEALTH) or name == ENTROPY}
    found = {name: points(lines, name) for name in sorted(names)}
    return {name: curve for name, curve in found.items() if curve}


def _warnings(lines: Sequence[Mapping[str, Any]]) -> list[Warned]:
    """The last warning about each metric."""
    found: dict[str, Warned] = {}
    lines = [line for line in lines if SCORE not in line]  # evaluations warn of nothing
    for line in lines:
        stored = line.get("warnings", [])
        for warning in stored if isinstance(stored, list) else []:
            metric = str(warning).partition(":")[0]
            first = found[metric].first if metric in found else line["interactions"]
            lasts = line is lines[-1]
            found[metric] = Warned(metric, str(warning), first, line["interactions"], lasts)
    return list(found.values())


def _foreseen_on_the_way(lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The curves of the last evaluation during training."""
    for line in reversed(lines):
        curves = {
            name.removeprefix("prediction/"): value
            for name, value in line.items()
            if name.startswith("prediction/") and isinstance(value, list)
        }
        if curves:
            length = len(next(iter(curves.values())))
            curves["horizon"] = [float(k) for k in range(1, length + 1)]
            return {} if prediction(curves, "") else curves
    return {}


def _start(start: Mapping[str, Any]) -> Start:
    versions = start.get("versions")
    made_by = versions if isinstance(versions, Mapping) else {}
    commit = str(made_by.get("commit") or "commit unknown")
    return Start(
        command=str(start.get("command", "")),
        commit=commit if commit == "commit unknown" else commit[:7] + "*" * commit.endswith("*"),
        device=str(made_by.get("device") or "device unknown"),
    )


def _videos(folder: Path) -> list[Path]:
    found = [
        path
        for pattern in VIDEOS
        for depth in (pattern, f"*/{pattern}")
        for path in folder.glob(depth)
        if path.relative_to(folder).parts[0] not in SKIPPED
    ]
    return sorted(path for path in found if not _is_report(path))


def _is_report(path: Path) -> bool:
    """Whether a file is a page of ours or cannot be read, and is no video."""
    if not path.is_file():  # opening a pipe would wait for a writer
        return True
    try:
        with path.open("rb") as file:
            return path.suffix == ".html" and GENERATOR.encode() in file.read(1000)
    except OSError:
        return True


def _number(value: Any) -> float:
    return float(value) if is_number(value) else 0.0


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
