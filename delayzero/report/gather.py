"""Finds what is in the paths that a report is about: runs, comparisons, campaigns, records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from delayzero.arguments import UsageError
from delayzero.campaigns.display import summary
from delayzero.campaigns.record import FILE as CAMPAIGN
from delayzero.campaigns.record import Standing, read_record, runs_now, standings
from delayzero.files import read_json
from delayzero.forms import group, list_of, text, values_of, with_keys
from delayzero.report.groups import comparable
from delayzero.report.reading import REMEDY, is_run, read_run, run_of_comparison, run_of_record
from delayzero.report.runs import Run

COMPARISON = "compare.json"
COMPARED = with_keys(
    {
        "command": text,
        "plan": with_keys({"seeds": list_of(lambda value, name: "")}),
        "outcome": list_of(text),
        "agents": values_of(group),
        "runs": values_of(group),
    }
)
"""What the report needs of ``compare.json``."""


@dataclass(frozen=True)
class Comparison:
    """A comparison: its command, and its outcome in sentences."""

    path: Path
    command: str
    outcome: Sequence[str]

    @property
    def place(self) -> Path:
        """Its folder; its file, if that has a name of its own."""
        return self.path.parent if self.path.name == COMPARISON else self.path


@dataclass(frozen=True)
class CampaignState:
    """A campaign: its command, how it stands in one line, and each of its runs."""

    path: Path
    command: str
    summary: str
    runs: Sequence[Standing]


@dataclass
class Gathered:
    """Everything that a report shows; ``problems`` are lines about what could not be read."""

    runs: list[Run] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)
    campaigns: list[CampaignState] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def gather(paths: Sequence[Path]) -> Gathered:
    """Read all runs of some folders and files.

    Raises:
        UsageError: A path does not exist, or holds nothing that a report can show.
    """
    gathered = Gathered()
    for path in dict.fromkeys(path.resolve() for path in paths):
        _gather_path(path, gathered)
    gathered.runs = _with_own_names(_once(gathered.runs))
    gathered.problems = list(dict.fromkeys(gathered.problems))
    return gathered


def watched_files(paths: Sequence[Path]) -> list[Path]:
    """The files whose changes change the report."""
    names = ("*.json", "*.jsonl", "*.mp4")
    deep = [
        file
        for path in paths
        if path.is_dir()
        for depth in ("", "*/")
        for name in names
        for file in path.glob(depth + name)
    ]
    return sorted({*deep, *(path for path in paths if path.is_file())})


def _gather_path(path: Path, gathered: Gathered) -> None:
    if not path.exists():
        raise UsageError(
            f"{path} does not exist; name folders of runs, comparisons, campaigns or records"
        )
    if path.is_file():
        if path.suffix != ".json":
            raise UsageError(
                f"{path} is neither a record of a run nor a comparison, whose names end in .json; "
                "name the folder of a run, or such a file"
            )
        _gather_file(path, gathered)
        return
    folders = [child for child in sorted(path.iterdir()) if child.is_dir() and is_run(child)]
    files = [] if is_run(path) else sorted(path.glob("*.json"))
    files = [file for file in files if file.name not in (COMPARISON, CAMPAIGN)]
    parts = (is_run(path), (path / COMPARISON).exists(), (path / CAMPAIGN).exists())
    if not any(parts) and not folders and not files:
        raise UsageError(
            f"{path} holds no run, comparison, campaign or record; name the folder of one, such "
            "as runs/NAME (delayzero train prints it)"
        )
    if is_run(path):
        _add(gathered, read_run(path, gathered.problems))
        return
    if (path / CAMPAIGN).exists():
        _gather_campaign(path, gathered)
    if (path / COMPARISON).exists():
        _gather_comparison(path / COMPARISON, gathered, with_runs=not folders)
    for folder in folders:
        _add(gathered, read_run(folder, gathered.problems))
    for file in files:
        _gather_file(file, gathered)


def _gather_file(path: Path, gathered: Gathered) -> None:
    """Read a record, or the file of a comparison."""
    try:
        values = read_json(path, REMEDY)
    except (UsageError, OSError) as error:
        gathered.problems.append(str(error))
        return
    if "agents" in values and "runs" in values:
        _gather_comparison(path, gathered, with_runs=True)
    elif "game" in values:
        _add(gathered, run_of_record(path, gathered.problems))
    else:
        gathered.problems.append(f"{path} is neither a record of a run nor a comparison")


def _gather_comparison(path: Path, gathered: Gathered, *, with_runs: bool) -> None:
    try:
        stored = read_json(path, REMEDY, COMPARED)
    except (UsageError, OSError) as error:
        gathered.problems.append(str(error))
        return
    comparison = Comparison(path, stored["command"], stored["outcome"])
    gathered.comparisons.append(comparison)
    if not with_runs:
        return
    for name, entry in stored["runs"].items():
        curve, place = _curve_of(stored, entry), comparison.place / name
        _add(gathered, run_of_comparison(place, entry, curve, gathered.problems))


def _curve_of(stored: dict[str, Any], entry: dict[str, Any]) -> list[Any]:
    """The evaluations of a run, which are stored with its agent."""
    seeds, agent = stored["plan"]["seeds"], stored["agents"].get(str(entry.get("agent")), {})
    curves, seed = agent.get("curves"), entry.get("seed")
    place = seeds.index(seed) if seed in seeds else -1
    return curves[place] if isinstance(curves, list) and 0 <= place < len(curves) else []


def _gather_campaign(root: Path, gathered: Gathered) -> None:
    try:
        record = read_record(root)
    except (UsageError, OSError) as error:
        gathered.problems.append(str(error))
        return
    alive = runs_now(record, datetime.now(UTC))
    runs = standings(root, record, alive=alive)
    line = summary(record["plan"], runs, record["jobs"])
    line += "" if alive or record["ended"] else f"; not running since {record['updated']}"
    gathered.campaigns.append(CampaignState(root, record["command"], line, runs))


def _add(gathered: Gathered, run: Run | None) -> None:
    if run is not None:
        gathered.runs.append(run)


def _once(runs: Iterable[Run]) -> list[Run]:
    """Each run once, if its folder was named twice, or a record of it too."""
    by_path = {run.path: run for run in runs}
    kept: dict[tuple[Any, ...], list[Run]] = {}
    for run in sorted(by_path.values(), key=lambda run: not run.config):  # those that tell more
        result = (run.env, run.delay, run.agent, run.seed, run.interactions, tuple(run.scores))
        alike = kept.setdefault(result, [])
        if not run.scores or not any(_same(run, other) for other in alike):
            alike.append(run)
    return [run for alike in kept.values() for run in alike]


def _same(one: Run, other: Run) -> bool:
    """Whether two runs with the same result are one, kept in two places."""
    if one.config and other.config:
        return comparable(one.config) == comparable(other.config)
    return one.seconds == other.seconds


def _with_own_names(runs: Sequence[Run]) -> list[Run]:
    """Runs with different names: equal ones get the names of the folders above too."""
    by_name: dict[str, list[Run]] = {}
    for run in runs:
        by_name.setdefault(run.name, []).append(run)
    return [replace(run, name=_own_name(run, by_name[run.name])) for run in runs]


def _own_name(run: Run, same: Sequence[Run]) -> str:
    """The shortest end of a run's path that distinguishes it from those of the same name."""
    depth = 1
    while len({other.path.parts[-depth:] for other in same}) < len(same):
        depth += 1
    return run.name if len(same) == 1 else "/".join(run.path.parts[-depth:])
