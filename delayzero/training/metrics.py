"""Metrics of a run: JSON lines and TensorBoard."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import shutil
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from delayzero.extras import require
from delayzero.files import named, plain

SCORE = "evaluation/score"
"""What lines of evaluations have, and no others."""
OnMetrics = Callable[[int, Mapping[str, float]], Any]
"""Called with interactions, and numbers by name."""
NUMBERS = itertools.count()
"""Of the event files of this process."""


class MetricsLog:
    """Writes metrics to ``metrics.jsonl`` and to TensorBoard's event files.

    Attributes:
        evaluations: The lines of evaluations so far, to be saved: they can be restored.
    """

    def __init__(self, lines: Path, events: Path, also: OnMetrics | None = None) -> None:
        """Open the file of lines, to append to it, and the folder of events.

        Args:
            lines: The file.
            events: The folder.
            also: Called with the numbers of each line.
        """
        self._path, self._also = lines, also
        self.evaluations: list[dict[str, Any]] = []
        self._lines = lines.open("a")
        records = require("tensorboard.summary.writer.record_writer", "train")
        self._proto = require("tensorboard.compat.proto.event_pb2", "train")
        self._summary = require("tensorboard.compat.proto.summary_pb2", "train")
        events.mkdir(parents=True, exist_ok=True)
        words = (f"{time.time():.0f}", socket.gethostname(), str(os.getpid()), str(next(NUMBERS)))
        self._events_path = events / ".".join(("events.out.tfevents", *words))
        # TensorBoard's own writer has a thread, which prints a traceback when the disk is full.
        self._events = records.RecordWriter(self._events_path.open("ab"))
        self._write_event(file_version="brain.Event:2")

    def write(self, step: int, values: dict[str, Any]) -> None:
        """Write one line, and its numbers to TensorBoard.

        Args:
            step: Interactions so far.
            values: Numbers, strings, lists of strings, or arrays with an entry for each unrolled
                step.
        """
        line = {name: plain(value) for name, value in values.items()}
        whole = {"interactions": step, **line}
        if SCORE in line:
            self.evaluations.append(whole)
        with named(self._path):
            self._lines.write(json.dumps(whole) + "\n")
            self._lines.flush()
        numbers: dict[str, float] = {}
        for name, value in line.items():
            if isinstance(value, list):
                numbers |= {f"{name}_{i}": entry for i, entry in enumerate(value)}
            else:
                numbers[name] = value
        numbers = {k: v for k, v in numbers.items() if isinstance(v, (int, float))}
        summary = self._summary.Summary(
            value=[self._summary.Summary.Value(tag=k, simple_value=v) for k, v in numbers.items()]
        )
        self._write_event(step=step, summary=summary)
        if self._also is not None:
            self._also(step, numbers)

    def _write_event(self, **fields: Any) -> None:
        event = self._proto.Event(wall_time=time.time(), **fields)
        with named(self._events_path):
            self._events.write(event.SerializeToString())
            self._events.flush()

    def position(self) -> int:
        """Return the number of bytes written so far, all of which are on the disk."""
        with named(self._path):
            self._lines.flush()
            os.fsync(self._lines.fileno())
        return self._path.stat().st_size  # tell() ignores a rewind

    def rewind(self, position: int) -> None:
        """Delete the lines after a position: a resumed run writes them again."""
        os.truncate(self._path, min(position, self._path.stat().st_size))

    def digest(self, position: int) -> str:
        """Return a checksum of the lines before a position."""
        with self._path.open("rb") as file:
            return hashlib.blake2b(file.read(position), digest_size=16).hexdigest()

    def restore(
        self, position: int, evaluations: list[dict[str, Any]], digest: str | None = None
    ) -> str:
        """Continue from a position.

        Args:
            position: Of a checkpoint.
            evaluations: The lines of evaluations that it knows.
            digest: The checksum of the lines before the position; None: unknown.

        Returns:
            What happened to the lines before the position; empty if they are as they were. If not,
            those of evaluations are written anew, and a file that has changed is copied first.
        """
        self.evaluations = list(evaluations)
        wrong = "is missing or was cut off"
        if self._path.stat().st_size >= position:
            if digest is None or self.digest(position) == digest:
                self.rewind(position)
                return ""
            copy = self._path.with_name(f"{self._path.name}.damaged")
            shutil.copyfile(self._path, copy)
            wrong = f"has changed since the checkpoint and is kept as {copy.name}"
        self.rewind(0)
        with named(self._path):
            self._lines.writelines(json.dumps(line) + "\n" for line in evaluations)
            self._lines.flush()
        return wrong

    def close(self) -> None:
        """Close both files; what a full disk did not take has been reported, and is dropped."""
        for file in (self._lines, self._events):
            with contextlib.suppress(OSError):
                file.close()
