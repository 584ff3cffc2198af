"""Playing environments with an agent, one step at a time, with the books of episodes."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.vector import VectorEnv
from jax import Array
from jax.stages import Lowered
from numpy.typing import NDArray

from delayzero.agents.acting import Agent, act, first_stack, plan_first_queue
from delayzero.delays import DelayedExecutionVector
from delayzero.envs.foresight import foresight_of
from delayzero.envs.recording import StepOutcome
from delayzero.replay import Step

Mask = NDArray[np.bool_]
FOR_QUEUES = 2**32 - 1
"""Sets the stream of first queues apart from that of decisions: no step has this number."""


class Ending(NamedTuple):
    """An episode that ended."""

    env: int
    """Which environment played it."""
    score: float
    """The sum of its raw rewards."""
    length: int
    """Its steps."""
    truncated: bool
    """Whether it was cut off."""


class Player:
    """Plays N environments that reset in the step after an end.

    Everything that must be saved to go on exactly is in :meth:`state`, apart from the
    environments themselves.
    """

    def __init__(
        self,
        agent: Agent,
        env: VectorEnv[Any, Any, Any],
        key: Array,
        *,
        stack: int,
        shape: tuple[int, ...],
        dtype: Any,
        explore: bool,
        queue: int | None = None,
        foresees: bool = False,
    ) -> None:
        """Prepare.

        Args:
            agent: Who decides.
            env: The environments, delayed or not.
            key: Of the agent's randomness.
            stack: Frames that it sees.
            shape: Of an observation.
            dtype: Of an observation.
            explore: With noise (self-play), or without (evaluation).
            queue: The length of the queues that the agent is given; the largest delay by default.
            foresees: Whether the environments tell it what the actions under way lead to.
        """
        self._agent, self._env, self._key, self._dtype = agent, env, key, dtype
        self._delayed = env if isinstance(env, DelayedExecutionVector) else None
        self.max_delay = 0 if self._delayed is None else self._delayed.max_delay
        self._width = self.max_delay if queue is None else queue
        self._act = jax.jit(functools.partial(act, agent, explore=explore))
        self._foresight = foresight_of(env) if foresees and self.max_delay else None
        length = self.max_delay if self._foresight is None else 1  # action by action then
        self._plan = jax.jit(
            functools.partial(plan_first_queue, agent, length=length, explore=explore)
        )
        count = env.num_envs
        self._stack = first_stack(count, stack, shape, dtype)
        self._observation: NDArray[Any] = np.zeros((count, *shape), dtype)
        self._queue = np.full((count, self._width), agent.num_actions, np.int32)
        self._delay = np.zeros(count, np.int32)
        self._first, self._final = np.ones(count, bool), np.zeros(count, bool)
        self._scores, self._lengths = np.zeros(count), np.zeros(count, np.int64)
        self._time = 0

    def lowered(self, variables: Any) -> Iterator[Lowered]:
        """What it will call, to be compiled: how it decides, then how it plans first queues.

        Nothing where environments foresee: that is compiled when it is called.

        Args:
            variables: What the agent has learned, or its shapes.
        """
        if self._foresight is not None:
            return
        seen = variables, self._stack, self._observation
        yield self._act.lower(
            *seen,
            self._first,
            self._queue,
            self._key,
            progress=0.0,
            at_random=False,
            foreseen=None,
        )
        if self.max_delay:
            yield self._plan.lower(*seen, self._key, at_random=False)

    def begin(self, seed: int, key: Array | None = None) -> None:
        """Reset the environments; episodes in flight are given up.

        Args:
            seed: Of the environments and their delays.
            key: Of the agent's randomness, from its beginning; it goes on if not given.
        """
        if key is not None:
            self._key, self._time = key, 0
        observation, info = self._env.reset(seed=seed)
        self._see(observation)
        self._know(info)
        count = self._env.num_envs
        self._first, self._final = np.ones(count, bool), np.zeros(count, bool)
        self._scores, self._lengths = np.zeros(count), np.zeros(count, np.int64)

    def resume(self, observation: Any) -> None:
        """Go on with environments that were brought back to where they were."""
        self._see(observation)

    def step(
        self, variables: Any, *, progress: float = 0.0, at_random: bool = False
    ) -> tuple[Step, list[Ending]]:
        """Decide, and run one step.

        Args:
            variables: What the agent has learned.
            progress: The share of its training that is done.
            at_random: Whether to decide uniformly instead.
        """
        key = jax.random.fold_in(self._key, self._time)
        observation, first, final = self._observation, self._first, self._final
        planned = None
        if self.max_delay and first.any():
            planned = self._begin_queues(variables, at_random)
        queue, delay = self._queue, self._delay
        self._stack, found = self._act(
            variables,
            self._stack,
            observation,
            first,
            queue,
            key,
            progress=progress,
            at_random=at_random,
            foreseen=self._foreseen(queue),
        )
        decided = np.asarray(found.action)
        outcome = StepOutcome(*self._env.step(decided))
        info = outcome.info
        step = Step(
            observation=observation,
            first=first,
            final=final,
            queue=queue,
            delay=delay,
            found=found,
            decided=decided,
            executed=np.array(info.get("executed_action", decided), np.int32),
            decision_time=np.array(info.get("decision_time", self._lengths), np.int32),
            reward=np.array(outcome.rewards),
            terminated=np.array(outcome.terminated),
            truncated=np.array(outcome.truncated),
            life_lost=np.array(info.get("life_lost", np.zeros_like(final))),
            planned=planned,
        )
        endings = self._count(step)
        self._know(info)
        self._see(outcome.observations)
        self._time += 1
        return step, endings

    def state(self) -> dict[str, Any]:
        """Arrays from which :meth:`restore` goes on exactly."""
        state = {
            "stack": self._stack,
            "first": self._first,
            "final": self._final,
            "scores": self._scores,
            "lengths": self._lengths,
            "delay": self._delay,
            "time": np.array(self._time),
        }
        return {**state, "queue": self._queue} if self._width else state

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a :meth:`state`."""
        self._stack = jnp.asarray(state["stack"])
        self._first, self._final = np.array(state["first"]), np.array(state["final"])
        self._scores, self._lengths = np.array(state["scores"]), np.array(state["lengths"])
        self._queue = np.array(state.get("queue", self._queue))
        self._delay = np.array(state["delay"])
        self._time = int(state["time"])

    def _begin_queues(self, variables: Any, at_random: bool) -> NDArray[np.int32]:
        """Fill the queues of episodes that begin; what was planned for all, ``[N, M]``."""
        assert self._delayed is not None
        key = jax.random.fold_in(jax.random.fold_in(self._key, FOR_QUEUES), self._time)
        seen = variables, self._stack, self._observation
        if self._foresight is None:
            planned = np.asarray(self._plan(*seen, key, at_random=at_random), np.int32)
        else:
            shape, nothing = (self._env.num_envs, self.max_delay), self._agent.num_actions
            planned = np.full(shape, nothing, np.int32)
            for k in range(self.max_delay):
                foreseen, part = self._foreseen(planned), jax.random.fold_in(key, k)
                chosen = self._plan(*seen, part, at_random=at_random, foreseen=foreseen)
                planned[self._first, k] = np.asarray(chosen)[self._first, 0]
            planned[~self._first] = 0  # any action: those queues stay as they are
        _, info = self._delayed.set_initial_actions(planned, self._first)
        self._know(info)
        return planned

    def _foreseen(self, queue: NDArray[np.int32]) -> tuple[Any, Any] | None:
        """What the actions under way lead to, for an agent that is told."""
        if self._foresight is None:
            return None
        return self._foresight.foresee(queue, self._stack.shape[1])

    def _count(self, step: Step) -> list[Ending]:
        """Keep the books: scores, lengths, ends."""
        self._scores = self._scores + step.reward
        self._lengths = self._lengths + ~step.final
        ended, endings = step.terminated | step.truncated, []
        for i in np.flatnonzero(ended).tolist():
            cut_off = bool(step.truncated[i] and not step.terminated[i])
            endings.append(Ending(i, float(self._scores[i]), int(self._lengths[i]), cut_off))
            self._scores[i], self._lengths[i] = 0.0, 0
        self._first, self._final = step.final, ended
        return endings

    def _know(self, info: dict[str, Any]) -> None:
        """Keep what the delay has revealed for the coming decision."""
        if self._delayed is None:
            return
        pending = np.where(info["pending_mask"], info["pending"], self._agent.num_actions)
        self._queue = np.full((len(pending), self._width), self._agent.num_actions, np.int32)
        shown = min(self._width, pending.shape[1])
        self._queue[:, :shown] = pending[:, :shown]
        self._delay = np.array(info["delay"], np.int32)

    def _see(self, observation: Any) -> None:
        # A copy: environments may use their arrays again, and devices may read ours later.
        self._observation = np.array(observation, self._dtype)
