"""Playing environments with an agent, one step at a time, with the books of episodes."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.stages import Lowered
from numpy.typing import NDArray

from delayzero.actions import Queue, empty_queue, joined, resized
from delayzero.agents import (
    Agent,
    Carry,
    Foreseen,
    act,
    begin_acting,
    plan_first_queue,
    uniform_actions,
)
from delayzero.envs.foresight import foresight_of
from delayzero.envs.recording import StepOutcome
from delayzero.playing.environments import Delayed
from delayzero.replay import Step
from delayzero.settings import FirstQueue
from delayzero.spaces import Spaces

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

    Everything that must be saved to continue exactly is in :meth:`state`, apart from the
    environments and their delays.
    """

    def __init__(
        self,
        agent: Agent,
        delayed: Delayed,
        key: Array,
        *,
        spaces: Spaces,
        stack: int,
        explore: bool,
        first_queue: FirstQueue = "planned",
    ) -> None:
        """Prepare.

        Args:
            agent: Who decides.
            delayed: The environments.
            key: Of the agent's randomness.
            spaces: What the environments show and take.
            stack: Frames that the agent observes.
            explore: With noise (self-play), or without (evaluation).
            first_queue: What runs until the first decision arrives.
        """
        self._agent, self._delayed, self._key, self._spaces = agent, delayed, key, spaces
        self._env, self._late, self._first_queue = delayed.env, delayed.late, first_queue
        self.max_delay, latest = delayed.max_delay, delayed.max_observation_delay
        execution = delayed.execution
        self._revealed = execution is not None and execution.reveal == "before"
        self._width = self.max_delay + latest if agent.queue_width is None else agent.queue_width
        self._act = jax.jit(functools.partial(act, agent, explore=explore, latest=latest))
        foresees = agent.foresees and self.max_delay > 0
        self._foresight = foresight_of(self._env) if foresees else None
        assert not foresees or self._foresight is not None, "make environments that foresee"
        length = self.max_delay if self._foresight is None else 1  # action by action then
        self._plan = jax.jit(
            functools.partial(plan_first_queue, agent, stack=stack, length=length, explore=explore)
        )
        count = self._env.num_envs
        self._stack = stack
        self._carry = begin_acting(agent, count, spaces, stack, latest)
        self._observation: NDArray[Any] = np.zeros((count, *spaces.shape), spaces.dtype)
        self._pending = empty_queue(count, self.max_delay, spaces.actions)
        self._recent = empty_queue(count, latest, spaces.actions).action
        """The actions that ran last, ``[N, D]``, the newest last."""
        self._delay = np.zeros(count, np.int32)
        self._first, self._final = np.ones(count, bool), np.zeros(count, bool)
        self._scores, self._lengths = np.zeros(count), np.zeros(count, np.int64)
        self._time = 0

    def lowered(self, variables: Any) -> Iterator[Lowered]:
        """Trace what it will call, to be compiled: how it decides, then how it plans first queues.

        Nothing where environments foresee: that is compiled when it is called.

        Args:
            variables: What the agent has learned, or its shapes.
        """
        if self._foresight is not None:
            return
        yield self._act.lower(
            variables,
            self._carry,
            self._observation,
            self._first,
            self._queue(),
            self._key,
            progress=0.0,
            at_random=False,
            age=self._age(),
            foreseen=None,
        )
        if self.max_delay and self._first_queue == "planned":
            yield self._plan.lower(variables, self._observation, self._key, at_random=False)

    def begin(self, seed: int, key: Array | None = None) -> None:
        """Reset the environments; episodes in flight are given up.

        Args:
            seed: Of the environments and their delays.
            key: Of the agent's randomness, from its beginning; it continues if not given.
        """
        if key is not None:
            self._key, self._time = key, 0
        observation, info = self._env.reset(seed=seed)
        if self._late is not None:
            self._late.begin(seed, observation)
        self._observe(observation)
        self._learn_pending(info)
        count = self._env.num_envs
        self._first, self._final = np.ones(count, bool), np.zeros(count, bool)
        self._scores, self._lengths = np.zeros(count), np.zeros(count, np.int64)

    def resume(self, observation: Any) -> None:
        """Continue with environments that were brought back to where they were."""
        self._observe(observation)

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
        queue, age, delay = self._queue(), self._age(), self._delay
        self._carry, decision = self._act(
            variables,
            self._carry,
            observation,
            first,
            queue,
            key,
            progress=progress,
            at_random=at_random,
            age=age,
            foreseen=self._foreseen(queue),
        )
        decided = np.asarray(decision.action)
        outcome = StepOutcome(*self._env.step(decided))
        info = outcome.info
        executed = np.array(info.get("executed_action", decided), np.int32)
        if not self._revealed and self.max_delay:  # told afterwards, or never
            delay = np.array(info.get("delay", np.full_like(delay, -1)), np.int32)
        step = Step(
            observation=observation,
            first=first,
            final=final,
            age=np.zeros_like(delay) if age is None else age,
            queue=queue,
            delay=delay,
            search=decision.search,
            decided=decided,
            executed=executed,
            decision_time=np.array(info.get("decision_time", self._lengths), np.int32),
            reward=np.array(outcome.rewards),
            terminated=np.array(outcome.terminated),
            truncated=np.array(outcome.truncated),
            life_lost=np.array(info.get("life_lost", np.zeros_like(final))),
            planned=planned,
        )
        self._recent = np.concatenate([self._recent, executed[:, None]], axis=1)[:, 1:]
        endings = self._count(step)
        if self._late is not None:
            self._late.step(outcome.observations, decided, self._final, self._first)
        self._learn_pending(info)
        self._observe(outcome.observations)
        self._time += 1
        return step, endings

    def state(self) -> dict[str, Any]:
        """Return arrays from which :meth:`restore` continues exactly."""
        state = {
            "frames": self._carry.frames,
            "first": self._first,
            "final": self._final,
            "scores": self._scores,
            "lengths": self._lengths,
            "delay": self._delay,
            "time": np.array(self._time),
            "agent": self._carry.agent,
            "pending": self._pending._asdict() if self.max_delay else (),
            "recent": self._recent if self._recent.size else (),
        }
        return {name: part for name, part in state.items() if jax.tree.leaves(part)}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a :meth:`state`."""
        self._carry = Carry(
            jnp.asarray(state["frames"]),
            jax.tree.map(jnp.asarray, state.get("agent", self._carry.agent)),
        )
        self._first, self._final = np.array(state["first"]), np.array(state["final"])
        self._scores, self._lengths = np.array(state["scores"]), np.array(state["lengths"])
        pending = state.get("pending", self._pending._asdict())
        self._pending = Queue(**{name: np.array(part) for name, part in pending.items()})
        self._recent = np.array(state.get("recent", self._recent))
        self._delay = np.array(state["delay"])
        self._time = int(state["time"])

    def _begin_queues(self, variables: Any, at_random: bool) -> NDArray[np.int32]:
        """Fill the queues of episodes that begin; return what was planned for all, ``[N, M]``."""
        execution = self._delayed.execution
        assert execution is not None
        key = jax.random.fold_in(jax.random.fold_in(self._key, FOR_QUEUES), self._time)
        shape = self._env.num_envs, self.max_delay
        if self._first_queue == "default":
            planned = np.zeros(shape, np.int32)
        elif self._first_queue == "random":
            planned = np.asarray(uniform_actions(self._spaces.actions, key, shape), np.int32)
        elif self._foresight is None:
            found = self._plan(variables, self._observation, key, at_random=at_random)
            planned = np.asarray(found, np.int32)
        else:
            planned = self._plan_with_foresight(variables, key, at_random)
        _, info = execution.set_initial_actions(planned, self._first)
        self._learn_pending(info)
        return planned

    def _plan_with_foresight(
        self, variables: Any, key: Array, at_random: bool
    ) -> NDArray[np.int32]:
        """Plan first queues action by action, each where the environment says that it will run."""
        queue = empty_queue(self._env.num_envs, self.max_delay, self._spaces.actions)
        for k in range(self.max_delay):
            chosen = self._plan(
                variables,
                self._observation,
                jax.random.fold_in(key, k),
                at_random=at_random,
                foreseen=self._foreseen(queue),
            )
            queue.action[self._first, k] = np.asarray(chosen)[self._first, 0]
            queue.mask[self._first, k] = True
        planned: NDArray[np.int32] = queue.action  # zeros elsewhere: those queues stay
        return planned

    def _foreseen(self, queue: Queue) -> Foreseen | None:
        """Return what the pending actions lead to, for an agent that is told."""
        if self._foresight is None:
            return None
        return Foreseen(*self._foresight.foresee(queue, self._stack))

    def _queue(self) -> Queue:
        """Return the actions since the observation that the agent acts on, then the pending."""
        if self._late is None:
            return resized(self._pending, self._width)
        latest = self._late.max_delay
        ran = np.arange(latest) >= latest - self._late.ages[:, None]
        return resized(joined(Queue(self._recent, ran), self._pending), self._width)

    def _age(self) -> NDArray[np.int32] | None:
        return None if self._late is None else self._late.ages

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

    def _learn_pending(self, info: dict[str, Any]) -> None:
        """Keep what has been revealed for the coming decision."""
        if self._revealed:
            self._pending = Queue(
                np.array(info["pending"], np.int32), np.array(info["pending_mask"])
            )
            self._delay = np.array(info["delay"], np.int32)

    def _observe(self, observation: Any) -> None:
        # A copy: environments may use their arrays again, and devices may read ours later.
        self._observation = np.array(observation, self._spaces.dtype)
