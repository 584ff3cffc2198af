"""Self-play: the agent plays the environments, and each step becomes a row of the replay."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.stages import Lowered

from delayzero.learning.reanalysis import targets_of, with_newest_searched
from delayzero.planning import SearchResult
from delayzero.playing import Ending
from delayzero.playing.actor import SelfPlay, State, seed_of_environments
from delayzero.playing.audit import Audit
from delayzero.playing.streams import STREAM_NEWEST, run_key
from delayzero.playing.system import System
from delayzero.replay import (
    Decisions,
    HostFrames,
    Replay,
    Step,
    Targets,
    Transitions,
    append,
    cut_off,
)
from delayzero.settings import LearningConfig


class Played(NamedTuple):
    """The rows of a round, before they are stored."""

    steps: list[Step]
    endings: list[Ending]
    """Episodes that ended."""
    variables: Any
    """The model variables with which they were played."""
    updates: int
    """The number of updates that the variables have had."""
    begun_again: bool
    """Whether the episodes before them were abandoned."""


class Collector:
    """Plays the environments of a run and stores the steps."""

    def __init__(self, system: System, actors: SelfPlay) -> None:
        """Prepare.

        Args:
            system: The run's parts.
            actors: Who plays.
        """
        self._system, self._actors = system, actors
        store = functools.partial(_append_rows, system)
        self._append = jax.jit(store, donate_argnums=0)
        self._search_key = run_key(system.config.seed, STREAM_NEWEST)
        self._audit = _audit(system) if system.config.audit else None

    @property
    def interactions(self) -> int:
        """Steps of all environments so far."""
        return self._actors.interactions

    def begin(self) -> None:
        """Reset the environments, abandoning the episodes in progress."""
        self._actors.begin(seed_of_environments(self._system.config, self.interactions))
        self._forget()

    def lowered(self, variables: Any, replay: Replay) -> Iterator[Lowered]:
        """Yield the functions that a whole round calls, lowered.

        Args:
            variables: The model's variables, or their shapes.
            replay: Where rows will be stored.
        """
        acting = self._actors.acting(variables)
        yield from acting.programs
        count = self._system.config.rows
        host, observation = isinstance(replay.frames, HostFrames), replay.frames.shape[1:]
        frame = jax.ShapeDtypeStruct(observation, replay.frames.dtype)
        frames = None if host else (frame,) * count
        kept = replay.transitions, replay.decisions
        transitions, decisions = jax.tree.map(
            lambda x: jax.ShapeDtypeStruct((count, *x.shape[1:]), x.dtype), kept
        )
        rows = (frames, transitions, decisions, (acting.search,) * count)
        yield self._append.lower(replay, *rows, variables, self._search_key, jnp.int32(0))

    def play(self, variables: Any, updates: int) -> Played:
        """Play the rows of one round, or the rest of the budget.

        Args:
            variables: The model's variables.
            updates: The number of updates that the variables have had.
        """
        config = self._system.config
        left = config.interactions - self.interactions
        count = min(config.rows, -(-left // config.envs))
        tail = config.tail_updates if isinstance(config, LearningConfig) else 0
        progress = updates / max(1, config.total_updates - tail)
        rows = self._actors.play(variables, count, progress)
        endings = list(chain.from_iterable(rows.endings))
        return Played(rows.steps, endings, variables, updates, rows.begun_again)

    def store(self, replay: Replay, played: Played) -> Replay:
        """Return the replay with the rows of a round, and targets for them."""
        steps = played.steps
        if played.begun_again:
            replay = cut_off(replay)
            self._forget()
        if isinstance(replay.frames, HostFrames):
            jax.block_until_ready(replay.priority)  # no update may still be reading these frames
            slots = (int(replay.length) + np.arange(len(steps))) % replay.rows
            replay.frames.write(slots, [step.observation for step in steps])
            frames = None
        else:
            frames = tuple(step.observation for step in steps)
        transitions, decisions = self._system.rows_of(steps)
        stored: Replay = self._append(
            replay,
            frames,
            transitions,
            decisions,
            tuple(step.search for step in steps),
            played.variables,
            self._search_key,
            jnp.int32(played.updates),
        )
        if self._audit is not None:
            _check_rows(self._audit, steps, stored)
        return stored

    def collect(self, variables: Any, replay: Replay, updates: int) -> tuple[Replay, list[Ending]]:
        """Play and store a round; return the replay and the episodes that ended."""
        played = self.play(variables, updates)
        return self.store(replay, played), played.endings

    def state(self) -> State:
        """Return arrays and numbers from which :meth:`restore` continues exactly."""
        return self._actors.state()

    def example(self, numbers: Any) -> dict[str, Any]:
        """Return arrays with the shapes of those of a state with these numbers."""
        return self._actors.example(numbers)

    def restore(self, state: State, see: Callable[[Any], Any] | None = None) -> bool:
        """Continue from a :meth:`state`; see :meth:`SelfPlay.restore`."""
        self._forget()
        return self._actors.restore(state, see)

    def rebuilds(self, rows: int) -> bool:
        """Return whether :meth:`restore` brings back all observations of the rows."""
        return self._actors.rebuilds(rows)

    def _forget(self) -> None:
        if self._audit is not None:
            self._audit.forget()


def _audit(system: System) -> Audit:
    """Return an audit of a run's rows."""
    count, logs, delays = system.config.envs, system.agent.logs, system.config.delays
    if delays is None:
        return Audit(count, logs)
    oldest = delays.max_observation_delay
    return Audit(count, logs, rule=delays.rule, reveal=delays.reveal, oldest=oldest)


def _check_rows(audit: Audit, steps: Sequence[Step], replay: Replay) -> None:
    """Audit steps, and check that the newest rows of the replay hold them."""
    slots = (int(replay.length) - len(steps) + np.arange(len(steps))) % replay.rows
    kept = replay.transitions, replay.decisions
    transitions, decisions = jax.tree.map(lambda field: np.asarray(field[slots]), kept)
    for k, step in enumerate(steps):
        audit.check(step)
        audit.check_stored(
            step,
            jax.tree.map(lambda field, k=k: field[k], transitions),
            jax.tree.map(lambda field, k=k: field[k], decisions),
        )


def _append_rows(
    system: System,
    replay: Replay,
    frames: tuple[Array, ...] | None,
    rows: Transitions,
    decisions: Decisions,
    searches: tuple[SearchResult | None, ...],
    variables: Any,
    key: Array,
    updates: Array,
) -> Replay:
    """Return the replay with rows that were collected one by one, and targets for each."""
    targets = [targets_of(result, updates) for result in searches if result is not None]
    stacked: Targets | tuple[()] = ()
    if targets:
        stacked = Targets(*(jnp.stack(fields) for fields in zip(*targets, strict=True)))
    whole = None if frames is None else jnp.stack(frames)
    replay = append(replay, whole, rows, stacked, decisions, ahead=system.learner.window)
    if system.searches_again:
        replay = with_newest_searched(
            system.planner,
            variables,
            jax.random.fold_in(key, replay.length),
            replay,
            len(searches),
            updates=updates,
        )
    return replay
