"""How a campaign stands: ``campaign.json`` in its root, and the folders of its runs.

The file has the list of runs, and what only the process that starts them knows: which run, which
failed and why. Everything else is read from the folders of the runs. Imports no JAX, so that
``delayzero campaign status`` answers quickly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, get_args

from delayzero.arguments import UsageError
from delayzero.files import last_line, read_json, write_json
from delayzero.forms import (
    anything,
    is_number,
    moment,
    one_of,
    optional,
    text,
    values_of,
    whole,
    with_keys,
)
from delayzero.runs.paths import RunPaths
from delayzero.runs.result import contradiction, settings_beside

FILE = "campaign.json"
SILENCE_SECONDS = 60.0
"""A campaign that has not written its file for this long is not running."""

State = Literal["done", "running", "waiting", "failed"]
STATES: tuple[State, ...] = get_args(State)
Record = dict[str, Any]
"""The contents of ``campaign.json``."""
RUN = with_keys(
    {
        "state": one_of(STATES),
        "attempts": whole,
        "reason": text,
        "env": text,
        "delay": optional(text),
        "agent": text,
        "interactions": whole,
        "updates": whole,
    }
)
FORM = with_keys(
    {
        "plan": text,
        "command": text,
        "jobs": whole,
        "updated": moment,
        "ended": anything,
        "runs": values_of(RUN),
    }
)
"""The form of the record."""


@dataclass(frozen=True)
class Standing:
    """How a run stands.

    Attributes:
        name: The run's name.
        state: A run that waits may have begun: see ``share``.
        share: The part of training that is done, from 0 to 1; None if it has not begun.
        seconds: Seconds of training so far.
        score: The final score of a run that is done; of others, the last evaluation's or that of
            recent self-play. None if there is none.
        attempts: How often the campaign has started it.
        reason: Why its last attempt failed; empty if it did not.
        saved: Whether it has a checkpoint. Without one, it starts anew.
    """

    name: str
    state: State
    share: float | None = None
    seconds: float = 0.0
    score: float | None = None
    attempts: int = 0
    reason: str = ""
    saved: bool = False

    @property
    def whole(self) -> float | None:
        """The seconds that training takes from its beginning to its end; None if unknown."""
        return self.seconds / self.share if self.share and self.seconds else None

    @property
    def left(self) -> float | None:
        """The seconds of training that are left; None if unknown."""
        return None if self.whole is None else self.whole - self.seconds


def write_record(root: Path, record: Record) -> None:
    """Write ``campaign.json`` with the time."""
    record["updated"] = datetime.now(UTC).isoformat(timespec="seconds")
    write_json(root / FILE, record)


def read_record(root: Path) -> Record:
    """Read ``campaign.json``.

    Raises:
        UsageError: The folder holds no campaign, or the file is damaged.
    """
    if not (root / FILE).exists():
        raise UsageError(f"{root} holds no campaign; type: delayzero campaign PLAN --folder {root}")
    return read_json(root / FILE, "type the campaign's command again, which writes it", FORM)


def runs_now(record: Record, now: datetime) -> bool:
    """Whether the process that wrote a record is still at work."""
    silent = (now - datetime.fromisoformat(record["updated"])).total_seconds()
    return not record["ended"] and abs(silent) < SILENCE_SECONDS  # clocks may be set back


def standings(
    root: Path, record: Record, *, alive: bool, known: dict[str, Standing] | None = None
) -> list[Standing]:
    """How each run of a campaign stands.

    Args:
        root: The campaign's folder.
        record: The contents of its file.
        alive: Whether the process that wrote the record is at work; if not, no run is running.
        known: Runs that are known to be done, which are not read again; those that are found to be
            done are added.
    """
    known = {} if known is None else known
    found = []
    for name, run in record["runs"].items():
        standing = known.get(name) or _standing(RunPaths(root / name), run, alive)
        if standing.state == "done":
            known[name] = standing
        found.append(standing)
    return found


def _standing(paths: RunPaths, run: Mapping[str, Any], alive: bool) -> Standing:
    name, attempts, reason = paths.path.name, run["attempts"], run["reason"]
    if paths.result.exists():
        result = _read(paths.result)
        if wrong := contradiction(result, settings_beside(paths)):
            reason = f"{paths.result.name} is not the result of this run: {wrong}"
            return Standing(name, "failed", attempts=attempts, reason=reason)
        seconds, score = _number(result.get("train_seconds")), _number(result.get("score"))
        return Standing(name, "done", 1.0, seconds or 0.0, score, attempts)
    state: State = run["state"]
    if state == "done" or (state == "running" and not alive):  # its result was deleted; it stopped
        state = "waiting"
    saved = paths.has_begun()
    line = _last_metrics(paths) if saved or state == "running" else {}
    return Standing(
        name,
        state,
        _share(line, run) if line else None,
        _number(line.get("seconds")) or 0.0,
        _number(line.get("evaluation/score", line.get("selfplay/score"))),
        attempts,
        reason,
        saved,
    )


def _share(line: Mapping[str, Any], run: Mapping[str, Any]) -> float:
    """The part of training that is done: in updates, without them in interactions."""
    unit = "updates" if run["updates"] else "interactions"
    return min(1.0, float((_number(line.get(unit)) or 0.0) / max(1, run[unit])))


def _last_metrics(paths: RunPaths) -> dict[str, Any]:
    """The last line of a run's metrics; empty if there is none that can be read.

    A damaged file is the run's to report.
    """
    try:
        return (last_line(paths.metrics, "") if paths.metrics.exists() else None) or {}
    except (UsageError, OSError):
        return {}


def _number(value: Any) -> float | None:
    """A number of a file that may be damaged; None if it is none."""
    return float(value) if is_number(value) else None


def _read(path: Path) -> dict[str, Any]:
    try:
        return read_json(path, "")
    except (UsageError, OSError):
        return {}


def seconds_left(runs: Sequence[Standing], jobs: int) -> float | None:
    """About how long a campaign still takes; None as long as no run says how long it takes.

    Runs that have not begun are taken to last as long as the others do on average.
    """
    known = [run.whole for run in runs if run.whole is not None]
    if not known:
        return None
    usual = sum(known) / len(known)
    waits = [
        usual if run.left is None else run.left
        for run in runs
        if run.state in ("running", "waiting")
    ]
    return sum(waits) / max(1, min(jobs, len(waits)))
