"""What a checkpoint of a run holds, and how a run continues from one."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from typing import Any

from delayzero.model.build import data_type
from delayzero.playing import Ending
from delayzero.playing.actor import State
from delayzero.playing.system import System
from delayzero.progress import say
from delayzero.replay import FrameWriter, arrays_of, cut_off, release, with_arrays
from delayzero.runs.checkpoint import BrokenCheckpointError, Checkpoints, examples_of
from delayzero.runs.run_folder import RunFolder
from delayzero.training.collector import Collector
from delayzero.training.learning import Learning
from delayzero.training.reporting import Reporter

SCHEMA = 5
"""The number of this form of checkpoints; the first had no such number."""


def check_version(folder: RunFolder) -> None:
    """Check that this version can resume a run, before anything in its folder changes.

    Raises:
        BrokenCheckpointError: Another version wrote its checkpoint, or that is damaged.
    """
    if not folder.checkpoints.exists():
        return
    with closing(Checkpoints(folder.checkpoints, read_only=True)) as checkpoints:
        if checkpoints.latest() is None or checkpoints.progress().get("schema") == SCHEMA:
            return
    raise BrokenCheckpointError(
        f"{folder.path} was begun by another version of delayzero, whose checkpoints this one "
        f"cannot resume (its commit is in {folder.starts}); finish the run with that version, or "
        "train in another --folder"
    )


class RunCheckpoints:
    """Saves and restores the parts of a run.

    A checkpoint has the arrays ``learner`` (weights, optimiser, counters), ``replay`` and
    ``collector`` (who plays, and the log of actions), and ``progress``, plain numbers.
    """

    def __init__(
        self,
        system: System,
        folder: RunFolder,
        checkpoints: Checkpoints,
        collector: Collector,
        learning: Learning,
        reporter: Reporter,
    ) -> None:
        self._config, self._folder = system.config, folder
        self._spaces = system.spaces.to_json()
        self._checkpoints, self._collector = checkpoints, collector
        self._learning, self._reporter = learning, reporter

    def latest(self) -> int | None:
        """Return the number of the newest checkpoint, the rounds that were played, or None."""
        return self._checkpoints.latest()

    def save(self, rounds: int) -> None:
        """Write a checkpoint, unless there is one of this round."""
        if self._checkpoints.latest() == rounds:
            return
        playing, environments = self._collector.state()
        learning, reporter = self._learning, self._reporter
        rebuilt = self._collector.rebuilds(int(learning.replay.length))
        position = reporter.log.position()
        parts = {
            "learner": learning.state,
            "replay": arrays_of(learning.replay, frames=not rebuilt),
            "collector": playing,
        }
        numbers = {
            "schema": SCHEMA,
            "config": self._settings(),
            "spaces": self._spaces,
            "environments": environments,
            "frames": "rebuilt" if rebuilt else "stored",
            "rounds": rounds,
            **learning.numbers(),
            "recent": [tuple(episode) for episode in reporter.recent],
            "seconds": reporter.watch.elapsed(),
            "compile_seconds": reporter.watch.compile_seconds,
            "times": reporter.spent(),
            "metrics_bytes": position,
            "metrics_digest": reporter.log.digest(position),
            "evaluations": reporter.log.evaluations,
            "alarms": reporter.alarms.counts,
        }
        self._checkpoints.save(rounds, parts, numbers)

    def restore(self) -> int:
        """Continue from the newest checkpoint; the rounds that were played.

        Raises:
            UsageError: It is damaged, or of a run with other settings.
        """
        numbers = self._checkpoints.progress()
        self._folder.check_checkpoint(numbers, self._config)
        stored = numbers["frames"] == "stored"
        learning, empty = self._learning, self._learning.replay
        examples = examples_of(
            {
                "learner": learning.state,
                "replay": arrays_of(empty, frames=stored),
                "collector": self._collector.example(numbers["environments"]),
            }
        )
        release(empty, frames=stored)  # there may be no room for two
        parts = self._checkpoints.restore(examples)
        replay = with_arrays(empty, parts["replay"], frames=stored)
        learning.restore(parts["learner"], replay, numbers)
        reporter = self._reporter
        reporter.recent = [Ending(*episode) for episode in numbers["recent"]]
        if wrong := reporter.log.restore(
            numbers["metrics_bytes"], numbers["evaluations"], numbers.get("metrics_digest")
        ):
            say(
                f"warning: {self._folder.metrics} {wrong}; of its lines so far, the "
                f"{len(numbers['evaluations'])} of evaluations are restored, the others lost"
            )
        reporter.alarms.counts = dict(numbers["alarms"])
        times = numbers["times"]
        learning.times |= {name: times.get(name, 0.0) for name in learning.times}
        self._restore_collector((parts["collector"], numbers["environments"]), stored)
        reporter.watch.restore(numbers["seconds"], numbers["compile_seconds"], times)
        say(f"resumed at {self._collector.interactions} interactions, {learning.updates} updates")
        return int(numbers["rounds"])

    def _settings(self) -> dict[str, Any]:
        """Return the run's settings, with the data type that it computes in."""
        values = asdict(self._config)
        if "model" in values:
            values["model"]["dtype"] = data_type(self._config)
        return values

    def _restore_collector(self, state: State, frames_stored: bool) -> None:
        """Play everything again; the replay's frames too, where the checkpoint has none."""
        learning = self._learning
        writer = FrameWriter(learning.replay.frames)
        see = None if frames_stored else writer.write
        came_back = self._collector.restore(state, see)
        writer.finish()
        learning.replay = learning.replay._replace(frames=writer.frames)
        if not came_back and not frames_stored:
            raise BrokenCheckpointError(
                "this run's frames are rebuilt by playing its actions again, and the environment "
                f"showed something else than before: resume with the versions in "
                f"{self._folder.starts}"
            )
        if not came_back:
            say(
                "the environment did not come back to where it was: episodes in flight are "
                "restarted"
            )
            learning.replay = cut_off(learning.replay)
            self._collector.begin()

    def close(self) -> None:
        """Close the checkpoints."""
        self._checkpoints.close()
