"""The training loop: play some rows, learn as much as is due, write down what happened.

One process, one thing after the other, an exact ratio of updates to interactions. Randomness comes
from keys derived from the seed and from counters, so a run is a function of its configuration,
and a resumed one goes on as if it had never stopped.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from delayzero.agents import Ending
from delayzero.arguments import UsageError
from delayzero.evaluation.episodes import Evaluator, summary
from delayzero.evaluation.prediction import Curves, foresight_program, measure_foresight
from delayzero.learning.learner import NEVER, LearnerState
from delayzero.progress import Advance, progress
from delayzero.replay import FrameWriter, Replay, arrays_of, cut_off, release, with_arrays
from delayzero.training.checkpoint import BrokenCheckpointError, Checkpoints, examples_of
from delayzero.training.collector import Collector
from delayzero.training.config import TrainConfig
from delayzero.training.environments import Environments
from delayzero.training.files import write_json, write_whole
from delayzero.training.metrics import MetricsLog, collapse_warning, plain
from delayzero.training.programs import Programs
from delayzero.training.run_folder import RunFolder, versions
from delayzero.training.system import (
    STREAM_LEARNING,
    STREAM_SWEEPS,
    Spaces,
    System,
    build_system,
    run_key,
)

RECENT = 20
"""Episodes of self-play in the mean score that is logged."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""They ask a run to stop."""


class DivergedError(UsageError):
    """A loss or a gradient was not finite."""


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
        system = build_system(config, Spaces.of(env.played))
        if folder.finished(config):
            _say(f"{folder.path} is finished; its result is in {folder.result}")
            return Outcome(True, folder.path)
        folder.open(config, command)
        unrolled = system.kind.rolls and system.kind.searches
        if unrolled and config.max_delay > config.learner.unroll:
            _say(
                f"the model is rolled through up to {config.max_delay} actions and trained for "
                f"{config.learner.unroll}: --learner.unroll {config.max_delay} trains it so far, "
                "for more time"
            )
        trainer = Trainer(system, env, folder)
        try:
            return Outcome(trainer.run(), folder.path)
        finally:
            trainer.close()
    finally:
        env.close()
        folder.close()


class Trainer:
    """A run under way."""

    def __init__(self, system: System, env: Environments, folder: RunFolder) -> None:
        self._system, self._env, self._folder = system, env, folder
        self._programs = Programs(system, _say)
        self.learner: LearnerState = self._programs.first_learner()
        self.replay: Replay = self._programs.first_replay()
        self._collector = Collector(system, env.played)
        self._checkpoints = Checkpoints(folder.checkpoints)
        self._log = MetricsLog(folder.metrics, folder.path / "tensorboard")
        self._evaluator: Evaluator | None = None
        self._foresees = system.kind.has_model and system.config.prediction_rows > 0
        self._foresee = foresight_program(system) if self._foresees else None
        self._learning_key = run_key(system.config.seed, STREAM_LEARNING)
        self._sweep_key = run_key(system.config.seed, STREAM_SWEEPS)
        self._position = jnp.zeros((), jnp.int32)
        self._rounds, self._sweeps, self._sweep_credit = 0, 0, 0.0
        self._recent: list[Ending] = []
        self._metrics: dict[str, Any] = {}
        self._times = {"acting": 0.0, "sweeping": 0.0, "updating": 0.0, "evaluating": 0.0}
        self._seconds, self._begun = 0.0, time.monotonic()
        self._saved = time.monotonic()
        self._stop = False
        self._collapsed = False

    @property
    def updates(self) -> int:
        """Updates made."""
        return int(self.learner.updates)

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
            with progress("train", config.interactions + config.tail_updates) as advance:
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
        """Close files."""
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
        tail = max(0, self.updates - (config.total_updates - config.tail_updates))
        return min(self._collector.interactions, config.interactions) + tail

    def _round(self, advance: Advance) -> None:
        """Play, learn, write down."""
        config, before, done = self._system.config, self._collector.interactions, self._done()
        self._rounds += 1
        if before < config.interactions:
            self._play()
            due = config.updates_due(self._collector.interactions) - self.updates
        else:
            share = round(config.update_ratio * config.rows * config.envs)
            due = min(max(1, share), config.total_updates - self.updates)
        if due > 0:
            self._learn(due)
        now = self._collector.interactions
        if now // config.log_every > before // config.log_every or now == before:
            self._write_metrics()
        if config.evaluate_every and now // config.evaluate_every > before // config.evaluate_every:
            self._evaluate_on_the_way()
        advance(self._done() - done, self._note())
        if time.monotonic() - self._saved >= 60 * config.checkpoint_minutes:
            self._save()

    def _play(self) -> None:
        begun = time.monotonic()
        self.replay, finished = self._collector.collect(
            self.learner.variables, self.replay, self.updates
        )
        self._recent = [*self._recent, *finished][-RECENT:]
        self._times["acting"] += time.monotonic() - begun

    def _learn(self, due: int) -> None:
        begun = time.monotonic()
        if self._programs.sweep is not None:
            self._sweep(due)
        swept = time.monotonic()
        self.learner, self.replay, self._metrics = self._programs.update(
            self.learner, self.replay, self._learning_key, jnp.int32(due)
        )
        failed = int(self.learner.failed)
        updated = time.monotonic()
        if self._latents_due(due):
            self.replay = self._programs.encode(self.learner, self.replay)
            jax.block_until_ready(self.replay.latents)
        self._times["sweeping"] += swept - begun + time.monotonic() - updated
        self._times["updating"] += updated - swept
        if failed != NEVER:
            self._explain_failure(failed)

    def _latents_due(self, made: int) -> bool:
        """Whether the replay's latents are to be encoded again after so many new updates."""
        period, now = self._system.config.learner.latent_period, self.updates
        if self._programs.encode is None or period is None:
            return False
        return now // period > (now - made) // period

    def _sweep(self, due: int) -> None:
        config, roots = self._system.config, self._system.sweep_roots
        stored = min(int(self.replay.length), self.replay.rows) * config.envs
        self._sweep_credit += stored * due / config.reanalysis.sweep_updates / roots
        count = int(self._sweep_credit)
        if count == 0:
            return
        self._sweep_credit -= count
        key = jax.random.fold_in(self._sweep_key, self._sweeps)
        self._sweeps += 1
        self.replay, self._position = self._programs.sweep(
            self.learner, self.replay, key, self._position, jnp.int32(count)
        )
        jax.block_until_ready(self._position)

    def _explain_failure(self, update: int) -> None:
        place = self._folder.path / f"failed-batch-{update}.npz"
        _, batch = self._programs.batch(self.learner, self.replay, self._learning_key)
        arrays: dict[str, Any] = {
            name: np.asarray(x) for name, x in batch._asdict().items() if x is not None
        }
        np.savez_compressed(place, **arrays)
        kept = self._checkpoints.latest()
        last = "there is no checkpoint yet" if kept is None else f"checkpoint {kept} is intact"
        shown = [arrays[name] for name in ("observation", "following") if name in arrays]
        seen = all(np.isfinite(array).all() for array in shown)
        cause = "the loss or its gradient is" if seen else "observations of the environment are"
        remedy = (
            f"try a smaller {self._system.learner.rate_setting} in another --folder"
            if seen
            else f"mend {self._system.config.env}, or wrap it so that it shows finite numbers"
        )
        raise DivergedError(
            f"update {update}: {cause} not finite; its batch is in {place}, {last}; {remedy}"
        )

    def _write_metrics(self) -> None:
        metrics = {name: np.asarray(value) for name, value in self._metrics.items()}
        values: dict[str, Any] = {
            "updates": self.updates,
            "seconds": round(self._elapsed(), 3),
            **metrics,
            **{f"seconds/{name}": round(spent, 3) for name, spent in self._times.items()},
        }
        if self._recent:
            values["selfplay/score"] = float(np.mean([e.score for e in self._recent]))
            values["selfplay/length"] = float(np.mean([e.length for e in self._recent]))
        if "policy/target_entropy" in metrics:
            warning = collapse_warning(
                float(metrics["policy/target_entropy"]), self._system.spaces.num_actions
            )
            if warning is not None:
                values["warning"] = warning
                if not self._collapsed:
                    _say(f"warning: {warning}")
            self._collapsed = warning is not None
        self._log.write(self._collector.interactions, values)

    def _note(self) -> str:
        parts = [f"updates {self.updates}"]
        if self._recent:
            parts.append(f"score {np.mean([e.score for e in self._recent]):.1f}")
        if "loss" in self._metrics:
            parts.append(f"loss {float(self._metrics['loss']):.3f}")
        return ", ".join(parts)

    def _evaluate_on_the_way(self) -> None:
        begun, config = time.monotonic(), self._system.config
        if self._evaluator is None:
            self._evaluator = Evaluator(
                self._system, config.evaluate_episodes, max_steps=config.evaluate_max_steps
            )
        result = summary(self._evaluator.play(self.learner.variables, config.seed))
        self._times["evaluating"] += time.monotonic() - begun
        values = {f"evaluation/{name}": value for name, value in result.items()}
        if self._foresee is not None:
            key = jax.random.fold_in(self._sweep_key, self.updates)
            quality = self._foresee(self.learner.variables, self.replay, key)
            values |= {f"prediction/{name}": curve for name, curve in quality.lists().items()}
        values |= {"updates": self.updates, "seconds": round(self._elapsed(), 3)}
        self._log.write(self._collector.interactions, values)
        _say(
            f"{self._collector.interactions} interactions, {self.updates} updates: score "
            f"{_score(result)} ({self._elapsed():.0f} s)"
        )

    def _elapsed(self) -> float:
        return self._seconds + time.monotonic() - self._begun

    def _conclude(self) -> None:
        """Evaluate at the end, and write the result."""
        config, trained = self._system.config, self._elapsed()
        evaluator = Evaluator(self._system, config.final_episodes, max_steps=config.final_max_steps)
        with progress("evaluate", config.final_episodes) as advance:
            episodes = evaluator.play(self.learner.variables, config.seed, advance)
        evaluator.close()
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
            "compile_seconds": round(self._programs.compile_seconds, 1),
            "seconds": {name: round(spent, 1) for name, spent in self._times.items()},
            "evaluate_seconds": round(self._elapsed() - trained, 1),
            "prediction": self._foresight(),
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
        return measure_foresight(self._system, self.learner.variables, self._system.config.seed)

    def _save(self) -> None:
        self._saved = time.monotonic()
        if self._checkpoints.latest() == self._rounds:
            return
        actions, environments = self._env.state()
        rebuilt = self._env.rebuilds(int(self.replay.length))
        parts = {
            "learner": self.learner,
            "replay": arrays_of(self.replay, frames=not rebuilt),
            "collector": {**self._collector.state(), "actions": actions},
        }
        progress_made = {
            "environments": environments,
            "frames": "rebuilt" if rebuilt else "stored",
            "position": int(self._position),
            "rounds": self._rounds,
            "sweeps": self._sweeps,
            "sweep_credit": self._sweep_credit,
            "recent": [tuple(episode) for episode in self._recent],
            "seconds": self._elapsed(),
            "times": self._times,
            "metrics": {name: plain(value) for name, value in self._metrics.items()},
            "metrics_bytes": self._log.position(),
        }
        self._checkpoints.save(self._rounds, parts, progress_made)

    def _restore(self) -> None:
        made = self._checkpoints.progress()
        config, stored = self._system.config, made.get("frames", "stored") == "stored"
        actions = np.zeros((made["environments"]["steps"], config.envs), np.int32)
        examples = examples_of(
            {
                "learner": self.learner,
                "replay": arrays_of(self.replay, frames=stored),
                "collector": {**self._collector.state(), "actions": actions},
            }
        )
        release(self.replay, frames=stored)  # there may be no room for two
        parts = self._checkpoints.restore(examples)
        self.learner = parts["learner"]
        self.replay = with_arrays(self.replay, parts["replay"], frames=stored)
        self._collector.restore(parts["collector"])
        self._position = jnp.int32(made["position"])
        self._rounds, self._sweeps = made["rounds"], made["sweeps"]
        self._sweep_credit = made["sweep_credit"]
        self._recent = [Ending(*episode) for episode in made["recent"]]
        self._seconds, self._times = made["seconds"], dict(made["times"])
        self._metrics = made["metrics"]
        self._log.rewind(made["metrics_bytes"])
        self._restore_environments(parts["collector"]["actions"], made["environments"], stored)
        _say(f"going on from {self._collector.interactions} interactions, {self.updates} updates")

    def _restore_environments(
        self, actions: Any, numbers: dict[str, Any], frames_stored: bool
    ) -> None:
        """Play everything again; the replay's frames too, where the checkpoint has none."""
        writer = FrameWriter(self.replay.frames)
        see = None if frames_stored else writer.write
        with progress("environments", len(actions)) as advance:
            observations = self._env.restore(actions, numbers, advance, see)
        writer.finish()
        self.replay = self.replay._replace(frames=writer.frames)
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
            self.replay = cut_off(self.replay)
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
