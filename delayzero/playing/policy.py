"""A trained agent without its environment: for a control loop of one's own."""

from __future__ import annotations

import functools
import reprlib
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array
from numpy.typing import NDArray

from delayzero.actions import Queue, empty_queue
from delayzero.agents import Carry, act, begin_acting, plan_first_queue
from delayzero.arguments import UsageError
from delayzero.bounds import LARGEST
from delayzero.delays.law import LONGEST
from delayzero.playing.system import System


class PolicyState(NamedTuple):
    """What a policy carries from step to step, of one environment or of a batch."""

    carry: Carry
    """The newest frames, and the agent's own state."""
    first: NDArray[np.bool_]
    """Where no action has been decided yet, ``[N]``."""
    first_queue: NDArray[np.int32]
    """The actions to execute until the first decision arrives, ``[M]`` or ``[N, M]``."""
    steps: int
    """Decisions so far."""
    key: Array
    """Of the episode's randomness."""


class Policy:
    """Decides for environments that it does not know: whoever uses it executes the actions.

    Made by :func:`delayzero.load`. Decisions are those of an evaluation, without noise.

    Attributes:
        config: The settings of the run.
        spaces: The shape of observations, and the number of actions.
        max_delay: M, the longest delay that the run was trained for.
        dtype: What the networks compute in, here.
    """

    def __init__(self, system: System, variables: Any, *, seed: int = 0) -> None:
        """Take over what a run has learned.

        Args:
            system: The parts of the run.
            variables: What was learned.
            seed: Of decisions at random; only the agent ``random`` makes any.

        Raises:
            UsageError: The agent cannot decide without the environment, or the seed is no whole
                number from 0.
        """
        seed = _whole("seed", seed, 0, LARGEST)
        agent, config = system.agent, system.config
        if agent.foresees:
            raise UsageError(
                f"the agent '{config.agent}' looks ahead with its environment here, without which "
                "it has no policy; type: delayzero evaluate RUN"
            )
        if config.stack > 1 and config.max_observation_delay:
            raise UsageError(
                f"this run stacks {config.stack} frames of late observations, and a policy is not "
                "told which frames belong together; type: delayzero evaluate RUN"
            )
        self.config, self.spaces, self.max_delay = config, system.spaces, system.max_delay
        self.dtype = system.dtype
        self._agent, self._variables = agent, variables
        self._key, self._episodes = jax.random.key(seed), 0
        self._act = jax.jit(functools.partial(act, agent, explore=False))
        self._plan = jax.jit(
            functools.partial(plan_first_queue, agent, stack=config.stack, explore=False),
            static_argnames="length",
        )

    def reset(self, observation: Any, *, length: int | None = None) -> PolicyState:
        """Begin an episode: plan what is executed until the first decision arrives.

        Args:
            observation: The first one; a batch has one more dimension.
            length: The number of actions to plan; by default M, the longest delay of the run.

        Returns:
            The state to hand to :meth:`act`; its ``first_queue`` holds the planned actions.

        Raises:
            UsageError: An argument does not fit the run.
        """
        frames, single = self._batch(observation)
        length = self.max_delay if length is None else _whole("length", length, 0, LONGEST)
        self._check_length(length)
        queue: NDArray[np.int32] = np.zeros((len(frames), 0), np.int32)
        key = jax.random.fold_in(self._key, self._episodes)
        self._episodes += 1
        if length:
            first_key = jax.random.fold_in(key, 0)
            planned = self._plan(self._variables, frames, first_key, length=length)
            queue = np.asarray(planned, np.int32)
        carry = begin_acting(self._agent, len(frames), self.spaces, self.config.stack)
        first = np.ones(len(frames), bool)
        return PolicyState(carry, first, queue[0] if single else queue, 0, key)

    def act(
        self,
        observation: Any,
        state: PolicyState,
        *,
        delay: Any = None,
        pending: Any = None,
    ) -> tuple[Any, PolicyState]:
        """Decide.

        Args:
            observation: The newest one, of the form that :meth:`reset` was given.
            state: What :meth:`reset` or the last call returned.
            delay: The number of steps until the decision is executed, or one for each environment
                of a batch; by default the number of pending actions.
            pending: The actions that will be executed before it, in their order; of a batch, a
                sequence for each environment. With late observations, those that were executed
                since the observation come first.

        Returns:
            The action (an int, or an array ``[N]``), and the state for the next call.

        Raises:
            UsageError: An argument does not fit the run.
        """
        frames, single = self._batch(observation)
        if not isinstance(state, PolicyState):
            raise UsageError(
                f"state is of the type {type(state).__name__}; it should be what reset() or the "
                "last act() returned: action, state = policy.act(observation, state)"
            )
        if len(frames) != len(state.first):
            raise UsageError(
                f"{len(frames)} observations for a state of {len(state.first)} environments; "
                "reset() begins with another number"
            )
        queue = self._queue(delay, pending, len(frames), single)
        key = jax.random.fold_in(state.key, state.steps + 1)
        carry, decision = self._act(self._variables, state.carry, frames, state.first, queue, key)
        action = np.asarray(decision.action)
        following = state._replace(
            carry=carry, first=np.zeros_like(state.first), steps=state.steps + 1
        )
        return (int(action[0]) if single else action), following

    def warm_up(self, batch: int | None = None) -> None:
        """Compile beforehand, so that the first decision takes no longer than the others.

        Args:
            batch: The number of environments of a batch; None: one environment, not in a batch.

        Raises:
            UsageError: The number is none from 1.
        """
        count = () if batch is None else (_whole("batch", batch, 1, LARGEST),)
        observation = np.zeros((*count, *self.spaces.shape), self.spaces.dtype)
        state = self.reset(observation)
        for _ in range(2):
            _, state = self.act(observation, state)

    def _batch(self, observation: Any) -> tuple[NDArray[Any], bool]:
        """Return observations ``[N, ...]``, and whether it was one alone."""
        array, shape = _array("the observation", observation), self.spaces.shape
        if array.dtype.kind not in "biuf" or not (
            np.can_cast(array.dtype, self.spaces.dtype, "same_kind")
            or (array.dtype.kind in "iu" and self.spaces.dtype.kind in "iu")
        ):
            raise UsageError(
                f"the observation has the data type {array.dtype}; this run was trained on "
                f"{self.spaces.dtype}"
            )
        array = _cast(array, self.spaces.dtype)
        if array.shape == shape:
            return array[None], True
        if array.shape[1:] == shape and array.ndim == len(shape) + 1 and len(array):
            return array, False
        raise UsageError(
            f"the observation has the shape {list(array.shape)}; this run was trained on "
            f"{list(shape)}, or [N, ...] for a batch"
        )

    def _queue(self, delay: Any, pending: Any, count: int, single: bool) -> Queue:
        """Return the pending actions as the agent takes them."""
        rows = self._rows(pending, count, single)
        lengths = [len(row) for row in rows]
        if delay is not None:
            array = _array("delay", delay)
            delays = [_whole("delay", entry, 0, LARGEST) for entry in array.ravel().tolist()]
            delays *= count if array.ndim == 0 else 1
            if len(delays) != count:
                raise UsageError(f"delay has {len(delays)} entries for {count} environments")
            late = self.config.max_observation_delay
            for given, wanted in zip(lengths, delays, strict=True):
                if not wanted <= given <= wanted + late:
                    raise UsageError(
                        f"delay is {wanted}, and {given} actions are pending; there should be one "
                        "for each step of the delay"
                    )
        self._check_length(max(lengths))
        width = self._agent.queue_width or max(self.config.longest_way, *lengths)
        queue = empty_queue(count, width, self.spaces.actions)
        for i, row in enumerate(rows):
            queue.action[i, : len(row)], queue.mask[i, : len(row)] = row, True
        return queue

    def _rows(self, pending: Any, count: int, single: bool) -> list[list[int]]:
        """Return the pending actions of each environment."""
        if pending is None:
            return [[] for _ in range(count)]
        try:
            queues = [pending] if single else list(pending)
        except TypeError:
            queues = [pending]  # not a sequence: refused in the next lines
        arrays = [_array("pending", queue) for queue in queues]
        if any(array.ndim != 1 for array in arrays):
            raise UsageError(f"pending is {_short(pending)}; it should be {_wanted(single)}")
        rows = [array.tolist() for array in arrays]
        if len(rows) != count:
            raise UsageError(f"pending has {len(rows)} queues for {count} environments")
        for action in (action for row in rows for action in row):
            if not _is_whole(action) or not 0 <= action < self.spaces.actions.count:
                raise UsageError(
                    f"pending holds {_short(action)}; actions are whole numbers from 0 to "
                    f"{self.spaces.actions.count - 1}"
                )
        return rows

    def _check_length(self, length: int) -> None:
        """Check that the agent's networks take a queue of a length."""
        longest = self._agent.longest_queue
        if longest is not None and length > longest:
            raise UsageError(
                f"the agent '{self.config.agent}' was trained for at most {longest} pending "
                f"actions, not {length}"
            )


def _array(what: str, values: Any) -> NDArray[Any]:
    """Return values as an array.

    Raises:
        UsageError: They cannot be one; ragged lists cannot.
    """
    try:
        return np.asarray(values)
    except (ValueError, TypeError) as error:
        raise UsageError(f"{what} is not an array of numbers: {error}") from None


def _cast(observation: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return observations in the data type of the run.

    Raises:
        UsageError: It does not hold their numbers, or they are not finite.
    """
    if dtype.kind in "iu" and observation.size:
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        for value in (int(observation.min()), int(observation.max())):
            if not low <= value <= high:
                raise UsageError(
                    f"the observation holds {value}; this run was trained on {dtype}, from {low} "
                    f"to {high}"
                )
    with np.errstate(over="ignore"):
        cast = observation.astype(dtype)
    if not np.isfinite(cast).all():
        raise UsageError(f"the observation is not finite in {dtype}")
    return cast


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _whole(what: str, value: Any, low: int, high: int) -> int:
    """Return a whole number.

    Raises:
        UsageError: It is none, or out of range.
    """
    if not _is_whole(value) or not low <= value <= high:
        raise UsageError(
            f"{what} is {_short(value)}; it should be a whole number from {low} to {high}"
        )
    return int(value)


def _short(value: Any) -> str:
    """Return a value in one short line."""
    try:
        return " ".join(reprlib.repr(value).split())
    except ValueError:  # an int with thousands of digits
        return "a very long number"


def _wanted(single: bool) -> str:
    queue = "a sequence of actions"
    return queue if single else f"{queue} for each environment"
