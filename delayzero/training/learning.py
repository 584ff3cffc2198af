"""The learning half of a run: its weights and its replay, and the work that changes them."""

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
from delayzero.learning.learner import NEVER, LearnerState
from delayzero.playing.streams import STREAM_HEALTH, STREAM_LEARNING, STREAM_SWEEPS, run_key
from delayzero.playing.system import System
from delayzero.replay import Replay, Sample, stacked_frames
from delayzero.runs.checkpoint import Checkpoints
from delayzero.training.programs import Programs


@jax.jit
def copied(variables: Any) -> Any:
    """The same in other memory: updates write over what they are given."""
    return jax.tree.map(jnp.copy, variables)


class DivergedError(UsageError):
    """A loss or a gradient was not finite."""


class Learning:
    """Sweeps and updates, as many as are due.

    Attributes:
        state: The learner's.
        replay: What it learns from.
        metrics: Averages over the updates of the last call.
        times: Seconds spent with each kind of work.
    """

    def __init__(
        self, system: System, programs: Programs, folder: Path, checkpoints: Checkpoints
    ) -> None:
        """Begin.

        Args:
            system: The run's parts.
            programs: The run's compiled functions.
            folder: Where a batch is kept on which learning fails.
            checkpoints: The run's, to be named in such a case.
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

    @property
    def updates(self) -> int:
        """Updates made."""
        return int(self.state.updates)

    def learn(self, due: int) -> None:
        """Make so many updates, if any, and the sweeps that go with them.

        Raises:
            DivergedError: The loss was not finite.
        """
        if due <= 0:
            return
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

    def health(self) -> dict[str, float]:
        """How healthy the model is, see :mod:`delayzero.learning.health`; what is defined of it."""
        if self._programs.health is None or self.updates == 0:
            return {}
        begun = time.monotonic()
        key = run_key(self._system.config.seed, STREAM_HEALTH)
        found = self._programs.health(
            self.state, self.replay, jax.random.fold_in(key, self.updates)
        )
        numbers = {name: float(value) for name, value in found.items()}
        self.times["checking"] += time.monotonic() - begun
        return {name: value for name, value in numbers.items() if not math.isnan(value)}

    def numbers(self) -> dict[str, Any]:
        """Plain numbers from which :meth:`restore` goes on, beside the state and the replay."""
        return {
            "position": int(self._position),
            "sweeps": self._sweeps,
            "sweep_credit": self._sweep_credit,
            "metrics": {name: plain(value) for name, value in self.metrics.items()},
        }

    def restore(self, state: LearnerState, replay: Replay, numbers: dict[str, Any]) -> None:
        """Go on from earlier :meth:`numbers`."""
        self.state, self.replay = state, replay
        self._position = jnp.int32(numbers["position"])
        self._sweeps, self._sweep_credit = numbers["sweeps"], numbers["sweep_credit"]
        self.metrics = numbers["metrics"]

    def _sweep(self, due: int) -> None:
        config, roots = self._system.searching, self._system.sweep_roots
        self._sweep_credit += config.reanalysis.positions_per_update * due / roots
        count = int(self._sweep_credit)
        if count == 0:
            return
        self._sweep_credit -= count
        stored = min(int(self.replay.length), self.replay.rows) * config.envs
        count = min(count, -(-stored // roots))  # twice with the same weights tells nothing new
        key = jax.random.fold_in(self._sweep_key, self._sweeps)
        self._sweeps += 1
        self.replay, self._position = self._programs.sweep(
            self.state, self.replay, key, self._position, jnp.int32(count)
        )
        jax.block_until_ready(self._position)

    def _explain_failure(self, update: int) -> None:
        place = self._folder / f"failed-batch-{update}.npz"
        sample, batch = self._programs.batch(self.state, self.replay, self._key)
        arrays: dict[str, Any] = {
            name: np.asarray(x) for name, x in batch._asdict().items() if x is not None
        }
        np.savez_compressed(place, **arrays)
        kept = self._checkpoints.latest()
        last = "there is no checkpoint yet" if kept is None else f"checkpoint {kept} is intact"
        seen = np.isfinite(self._shown(sample)).all()
        cause = "the loss or its gradient is" if seen else "observations of the environment are"
        remedy = (
            f"try a smaller {self._system.learner.rate_setting} in another --folder"
            if seen
            else f"mend {self._system.config.env}, or wrap it so that it shows finite numbers"
        )
        raise DivergedError(
            f"update {update}: {cause} not finite; its batch is in {place}, {last}; {remedy}"
        )

    def _shown(self, sample: Sample) -> Any:
        """All that environments showed in sampled windows, ``[B, F, ...]``."""
        window = self._system.learner.window
        start = self.replay.start[sample.times % self.replay.rows, sample.envs]
        frames = jax.jit(stacked_frames, static_argnums=4)(
            self.replay, sample.times + window, sample.envs, start, self.replay.stack + window
        )
        return np.asarray(frames)
