"""The learning half of a run: weights and replay, and the updates and sweeps that change them."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from delayzero.arguments import UsageError
from delayzero.files import plain
from delayzero.learning.fresh import Fresh
from delayzero.learning.learner import NEVER, LearnerState
from delayzero.playing.streams import STREAM_HEALTH, STREAM_LEARNING, STREAM_SWEEPS, run_key
from delayzero.playing.system import System
from delayzero.replay import Replay, Sample, episode_starts, stacked_frames, window_slots
from delayzero.runs.checkpoint import Checkpoints
from delayzero.training.programs import Programs


@jax.jit
def copied(variables: Any) -> Any:
    """Return a copy in new memory: updates overwrite their arguments."""
    return jax.tree.map(jnp.copy, variables)


class DivergedError(UsageError):
    """A loss or a gradient was not finite."""


class Learning:
    """Makes the updates that are due, and the sweeps that go with them.

    Attributes:
        state: The learner's state.
        replay: The replay it learns from.
        metrics: Averages over the updates of the last call.
        times: Seconds spent on each kind of work.
    """

    def __init__(
        self, system: System, programs: Programs, folder: Path, checkpoints: Checkpoints
    ) -> None:
        """Create the first learner state and an empty replay.

        Args:
            system: The run's parts.
            programs: The run's compiled functions.
            folder: Where to save a batch on which learning fails.
            checkpoints: The run's checkpoints; the error message names the newest one.
        """
        self._system, self._programs = system, programs
        self._folder, self._checkpoints = folder, checkpoints
        self.state: LearnerState = programs.first_learner()
        self.replay: Replay = programs.first_replay()
        self.metrics: dict[str, Any] = {}
        self.times = {"sweeping": 0.0, "updating": 0.0, "checking": 0.0}
        self._key = run_key(system.config.seed, STREAM_LEARNING)
        self._sweep_key = run_key(system.config.seed, STREAM_SWEEPS)
        self._position = jnp.zeros((), jnp.int32)
        self._sweeps, self._sweep_credit = 0, 0.0
        self._learned, self._fresh = 0, Fresh()

    @property
    def updates(self) -> int:
        """Updates made so far."""
        return int(self.state.updates)

    def variables(self) -> Any:
        """Return the model's variables, for playing, which one device does.

        Arrays that several devices hold bind every program that reads them to those devices. So
        they take a way through the host, which binds to none.
        """
        variables = self._system.learner.playing(self.state)
        if self.replay.mesh is None:
            return variables
        return jax.tree.map(lambda x: jnp.asarray(np.array(x)), variables)

    def learn(self, due: int) -> None:
        """Make the sweeps and updates that are due.

        Args:
            due: The number of updates; nothing is done if it is not positive.

        Raises:
            DivergedError: A loss or gradient was not finite.
        """
        if due <= 0:
            return
        self._check_fresh()
        begun = time.monotonic()
        if self._programs.sweep is not None:
            self._sweep(due)
        swept = time.monotonic()
        self.state, self.replay, self.metrics = self._programs.update(
            self.state, self.replay, self._key, jnp.int32(due)
        )
        failed = int(self.state.failed)
        self.times["sweeping"] += swept - begun
        self.times["updating"] += time.monotonic() - swept
        if failed != NEVER:
            self._explain_failure(failed)

    def _check_fresh(self) -> None:
        """Add up how well the rows that have come since the last updates are predicted."""
        length = int(self.replay.length)
        if self._programs.fresh is not None and self.updates and length > self._learned:
            begun = time.monotonic()
            sums = self._programs.fresh(self.state, self.replay, jnp.int32(self._learned))
            self._fresh = jax.tree.map(lambda total, new: total + float(new), self._fresh, sums)
            self.times["checking"] += time.monotonic() - begun
        self._learned = length

    def fresh(self) -> dict[str, float]:
        """Return the metrics of :mod:`delayzero.learning.fresh` since the last call."""
        metrics, self._fresh = self._fresh.metrics(), Fresh()
        return metrics

    def health(self) -> dict[str, float]:
        """Return the metrics of :mod:`delayzero.learning.health` that are defined."""
        if self._programs.health is None or self.updates == 0:
            return {}
        begun = time.monotonic()
        key = run_key(self._system.config.seed, STREAM_HEALTH)
        measured = self._programs.health(
            self.state, self.replay, jax.random.fold_in(key, self.updates)
        )
        numbers = {name: float(value) for name, value in measured.items()}
        self.times["checking"] += time.monotonic() - begun
        return {name: value for name, value in numbers.items() if not math.isnan(value)}

    def numbers(self) -> dict[str, Any]:
        """Return the numbers that :meth:`restore` needs besides the state and the replay."""
        return {
            "position": int(self._position),
            "sweeps": self._sweeps,
            "sweep_credit": self._sweep_credit,
            "learned": self._learned,
            "fresh": [float(total) for total in jax.tree.leaves(self._fresh)],
            "metrics": {name: plain(value) for name, value in self.metrics.items()},
        }

    def restore(self, state: LearnerState, replay: Replay, numbers: dict[str, Any]) -> None:
        """Continue from a state, a replay and their :meth:`numbers`."""
        self.state, self.replay = state, replay
        self._position = jnp.int32(numbers["position"])
        self._sweeps, self._sweep_credit = numbers["sweeps"], numbers["sweep_credit"]
        self._learned = numbers["learned"]
        self._fresh = jax.tree.unflatten(jax.tree.structure(Fresh()), numbers["fresh"])
        self.metrics = numbers["metrics"]

    def _sweep(self, due: int) -> None:
        """Search the chunks of stored positions that are due with a number of updates."""
        config, roots = self._system.searching, self._system.sweep_roots
        self._sweep_credit += config.reanalysis.positions_per_update * due / roots
        count = int(self._sweep_credit)
        if count == 0:
            return
        self._sweep_credit -= count
        stored = min(int(self.replay.length), self.replay.rows) * config.envs
        count = min(count, -(-stored // roots))  # a second pass with the same weights is useless
        key = jax.random.fold_in(self._sweep_key, self._sweeps)
        self._sweeps += 1
        self.replay, self._position = self._programs.sweep(
            self.state, self.replay, key, self._position, jnp.int32(count)
        )
        jax.block_until_ready(self._position)

    def _explain_failure(self, update: int) -> None:
        """Save the batch of a failed update, and raise an error with the cause and the remedy."""
        place = self._folder / f"failed-batch-{update}.npz"
        sample, batch = self._programs.batch(self.state, self.replay, self._key)
        arrays: dict[str, Any] = {
            name: np.asarray(x) for name, x in batch._asdict().items() if x is not None
        }
        kept = f"its batch is in {place}"
        try:
            np.savez_compressed(place, **arrays)
        except OSError as error:
            place.unlink(missing_ok=True)
            kept = f"its batch could not be saved ({error.strerror or error})"
        newest = self._checkpoints.latest()
        last = "there is no checkpoint yet" if newest is None else f"checkpoint {newest} is intact"
        cause = "the loss or its gradient is"
        remedy = f"try a smaller {self._system.learner.rate_setting} in another --folder"
        for what, values in (
            ("rewards", self._sampled_rewards(sample)),
            ("observations", self._sampled_frames(sample)),
        ):
            if not np.isfinite(values).all():
                cause = f"{what} of the environment are"
                remedy = f"fix {self._system.config.env}, or wrap it so that its {what} are finite"
        raise DivergedError(f"update {update}: {cause} not finite; {kept}, {last}; {remedy}")

    def _sampled_rewards(self, sample: Sample) -> Any:
        """Return the rewards of the sampled windows, ``[B, W]``."""
        slots, envs = window_slots(self.replay, sample, self._system.learner.window)
        return np.asarray(self.replay.transitions.reward[slots, envs])

    def _sampled_frames(self, sample: Sample) -> Any:
        """Return all frames of the sampled windows, ``[B, F, ...]``."""
        window = self._system.learner.window
        start = episode_starts(self.replay, sample.times, sample.envs)
        frames = jax.jit(stacked_frames, static_argnums=4)(
            self.replay, sample.times + window, sample.envs, start, self.replay.stack + window
        )
        return np.asarray(frames)
