"""The compiled functions of a run, checked against the memory before anything is played."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from delayzero.learning import Learner, LearnerState
from delayzero.learning.reanalysis import sweep, with_all_encoded
from delayzero.replay import Replay, create
from delayzero.training.memory import (
    check_fits,
    device_bytes,
    frame_bytes,
    frames_on_host,
    tree_bytes,
    working_bytes,
)
from delayzero.training.system import STREAM_WEIGHTS, System, run_key


class Programs:
    """Compiles a run's sweep and update, and makes its first state.

    Attributes:
        update: ``(learner, replay, key, count) -> (learner, replay, metrics)``; None without.
        sweep: ``(learner, replay, key, position, count) -> (replay, position)``; None without.
        encode: ``(learner, replay) -> replay`` with the latents of all rows; None if none are kept.
        batch: ``(learner, replay, key) -> (sample, batch)`` of the next update, for a look.
        compile_seconds: What compiling took.
    """

    def __init__(self, system: System, say: Callable[[str], None]) -> None:
        self._system = system
        have = device_bytes()
        self._host_frames, message = frames_on_host(system)
        if message:
            say(message)
        learner = jax.eval_shape(self._new_learner)
        kept = tree_bytes((learner, jax.eval_shape(lambda: self._new_replay(False))))
        kept -= frame_bytes(system) if self._host_frames else 0
        check_fits(kept, 0, have)
        self._replay = self._new_replay(self._host_frames)
        begun = time.monotonic()
        learns = system.kind.learns
        self.update: Any = self._compile_update(learner) if learns else None
        self.sweep: Any = self._compile_sweep(learner) if learns and system.sweeps else None
        self.encode: Any = self._compile_encode(learner) if system.latent else None
        self.compile_seconds = time.monotonic() - begun
        programs = (self.update, self.sweep, self.encode)
        compiled = [program for program in programs if program is not None]
        check_fits(kept, max(map(working_bytes, compiled), default=0), have)
        self.batch = jax.jit(system.learner.batch)

    def first_learner(self) -> LearnerState:
        """The learner's state before the first update."""
        state: LearnerState = jax.jit(self._new_learner)()
        return state

    def first_replay(self) -> Replay:
        """The empty replay, once: keeping it here too would take its memory twice."""
        replay = self._replay
        del self._replay
        return replay

    def _new_learner(self) -> LearnerState:
        key = run_key(self._system.config.seed, STREAM_WEIGHTS)
        return self._system.first_state(key)

    def _new_replay(self, host_frames: bool) -> Replay:
        spaces = self._system.spaces
        return create(
            self._system.replay_rows,
            self._system.config.envs,
            spaces.shape,
            spaces.dtype,
            spaces.num_actions,
            queue=self._system.queue,
            latent=self._system.latent,
            host_frames=host_frames,
        )

    def _compile_update(self, learner: Any) -> Any:
        update = jax.jit(self._system.learner.update, donate_argnums=(0, 1))
        return update.lower(learner, self._replay, jax.random.key(0), jnp.int32(1)).compile()

    def _compile_sweep(self, learner: Any) -> Any:
        system, searcher = self._system, self._system.learner
        assert isinstance(searcher, Learner)

        def sweep_replay(
            state: LearnerState, replay: Replay, key: Array, position: Array, count: Array
        ) -> tuple[Replay, Array]:
            return sweep(
                system.planner,
                searcher.target_variables(state),
                key,
                replay,
                position,
                count,
                roots=system.sweep_roots,
                stack=system.config.stack,
                updates=searcher.target_updates(state),
            )

        program = jax.jit(sweep_replay, donate_argnums=1)
        zero = jnp.int32(0)
        return program.lower(learner, self._replay, jax.random.key(0), zero, zero).compile()

    def _compile_encode(self, learner: Any) -> Any:
        system = self._system

        def encode_replay(state: LearnerState, replay: Replay) -> Replay:
            return with_all_encoded(
                system.planner.model,
                state.variables,
                replay,
                roots=system.sweep_roots,
                stack=system.config.stack,
            )

        return jax.jit(encode_replay, donate_argnums=1).lower(learner, self._replay).compile()
