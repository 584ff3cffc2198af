"""Self-play: environments and the acting agent, one row of the replay a step."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.vector import VectorEnv
from jax import Array
from numpy.typing import NDArray

from delayzero.agents import act, first_stack
from delayzero.envs.recording import StepOutcome
from delayzero.learning.reanalysis import targets_of
from delayzero.planning import SearchResult
from delayzero.replay import HostFrames, Replay, Targets, Transitions, append
from delayzero.training.system import STREAM_ACTING, System, run_key


class Finished(NamedTuple):
    """An episode that ended during self-play."""

    score: float
    """The sum of its raw rewards."""
    length: int
    """Its steps."""


class Row(NamedTuple):
    """One step of all environments, before it is stored."""

    frame: NDArray[Any]
    transitions: Transitions
    found: SearchResult


class Collector:
    """Plays N environments and stores what happens.

    Everything that must be saved to go on exactly is in :meth:`state`, apart from the
    environments themselves.
    """

    def __init__(self, system: System, env: VectorEnv[Any, Any, Any]) -> None:
        config, spaces = system.config, system.spaces
        self._system, self._env = system, env
        self._key = run_key(config.seed, STREAM_ACTING)
        self._act = jax.jit(functools.partial(act, system.planner, explore=True))
        store = functools.partial(_append_rows, ahead=config.learner.window, stack=config.stack)
        self._append = jax.jit(store, donate_argnums=0)
        self._stack = first_stack(config.envs, config.stack, spaces.shape, spaces.dtype)
        self._time = 0
        self._first = np.ones(config.envs, bool)
        self._final = np.zeros(config.envs, bool)
        self._scores = np.zeros(config.envs)
        self._lengths = np.zeros(config.envs, np.int64)
        self._observation: NDArray[Any] = np.zeros((config.envs, *spaces.shape), spaces.dtype)
        self.interactions = 0

    def begin(self) -> None:
        """Reset the environments; episodes in flight are given up."""
        observation, _ = self._env.reset(seed=self._system.config.seed)
        self._see(observation)
        self._first[:], self._final[:] = True, False
        self._scores[:], self._lengths[:] = 0, 0

    def resume(self, outcome: StepOutcome) -> None:
        """Go on from the last step of environments that were brought back to where they were."""
        self._see(outcome.observations)

    def collect(
        self, variables: Any, replay: Replay, updates: int, temperature: float
    ) -> tuple[Replay, list[Finished]]:
        """Play the rows of one round, or what is left of the budget, and store them.

        Args:
            variables: The model's.
            replay: Where to store.
            updates: That the variables have had.
            temperature: Of PUCT's choice.

        Returns:
            The replay, and the episodes that ended.
        """
        config = self._system.config
        left = config.interactions - self.interactions
        count = min(config.rows, -(-left // config.envs))
        rows: list[Row] = []
        finished: list[Finished] = []
        for _ in range(count):
            rows.append(self._play(variables, temperature, finished))
        if isinstance(replay.frames, HostFrames):
            jax.block_until_ready(replay.priority)  # nothing may be reading what is overwritten
            slots = (int(replay.length) + np.arange(count)) % replay.rows
            replay.frames.write(slots, [row.frame for row in rows])
            frames = None
        else:
            frames = tuple(row.frame for row in rows)
        transitions = jax.tree.map(lambda *fields: np.stack(fields), *(r.transitions for r in rows))
        found = tuple(row.found for row in rows)
        return self._append(replay, frames, transitions, found, jnp.int32(updates)), finished

    def _play(self, variables: Any, temperature: float, finished: list[Finished]) -> Row:
        config = self._system.config
        observation, first, final = self._observation, self._first, self._final
        self._stack, found = self._act(
            variables,
            self._stack,
            observation,
            first,
            jax.random.fold_in(self._key, self._time),
            temperature=temperature,
            at_random=self.interactions < config.random_interactions,
        )
        action = np.asarray(found.action)
        outcome = StepOutcome(*self._env.step(action))
        life_lost = outcome.info.get("life_lost", np.zeros_like(final))
        self._scores += outcome.rewards
        self._lengths += ~final
        reward = np.sign(outcome.rewards) if config.clip_rewards else outcome.rewards
        happened: dict[str, Any] = {  # on the host until the round is stored
            "first": first,
            "final": final,
            "action": action,
            "reward": np.array(reward, np.float32),
            "terminated": outcome.terminated | life_lost,
            "truncated": np.array(outcome.truncated),
        }
        self.interactions += int(np.sum(~final))
        ended = outcome.terminated | outcome.truncated
        for i in np.flatnonzero(ended):
            finished.append(Finished(float(self._scores[i]), int(self._lengths[i])))
            self._scores[i], self._lengths[i] = 0.0, 0
        self._first, self._final, self._time = final, ended, self._time + 1
        self._see(outcome.observations)
        return Row(observation, Transitions(**happened), found)

    def _see(self, observation: Any) -> None:
        # A copy: environments may use their arrays again, and devices may read ours later.
        self._observation = np.array(observation, self._system.spaces.dtype)

    def state(self) -> dict[str, Any]:
        """Arrays from which :meth:`restore` goes on exactly."""
        return {
            "stack": self._stack,
            "first": self._first,
            "final": self._final,
            "scores": self._scores,
            "lengths": self._lengths,
            "counts": np.array([self._time, self.interactions]),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a :meth:`state`."""
        self._stack = jnp.asarray(state["stack"])
        self._first, self._final = np.array(state["first"]), np.array(state["final"])
        self._scores, self._lengths = np.array(state["scores"]), np.array(state["lengths"])
        self._time, self.interactions = (int(count) for count in state["counts"])


def _append_rows(
    replay: Replay,
    frames: tuple[Array, ...] | None,
    rows: Transitions,
    found: tuple[SearchResult, ...],
    updates: Array,
    *,
    ahead: int,
    stack: int,
) -> Replay:
    """Store rows that were collected one by one."""
    targets = [targets_of(result, updates) for result in found]
    stacked = Targets(*(jnp.stack(fields) for fields in zip(*targets, strict=True)))
    whole = None if frames is None else jnp.stack(frames)
    return append(replay, whole, rows, stacked, ahead=ahead, stack=stack)
