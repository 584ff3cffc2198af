"""The training loop: play some rows, learn as much as is due, write down what happened.

One process, an exact ratio of updates to interactions; one thing after the other, or learning from
the rounds before while a round is played (``overlap``). Randomness comes from keys derived from the
seed and from counters, so a run is a function of its configuration, and a resumed one goes on as if
it had never stopped.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from delayzero.evaluation.episodes import Evaluator, summary
from delayzero.evaluation.prediction import Curves, foresight_program, measure_foresight
from delayzero.files import write_json, write_whole
from delayzero.playing import Ending
from delayzero.playing.environments import Environments
from delayzero.playing.streams import STREAM_PREDICTION, run_key
from delayzero.playing.system import System, build_system
from delayzero.progress import Advance, progress
from delayzero.replay import FrameWriter, arrays_of, cut_off, release, with_arrays
from delayzero.runs.checkpoint import BrokenCheckpointError, Checkpoints, examples_of
from delayzero.runs.run_folder import RunFolder, versions
from delayzero.settings import LearningConfig, SearchingConfig, TrainConfig
from delayzero.spaces import Spaces
from delayzero.training.alarms import Alarms
from delayzero.training.collector import Collector
from delayzero.training.learning import Learning, copied
from delayzero.training.memory import peak_gigabytes
from delayzero.training.metrics import MetricsLog
from delayzero.training.programs import Programs

RECENT = 20
"""Episodes of self-play in the mean score that is logged."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""They ask a run to stop."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    finished: bool
    """False if it was interrupted; the same command goes on."""
    folder: Path


def train(config: TrainConfig, command: Sequence[str]) -> Outcome:
    """Train until the budget is spent, or go on with a run that was interrupted.

    Args:
        config: The run.
        command: What was typed, for the record.

    Raises:
        UsageError: The run cannot be: its folder holds another one, or there is too little memory.
        DivergedError: The loss was not finite.
    """
    folder = RunFolder(Path(config.run_folder))
    env = Environments.of(config)  # first: a typing error should leave no folder
    try:
        system = build_system(folder.as_begun(config), Spaces.of(env.played))
        if folder.finished(config):
            _say(f"{folder.path} is finished; its result is in {folder.result}")
            return Outcome(True, folder.path)
        folder.open(config, command)
        advise(system)
        trainer = Trainer(system, env, folder)
        try:
            return Outcome(trainer.run(), folder.path)
        finally:
            trainer.close()
    finally:
        env.close()
        folder.close()


def advise(system: System) -> None:
    """Say what the user may want to change before the run begins."""
    config = system.config
    if not (system.kind.rolls and isinstance(config, SearchingConfig)):
        return
    if config.max_delay > config.learner.unroll:
        _say(
            f"the model is rolled through up to {config.max_delay} actions and trained for "
            f"{config.learner.unroll}: --learner.unroll {config.max_delay} trains it so far, "
            "for more time"
        )


class Trainer:
    """A run under way."""

    def __init__(self, system: System, env: Environments, folder: RunFolder) -> None:
        self._system, self._env, self._folder = system, env, folder
        self._collector = Collector(system, env.played)
        self._programs = Programs(system, _say, self._collector.lowered)
        self._checkpoints = Checkpoints(folder.checkpoints)
        self.learning = Learning(system, self._programs, folder.path, self._checkpoints)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="learning")
        self._log = MetricsLog(folder.metrics, folder.path / "tensorboard")
        self._evaluator: Evaluator | None = None
        config = system.config
        self._foresees = isinstance(config, SearchingConfig) and config.prediction_rows > 0
        self._foresee = foresight_program(system) if self._foresees else None
        self._prediction_key = run_key(system.config.seed, STREAM_PREDICTION)
        self._rounds = 0
        self._recent: list[Ending] = []
        self._times = {"acting": 0.0, "evaluating": 0.0}
        self._compile_seconds = self._programs.compile_seconds
        self._seconds, self._begun = 0.0, time.monotonic()
        self._saved = time.monotonic()
        self._stop = False
        self._alarms = Alarms(system.spaces.num_actions)
        self._warned: set[str] = set()

    @property
    def updates(self) -> int:
        """Updates made."""
        return self.learning.updates

    def run(self) -> bool:
        """Go on until the budget is spent (True) or a signal asks to stop (False)."""
        config = self._system.config
        if self._checkpoints.latest() is None:
            self._log.rewind(0)
            self._collector.begin()
        else:
            self._restore()
        previous = {name: signal.signal(name, self._on_signal) for name in SIGNALS}
        try:
            tail = config.total_updates - config.updates_due(config.interactions)
            with progress("train", config.interactions + tail) as advance:
                advance(self._done())
                while not self._stop and not self._spent():
                    self._round(advance)
        finally:
            for name, handler in previous.items():
                signal.signal(name, handler)
        self._save()
        if not self._spent():
            _say(
                f"stopped at {self._collector.interactions} interactions; the same command goes on"
            )
            return False
        self._conclude()
        return True

    def close(self) -> None:
        """End the thread, and close files."""
        self._thread.shutdown()
        self._log.close()
        self._checkpoints.close()
        if self._evaluator is not None:
            self._evaluator.close()

    def _spent(self) -> bool:
        config = self._system.config
        played = self._collector.interactions >= config.interactions
        return played and self.updates >= config.total_updates

    def _done(self) -> int:
        config = self._system.config
        tail = max(0, self.updates - config.updates_due(config.interactions))
        return min(self._collector.interactions, config.interactions) + tail

    def _round(self, advance: Advance) -> None:
        """Play, learn, write down."""
        config, before, done = self._system.config, self._collector.interactions, self._done()
        self._rounds += 1
        beside = isinstance(config, LearningConfig) and config.overlap
        if before < config.interactions and beside:
            self._play_beside(config.updates_due(before) - self.updates)
        elif before < config.interactions:
            self._play()
            self.learning.learn(config.updates_due(self._collector.interactions) - self.updates)
        else:
            left = config.total_updates - self.updates
            self.learning.learn(min(config.updates_per_round, left))
        now, now_done = self._collector.interactions, self._done()
        if now_done // config.log_every > done // config.log_every or self._spent():
            self._write_metrics()
        if config.evaluate_every and now // config.evaluate_every > before // config.evaluate_every:
            self._evaluate_on_the_way()
        advance(now_done - done, self._note())
        if time.monotonic() - self._saved >= 60 * config.checkpoint_minutes:
            self._save()

    def _play(self) -> None:
        begun, learning = time.monotonic(), self.learning
        learning.replay, endings = self._collector.collect(
            learning.state.variables, learning.replay, self.updates
        )
        self._recent = [*self._recent, *endings][-RECENT:]
        self._times["acting"] += time.monotonic() - begun

    def _play_beside(self, due: int) -> None:
        """Play a round while so many updates are made from the rounds before."""
        learning, begun = self.learning, time.monotonic() - sum(self.learning.times.values())
        variables, updates = copied(learning.state.variables), self.updates
        learned = self._thread.submit(learning.learn, due)
        played = self._collector.play(variables, updates)
        learned.result()
        learning.replay = self._collector.store(learning.replay, played)
        self._recent = [*self._recent, *played.endings][-RECENT:]
        self._times["acting"] += time.monotonic() - sum(learning.times.values()) - begun

    def _write_metrics(self) -> None:
        metrics = {name: np.asarray(value) for name, value in self.learning.metrics.items()}
        values: dict[str, Any] = {
            "updates": self.updates,
            "seconds": round(self._elapsed(), 3),
            **metrics,
            **self.learning.health(),
            **{f"seconds/{name}": round(spent, 3) for name, spent in self._spent_on().items()},
        }
        if self._recent:
            values["selfplay/score"] = float(np.mean([e.score for e in self._recent]))
            values["selfplay/length"] = float(np.mean([e.length for e in self._recent]))
        warnings = self._alarms.check(values, self.updates)
        if warnings:
            values["warnings"] = warnings
        self._warn(warnings)
        self._log.write(self._collector.interactions, values)

    def _warn(self, warnings: Sequence[str]) -> None:
        """Print warnings of metrics that the last line did not warn of."""
        by_metric = {warning.partition(":")[0]: warning for warning in warnings}
        for metric in by_metric.keys() - self._warned:
            _say(f"warning: {by_metric[metric]}")
        self._warned = set(by_metric)

    def _note(self) -> str:
        parts = [f"updates {self.updates}"]
        if self._recent:
            parts.append(f"score {np.mean([e.score for e in self._recent]):.1f}")
        if "loss" in self.learning.metrics:
            parts.append(f"loss {float(self.learning.metrics['loss']):.3f}")
        return ", ".join(parts)

    def _evaluate_on_the_way(self) -> None:
        begun, config = time.monotonic(), self._system.config
        if self._evaluator is None:
            self._evaluator = Evaluator(
                self._system, config.evaluate_episodes, max_steps=config.evaluate_max_steps
            )
        result = summary(self._evaluator.play(self.learning.state.variables, config.seed))
        values = {f"evaluation/{name}": value for name, value in result.items()}
        if self._foresee is not None:
            key = jax.random.fold_in(self._prediction_key, self.updates)
            quality = self._foresee(self.learning.state.variables, self.learning.replay, key)
            values |= {f"prediction/{name}": curve for name, curve in quality.lists().items()}
        self._times["evaluating"] += time.monotonic() - begun
        values |= {"updates": self.updates, "seconds": round(self._elapsed(), 3)}
        self._log.write(self._collector.interactions, values)
        _say(
            f"{self._collector.interactions} interactions, {self.updates} updates: score "
            f"{_score(result)} ({self._elapsed():.0f} s)"
        )

    def _elapsed(self) -> float:
        return self._seconds + time.monotonic() - self._begun

    def _spent_on(self) -> dict[str, float]:
        """Seconds by kind of work; acting is what it takes beyond learning."""
        return {**self._times, **self.learning.times}

    def _conclude(self) -> None:
        """Evaluate at the end, and write the result."""
        config, trained = self._system.config, self._elapsed()
        evaluator = Evaluator(self._system, config.final_episodes, max_steps=config.final_max_steps)
        with progress("evaluate", config.final_episodes) as advance:
            episodes = evaluator.play(self.learning.state.variables, config.seed, advance)
        evaluator.close()
        prediction = self._foresight()
        evaluated = self._elapsed() - trained
        lines = [json.dumps(episode._asdict()) + "\n" for episode in episodes]
        write_whole(self._folder.episodes, "".join(lines))
        result = {
            "env": config.env,
            "agent": config.agent,
            "delay": config.law,
            "seed": config.seed,
            "interactions": self._collector.interactions,
            "updates": self.updates,
            **summary(episodes),
            "scores": [episode.score for episode in episodes],
            "train_seconds": round(trained, 1),
            "compile_seconds": round(self._compile_seconds, 1),
            "seconds": {name: round(spent, 1) for name, spent in self._spent_on().items()},
            "evaluate_seconds": round(evaluated, 1),
            "peak_gigabytes": peak_gigabytes(),
            "prediction": prediction,
            "versions": versions(),
        }
        write_json(self._folder.result, result)
        _say(
            f"score {_score(result)} over "
            f"{config.final_episodes} episodes, {trained:.0f} s of training; {self._folder.result}"
        )

    def _foresight(self) -> Curves | None:
        """How well the model foresees, by horizon; None if there is none, or it is not asked."""
        if not self._foresees:
            return None
        return measure_foresight(
            self._system, self.learning.state.variables, self._system.config.seed
        )

    def _save(self) -> None:
        self._saved = time.monotonic()
        if self._checkpoints.latest() == self._rounds:
            return
        actions, environments = self._env.state()
        learning = self.learning
        rebuilt = self._env.rebuilds(int(learning.replay.length))
        parts = {
            "learner": learning.state,
            "replay": arrays_of(learning.replay, frames=not rebuilt),
            "collector": {**self._collector.state(), "actions": actions},
        }
        progress_made = {
            "environments": environments,
            "frames": "rebuilt" if rebuilt else "stored",
            "rounds": self._rounds,
            **learning.numbers(),
            "recent": [tuple(episode) for episode in self._recent],
            "seconds": self._elapsed(),
            "compile_seconds": self._compile_seconds,
            "times": self._spent_on(),
            "metrics_bytes": self._log.position(),
            "alarms": self._alarms.counts,
        }
        self._checkpoints.save(self._rounds, parts, progress_made)

    def _restore(self) -> None:
        made = self._checkpoints.progress()
        config, stored = self._system.config, made.get("frames", "stored") == "stored"
        learning, empty = self.learning, self.learning.replay
        actions = np.zeros((made["environments"]["steps"], config.envs), np.int32)
        examples = examples_of(
            {
                "learner": learning.state,
                "replay": arrays_of(empty, frames=stored),
                "collector": {**self._collector.state(), "actions": actions},
            }
        )
        release(empty, frames=stored)  # there may be no room for two
        parts = self._checkpoints.restore(examples)
        learning.restore(parts["learner"], with_arrays(empty, parts["replay"], frames=stored), made)
        self._collector.restore(parts["collector"])
        self._rounds = made["rounds"]
        self._recent = [Ending(*episode) for episode in made["recent"]]
        self._compile_seconds += made["compile_seconds"]
        for times in (self._times, learning.times):
            times.update({name: made["times"].get(name, 0.0) for name in times})
        self._log.rewind(made["metrics_bytes"])
        self._alarms.counts = dict(made.get("alarms", {}))
        self._restore_environments(parts["collector"]["actions"], made["environments"], stored)
        self._seconds, self._begun = made["seconds"], time.monotonic()  # of training alone
        _say(f"going on from {self._collector.interactions} interactions, {self.updates} updates")

    def _restore_environments(
        self, actions: Any, numbers: dict[str, Any], frames_stored: bool
    ) -> None:
        """Play everything again; the replay's frames too, where the checkpoint has none."""
        learning = self.learning
        writer = FrameWriter(learning.replay.frames)
        see = None if frames_stored else writer.write
        with progress("environments", len(actions)) as advance:
            observations = self._env.restore(actions, numbers, advance, see)
        writer.finish()
        learning.replay = learning.replay._replace(frames=writer.frames)
        if observations is None and not frames_stored:
            raise BrokenCheckpointError(
                f"the frames of this run come back by playing its actions again, and "
                f"{self._system.config.env} showed something else than it did: go on with the "
                f"versions in {self._folder.starts}"
            )
        if observations is None:
            _say(
                f"{self._system.config.env} did not come back to where it was: "
                "episodes in flight are restarted"
            )
            learning.replay = cut_off(learning.replay)
            self._collector.begin()
        else:
            self._collector.resume(observations)

    def _on_signal(self, number: int, frame: Any) -> None:
        del number, frame
        if self._stop:
            raise KeyboardInterrupt
        self._stop = True
        _say("stopping after this round, with a checkpoint; once more to stop at once")


def _score(result: dict[str, Any]) -> str:
    spread = result["standard_error"]
    return f"{result['score']:.1f}" + ("" if spread is None else f" ± {spread:.1f}")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
