"""The compiled functions of a run, and the check that it fits into memory before it starts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.stages import Lowered

from delayzero.learning import Learner, LearnerState
from delayzero.learning.devices import learner_devices
from delayzero.learning.fresh import Fresh, measure_fresh
from delayzero.learning.health import measure_health
from delayzero.learning.learner import Metrics
from delayzero.learning.reanalysis import sweep
from delayzero.playing.streams import STREAM_WEIGHTS, run_key
from delayzero.playing.system import System
from delayzero.replay import Replay, keep_columns, keep_everywhere, mesh_of, replicated
from delayzero.replay.sharding import everywhere
from delayzero.settings import LearningConfig
from delayzero.training.memory import (
    allowed_bytes,
    check_fits,
    frame_bytes,
    frames_on_host,
    replay_need,
    search_need,
    tree_bytes,
    weights_need,
    working_bytes,
    working_need,
)


def compiler_options() -> dict[str, str | bool] | None:
    """Return options that shorten long compilations on a GPU.

    XLA then times its candidates without comparing their results, and leaves matrix products to
    cuBLAS.
    """
    if jax.default_backend() != "gpu":
        return None
    return {"xla_gpu_autotune_level": "3", "xla_gpu_enable_triton_gemm": False}


class Programs:
    """Compiles the functions of a run, except those of evaluations, and creates its first state.

    Attributes:
        update: ``(learner, replay, key, count) -> (learner, replay, metrics)``; None if the agent
            does not learn.
        sweep: ``(learner, replay, key, position, count) -> (replay, position)``; None without
            sweeps.
        health: ``(learner, replay, key) -> metrics``; None for agents without a world model.
        fresh: ``(learner, replay, learned) -> sums over fresh rows``; None for those agents too.
        batch: ``(learner, replay, key) -> (sample, batch)`` of the next update, for inspection.
        compile_seconds: The time that compiling took.
    """

    def __init__(
        self,
        system: System,
        say: Callable[[str], None],
        acting: Callable[[Any, Replay], Iterable[Lowered]],
    ) -> None:
        """Compile.

        Args:
            system: The run's parts.
            say: Called with messages for the user.
            acting: Called with the learner's variables (their shapes) and a replay; returns the
                functions of self-play, lowered. JAX reuses their compiled form for calls with these
                shapes.

        Raises:
            UsageError: The run does not fit into memory.
        """
        self._system = system
        have = allowed_bytes(system.config)
        self._host_frames, message = frames_on_host(system)
        if message:
            say(message)
        devices = learner_devices(system.config)
        self._mesh = mesh_of(devices)
        if devices > 1:
            say(f"the learner uses {devices} devices")
        learner = jax.eval_shape(self._new_learner)
        replay = tree_bytes(jax.eval_shape(lambda: self._new_replay(False)))
        replay -= frame_bytes(system) if self._host_frames else 0
        weights = tree_bytes(learner)
        stored = replay_need(system, -(-replay // devices), host_frames=self._host_frames)
        searches = search_need(system, learner.variables)
        check_fits((weights_need(system, weights), stored, searches), have)
        self._replay = self._new_replay(self._host_frames)
        begun = time.monotonic()
        compiled, further = self._compiled(learner, acting)
        self.compile_seconds = time.monotonic() - begun
        config = system.config
        computing = [
            working_need(config, name, working_bytes(program)) for name, program in compiled.items()
        ]
        size = max(map(working_bytes, further), default=0)
        playing = working_need(config, "self-play", size)
        if isinstance(config, LearningConfig) and config.overlap:
            # Both run at once, and self-play has its own copy of the weights.
            weights += tree_bytes(learner.variables)
            working = [max(computing), playing]
        else:
            working = [max((*computing, playing))]
        check_fits((weights_need(system, weights), stored, *working), have)
        self.update: Any = compiled.get("update")
        self.sweep: Any = compiled.get("sweep")
        self.health: Any = compiled.get("health")
        self.fresh: Any = compiled.get("fresh")
        self.batch = jax.jit(system.learner.batch)

    def _compiled(
        self, learner: Any, acting: Callable[[Any, Replay], Iterable[Lowered]]
    ) -> tuple[dict[str, Any], list[Any]]:
        """Compile the functions of learning, by name, and those of self-play.

        One is compiled while the next is traced. Two are never compiled at once: on a GPU XLA times
        candidate kernels, and two compilations would disturb each other's timings.
        """
        pool, placed = ThreadPoolExecutor(1), replicated(self._mesh, learner)
        try:
            learning = {
                name: pool.submit(lower(placed).compile, compiler_options=compiler_options())
                for name, lower in self._lowerings().items()
            }
            playing = [pool.submit(one.compile) for one in acting(learner.variables, self._replay)]
            compiled = {name: future.result() for name, future in learning.items()}
            return compiled, [future.result() for future in playing]
        finally:
            pool.shutdown(cancel_futures=True)

    def _lowerings(self) -> dict[str, Callable[[Any], Lowered]]:
        """Return the methods that lower the functions of learning, by name."""
        lowerings: dict[str, Callable[[Any], Lowered]] = {}
        if isinstance(self._system.config, LearningConfig):
            lowerings["update"] = self._lower_update
        if self._system.sweeps:
            lowerings["sweep"] = self._lower_sweep
        if isinstance(self._system.learner, Learner):
            lowerings["health"] = self._lower_health
            lowerings["fresh"] = self._lower_fresh
        return lowerings

    def first_learner(self) -> LearnerState:
        """Return the learner's state before the first update."""
        new = jax.jit(self._new_learner, out_shardings=everywhere(self._mesh))
        state: LearnerState = new()
        return state

    def first_replay(self) -> Replay:
        """Return the empty replay, once: keeping it here too would take its memory twice."""
        replay = self._replay
        del self._replay
        return replay

    def _new_learner(self) -> LearnerState:
        key = run_key(self._system.config.seed, STREAM_WEIGHTS)
        return self._system.first_state(key)

    def _new_replay(self, host_frames: bool) -> Replay:
        return self._system.empty_replay(host_frames=host_frames, mesh=self._mesh)

    def _lower_update(self, learner: Any) -> Lowered:
        def update(
            state: LearnerState, replay: Replay, key: Array, count: Array
        ) -> tuple[LearnerState, Replay, Metrics]:
            state, replay, metrics = self._system.learner.update(state, replay, key, count)
            state, metrics = keep_everywhere(self._mesh, (state, metrics))
            return state, keep_columns(self._mesh, replay), metrics

        program = jax.jit(update, donate_argnums=(0, 1))
        return program.lower(learner, self._replay, jax.random.key(0), jnp.int32(1))

    def _lower_sweep(self, learner: Any) -> Lowered:
        system, searcher = self._system, self._system.learner
        assert isinstance(searcher, Learner)

        def sweep_replay(
            state: LearnerState, replay: Replay, key: Array, position: Array, count: Array
        ) -> tuple[Replay, Array]:
            replay, position = sweep(
                system.planner,
                searcher.target_variables(state),
                key,
                replay,
                position,
                count,
                roots=system.sweep_roots,
                updates=searcher.target_updates(state),
            )
            return keep_columns(self._mesh, replay), keep_everywhere(self._mesh, position)

        program = jax.jit(sweep_replay, donate_argnums=1)
        zero = jnp.int32(0)
        return program.lower(learner, self._replay, jax.random.key(0), zero, zero)

    def _lower_health(self, learner: Any) -> Lowered:
        measured = self._system.learner
        assert isinstance(measured, Learner)

        def health(state: LearnerState, replay: Replay, key: Array) -> Metrics:
            return measure_health(measured, state, replay, key)

        return jax.jit(health).lower(learner, self._replay, jax.random.key(0))

    def _lower_fresh(self, learner: Any) -> Lowered:
        measured, rows = self._system.learner, self._system.config.rows
        assert isinstance(measured, Learner)

        def fresh(state: LearnerState, replay: Replay, learned: Array) -> Fresh:
            return measure_fresh(measured, state, replay, learned, rows=rows)

        return jax.jit(fresh).lower(learner, self._replay, jnp.int32(0))
