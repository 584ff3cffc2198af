"""The training loop: play some rows, learn as much as is due, write down what happened.

An exact ratio of updates to interactions; one thing after the other, or learning from the rounds
before while a round is played (``overlap``). Rounds are played in this process or by the actors of
a Ray cluster (``engine``). Randomness comes from keys derived from the seed and from counters, so
on one machine a run is a function of its settings, and a resumed one continues as if it had never
stopped (docs/runs.md, Reproducibility).
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from delayzero.arguments import UsageError
from delayzero.files import plain
from delayzero.playing import Ending
from delayzero.playing.actor import Actor, SelfPlay
from delayzero.playing.environments import Environments
from delayzero.playing.system import System, build_system
from delayzero.progress import Advance, progress, say
from delayzero.runs.checkpoint import Checkpoints
from delayzero.runs.run_folder import RunFolder
from delayzero.settings import LearningConfig, SearchingConfig, TrainConfig
from delayzero.settings.learning import LEAD_SHARE
from delayzero.spaces import Spaces
from delayzero.training.alarms import Alarms
from delayzero.training.checkpointing import RunCheckpoints, check_version
from delayzero.training.collector import Collector
from delayzero.training.evaluating import Evaluations
from delayzero.training.learning import Learning, copied
from delayzero.training.programs import Programs
from delayzero.training.remote import remote_actors
from delayzero.training.reporting import Callbacks, Reporter, Round, Stopwatch

SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""They ask a run to stop."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    finished: bool
    """False if it was interrupted; the same command resumes it."""
    folder: Path


def train(
    config: TrainConfig, command: Sequence[str], callbacks: Callbacks | None = None
) -> Outcome:
    """Train until the budget is spent, or resume a run that was interrupted.

    Args:
        config: The run.
        command: What was typed, for the record.
        callbacks: Functions to call on the way.

    Raises:
        UsageError: The run cannot start: its folder holds another one, or memory is short.
        DivergedError: The loss was not finite.
    """
    folder = RunFolder(Path(config.run_folder))
    local = config.engine == "local"
    env = Environments.of(config, None if local else 1)  # first: a wrong id leaves no folder
    try:
        folder.check_free()
        system = build_system(folder.as_begun(config), Spaces.of(env.delayed.env))
        if folder.finished(config):
            say(f"{folder.path} is finished; its result is in {folder.result}")
            return Outcome(True, folder.path)
        check_version(folder)
        _check_spaces(folder, system)
        with nullcontext(Actor(system, env)) if local else remote_actors(config, system) as actors:
            if folder.starts.exists() and not folder.has_begun():
                say(f"{folder.path} has no checkpoint: the run begins again")
            folder.open(config, command)
            folder.save_spaces(system.spaces.to_json())
            advise(system)
            trainer = Trainer(system, actors, folder, callbacks)
            try:
                return Outcome(trainer.run(), folder.path)
            finally:
                trainer.close()
    finally:
        env.close()
        folder.close()


def _check_spaces(folder: RunFolder, system: System) -> None:
    """Check that the environment shows and takes what it did when the run began.

    Raises:
        UsageError: It does not.
    """
    before, now = folder.load_spaces() if folder.has_begun() else None, system.spaces.to_json()
    if before is not None and before != now:
        raise UsageError(
            f"{folder.path} holds a run of another environment, with {before}; this one has {now}: "
            "type another --folder"
        )


def advise(system: System) -> None:
    """Say what the user may want to change before the run begins."""
    config = system.config
    if not (system.agent.looks_ahead and isinstance(config, SearchingConfig)):
        return
    learner = config.learner
    if config.longest_way > learner.unroll and not learner.leads(config.longest_way):
        say(
            f"the model is rolled through up to {config.longest_way} actions and trained for "
            f"{learner.unroll}: --learner.lead-share {LEAD_SHARE} trains it that far"
        )


class Trainer:
    """A run in progress.

    Attributes:
        folder: Where it is kept.
        collector: Plays.
        learning: Learns from what was played.
        reporter: Writes down how it goes.
        checkpoints: Save it, and bring it back.
        evaluations: Evaluate it, on the way and at the end.
    """

    def __init__(
        self,
        system: System,
        actors: SelfPlay,
        folder: RunFolder,
        callbacks: Callbacks | None = None,
    ) -> None:
        self._config, self._callbacks = system.config, callbacks or Callbacks()
        self.folder = folder
        self.collector = Collector(system, actors)
        programs = Programs(system, say, self.collector.lowered)
        checkpoints = Checkpoints(folder.checkpoints)
        self.learning = Learning(system, programs, folder.path, checkpoints)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="learning")
        watch = Stopwatch(programs.compile_seconds)
        alarms = Alarms(system.spaces.actions.count)
        self.reporter = Reporter(folder, self.learning, watch, alarms, self._callbacks.on_metrics)
        self.checkpoints = RunCheckpoints(
            system, folder, checkpoints, self.collector, self.learning, self.reporter
        )
        self.evaluations = Evaluations(
            system, folder, self.learning, self.reporter, self._callbacks
        )
        self._rounds = 0
        self._saved = time.monotonic()
        self._stop = False

    def run(self) -> bool:
        """Train until the budget is spent (True) or a signal asks to stop (False)."""
        config = self._config
        if self.checkpoints.latest() is None:
            self.reporter.log.rewind(0)
            self.collector.begin()
        else:
            self._rounds = self.checkpoints.restore()
        tail = config.total_updates - config.updates_due(config.interactions)
        total, done = config.interactions + tail, self._done()
        with self._signals(), progress("train", total, done=done) as advance:
            while not self._stop and not self._spent():
                self._round(advance)
        self.checkpoints.save(self._rounds)
        if not self._spent():
            say(f"stopped at {self.collector.interactions} interactions; the same command resumes")
            return False
        self.evaluations.conclude(self.collector.interactions)
        return True

    def close(self) -> None:
        """End the thread, and close files."""
        self._thread.shutdown()
        self.reporter.close()
        self.checkpoints.close()
        self.evaluations.close()

    def _spent(self) -> bool:
        """Return whether the budget is spent."""
        config = self._config
        played = self.collector.interactions >= config.interactions
        return played and self.learning.updates >= config.total_updates

    def _done(self) -> int:
        """Return the interactions made, and the updates after them."""
        config = self._config
        tail = max(0, self.learning.updates - config.updates_due(config.interactions))
        return min(self.collector.interactions, config.interactions) + tail

    def _round(self, advance: Advance) -> None:
        """Play, learn, write down."""
        config, learning = self._config, self.learning
        before, done = self.collector.interactions, self._done()
        self._rounds += 1
        endings: list[Ending] = []
        if before >= config.interactions:
            left = config.total_updates - learning.updates
            learning.learn(min(config.updates_per_round, left))
        elif isinstance(config, LearningConfig) and config.overlap:
            endings = self._play_beside(config.updates_due(before) - learning.updates)
        else:
            endings = self._play()
            learning.learn(config.updates_due(self.collector.interactions) - learning.updates)
        self.reporter.count(endings)
        now, now_done = self.collector.interactions, self._done()
        if now_done // config.log_every > done // config.log_every or self._spent():
            self.reporter.write_metrics(now)
        if config.evaluate_every and now // config.evaluate_every > before // config.evaluate_every:
            self.evaluations.on_the_way(now)
        advance(now_done - done, self.reporter.note())
        if time.monotonic() - self._saved >= 60 * config.checkpoint_minutes:
            self.checkpoints.save(self._rounds)
            self._saved = time.monotonic()
        self._call_back(endings)

    def _play(self) -> list[Ending]:
        learning = self.learning
        with self.reporter.watch.measure("acting"):
            learning.replay, endings = self.collector.collect(
                learning.variables(), learning.replay, learning.updates
            )
        return endings

    def _play_beside(self, due: int) -> list[Ending]:
        """Play a round while ``due`` updates are made from the rounds before."""
        learning = self.learning
        with self.reporter.watch.measure("acting", but=learning.times):
            variables, updates = copied(learning.variables()), learning.updates
            learned = self._thread.submit(learning.learn, due)
            played = self.collector.play(variables, updates)
            learned.result()
            learning.replay = self.collector.store(learning.replay, played)
        return played.endings

    def _call_back(self, endings: list[Ending]) -> None:
        if self._callbacks.on_round is not None:
            self._callbacks.on_round(
                Round(
                    number=self._rounds,
                    interactions=self.collector.interactions,
                    updates=self.learning.updates,
                    endings=endings,
                    metrics={k: plain(v) for k, v in self.learning.metrics.items()},
                    seconds=self.reporter.watch.elapsed(),
                )
            )

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Stop after the round that a signal comes in; Python allows that in the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {name: signal.signal(name, self._on_signal) for name in SIGNALS}
        try:
            yield
        finally:
            for name, handler in before.items():
                signal.signal(name, signal.SIG_DFL if handler is None else handler)

    def _on_signal(self, number: int, frame: Any) -> None:
        del number, frame
        if self._stop:
            raise KeyboardInterrupt
        self._stop = True
        say("stopping after this round, with a checkpoint; once more to stop at once")
