"""The names of the files in a run's folder."""

from __future__ import annotations

from pathlib import Path

BUSY = "another process is training"
"""How the error begins that a run's folder is in use."""


class RunPaths:
    """The paths of a run's files.

    Attributes:
        path: The run's folder.
        settings: The run's configuration, as JSON.
        spaces: The observation and action spaces of the run's environment, as JSON; folders of
            older runs have no such file.
        lock: Held by the process that trains the run.
        starts: One JSON line for each start or resumption: time, command, versions, machine.
        checkpoints: The folder of checkpoints.
        metrics: One JSON line for each time metrics were logged.
        episodes: One JSON line for each episode of the final evaluation.
        result: The summary of the run; exists once the run has finished.
        by_delay: Scores of the run's weights under other delay laws, written by
            ``delayzero compare``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.settings = path / "config.json"
        self.spaces = path / "spaces.json"
        self.lock = path / "lock"
        self.starts = path / "starts.jsonl"
        self.checkpoints = path / "checkpoints"
        self.metrics = path / "metrics.jsonl"
        self.episodes = path / "episodes.jsonl"
        self.result = path / "result.json"
        self.by_delay = path / "by_delay.json"

    def has_begun(self) -> bool:
        """Whether there is a checkpoint to resume from, or a result."""
        entries = self.checkpoints.glob("*") if self.checkpoints.exists() else ()
        return self.result.exists() or any(path.name.isdigit() for path in entries)
