"""Delayed execution of actions, for one Gymnasium environment."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, Literal, get_args

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from delayzero.delays.actions import (
    PendingEncoder,
    admitted,
    copied,
    default_action,
    initial_queue,
)
from delayzero.delays.augment import (
    augmented,
    augmented_space,
    check_observe,
    fraction,
    fraction_space,
)
from delayzero.delays.channel import Channel, delay_wrappers, resolve_law
from delayzero.delays.law import DelayError, Law, nearest
from delayzero.delays.schedule import Rule
from delayzero.delays.text import parse

Reveal = Literal["before", "after", "never"]
Observe = Literal["plain", "delay", "pending"]
INNER = "inner"
DELAY_KEYS = frozenset(
    ("delay", "pending", "pending_mask", "executed_action", "decision_time", "dropped", "repeated")
) | {INNER}
"""The keys of ``info`` that the wrappers write."""


class DelayedExecution(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Actions take effect late: the action decided now runs some steps later.

    At each step t the delay z_t is drawn, the agent decides on an action, and the environment runs
    the newest decision that has arrived (``rule="latest-generated"``). Until the first decision
    arrives, it runs the initial queue. ``reset`` and ``step`` add two keys to ``info``:

    * ``delay``: z_t, the delay of the coming decision. With ``reveal="after"``, the delay of the
      last decision, and M at reset.
    * ``pending``: a tuple of the actions that will run at t .. t + delay - 1, known before the
      decision. With ``reveal="after"``, the actions of the next M steps if no more decisions came.

    ``step`` also adds

    * ``executed_action``: the action that ran;
    * ``decision_time``: when it was decided; negative if it comes from the initial queue;
    * ``dropped``, ``repeated``: the number of decisions of the episode that never ran, and of
      steps that ran a decision again.

    Each key is about this wrapper's own part of the way: ``executed_action`` is the action that it
    passed inwards. If the environment has such keys too, because there is another delay inside,
    they are in ``info["inner"]``: there, ``executed_action`` is what the inner wrapper passed on,
    and its ``decision_time`` is when that entered the inner wrapper.

    ``reset(seed=...)`` also restarts the delays from that seed, with a random stream of their own.
    ``reset()`` does not: the delay continues across episodes. Both clear the queue, unless
    ``options={"keep_pending": True}`` is passed (for environments that end an episode at each lost
    life without resetting the game).

    Example:
        >>> import gymnasium as gym
        >>> from delayzero.delays import DelayedExecution
        >>> env = DelayedExecution(gym.make("CartPole-v1"), "constant:2", initial_actions=[0, 1])
        >>> _, info = env.reset(seed=0)
        >>> info["delay"], info["pending"]
        (2, (np.int64(0), np.int64(1)))
        >>> *_, info = env.step(1)
        >>> info["executed_action"], info["decision_time"], info["pending"]
        (np.int64(0), -2, (np.int64(1), np.int64(1)))
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        law: Law | str,
        *,
        rule: Rule = "latest-generated",
        initial_actions: Any | Callable[[Any], Any] = None,
        reveal: Reveal = "before",
        observe: Observe = "plain",
        max_delay: int | None = None,
        seed: int | None = None,
    ) -> None:
        """Put a delay between the agent's decisions and the environment.

        Args:
            env: The environment.
            law: The delay law or its text, such as ``"walk:15"``.
            rule: Which of the decisions that have arrived runs.
            initial_actions: What runs until the first decision arrives: an action, a sequence of
                M actions, a function of the first observation that returns M actions, or None for
                the space's first action (zero for Box). See also :meth:`set_initial_actions`.
            reveal: When the agent learns the delay of a decision: ``"before"`` it, ``"after"`` it,
                or ``"never"``.
            observe: What the observation holds besides the environment's. ``"delay"`` adds
                ``delay``, ``[1]``: the delay in ``info``, divided by M. ``"pending"`` also adds
                ``pending``, ``[M, size + 1]``: slot j holds the j-th pending action (one-hot, or
                plain numbers for Box) and a last number that is 1 if the slot is empty. The
                observation becomes one flat Dict: a Dict keeps its own keys, any other observation
                is under ``observation``.
            max_delay: M, if it should be larger than the law's largest delay, or the law has none.
            seed: The seed of the delays before the first ``reset(seed=...)``.

        Raises:
            DelayError: The law or an argument is invalid, or the environment's observations
                already have a key that ``observe`` adds.
        """
        self.law, self.max_delay = resolve_law(law, max_delay)
        check_choices(self.law, rule, reveal, observe)
        gym.utils.RecordConstructorArgs.__init__(
            self,
            law=recorded_law(self.law),
            rule=rule,
            initial_actions=recorded_actions(initial_actions),
            reveal=reveal,
            observe=observe,
            max_delay=max_delay,
            seed=seed,
            _disable_deepcopy=True,  # an agent's method may plan the initial queue
        )
        gym.Wrapper.__init__(self, env)
        self.rule, self.reveal, self.observe = rule, reveal, observe
        self._channel = Channel(self.law, rule, self.max_delay, seed, number=delay_wrappers(env))
        self._places = self._channel.schedule.places
        self._actions: list[Any] = [None] * self._places  # a ring of the latest decisions
        self._space = self.action_space
        self._shape = self._space.shape or ()
        self._scalar = isinstance(self._space, spaces.Discrete)  # immutable actions
        self._initial = initial_actions
        if initial_actions is None:
            # Without delay, even a space without a default action will do.
            self._initial = self._queue(default_action(self._space)) if self.max_delay else []
        elif not callable(initial_actions):
            self._initial = self._queue(initial_actions)
        self._encoder = None
        if observe == "pending":
            self._encoder = PendingEncoder(self._space, self.max_delay)
        self.observation_space = augmented_space(
            env.observation_space, delay_spaces(observe, self._encoder)
        )
        self._closed_loop = self.law.closed_loop
        self._observation: Any = None  # the environment's latest observation
        self._running = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode with the initial queue; the delay continues."""
        observation, info = self.env.reset(seed=seed, options=options)
        if seed is not None:
            self._channel.reseed(seed)
        self._observation = copied(observation) if self._closed_loop else observation
        if self._running and options and options.get("keep_pending"):
            self._channel.resume(observation)
        else:
            self._channel.begin_episode(observation)
            initial = self._initial
            self._fill(self._queue(initial(observation)) if callable(initial) else initial)
        self._running = True
        return self._observed(observation), {**inner_apart(info), **self._delay_info()}

    def set_initial_actions(self, actions: Any) -> tuple[Any, dict[str, Any]]:
        """Set the initial queue of this episode, after ``reset`` and before the first ``step``.

        Args:
            actions: One action, or a sequence of M actions.

        Returns:
            The observation and the delay's keys of ``info``, as ``reset`` would return them now.

        Raises:
            DelayError: No episode has begun, the episode has already run a step, or the actions
                are not M actions of the space.
        """
        if not self._running:
            raise DelayError("no episode has begun; call reset() first")
        if self._channel.schedule.time:
            raise DelayError(
                f"the initial queue can't be set at step {self._channel.schedule.time}: "
                "set it after reset() and before the first step()"
            )
        self._fill(self._queue(actions))
        return self._observed(copied(self._observation)), self._delay_info()

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Decide on an action; the environment runs the newest decision that has arrived."""
        decided = admitted(self._space, action)
        if decided is None:
            raise gym.error.InvalidAction(f"the action {action!r} is not in {self._space}")
        channel = self._channel
        if not self._running:
            raise gym.error.ResetNeeded("call reset() before step()")
        self._actions[channel.schedule.time % self._places] = decided
        decision_time = channel.decide(self._observation, action)
        executed = self._actions[decision_time % self._places]
        # A copy: the environment may modify it, and the action may run again.
        observation, reward, terminated, truncated, info = self.env.step(copied(executed))
        self._observation = copied(observation) if self._closed_loop else observation
        channel.observe(observation, action)
        info = {
            **inner_apart(info),
            **self._delay_info(),
            "executed_action": copied(executed),
            "decision_time": decision_time,
            "dropped": channel.schedule.dropped,
            "repeated": channel.schedule.repeated,
        }
        return self._observed(observation), reward, terminated, truncated, info

    def delay_state(self) -> dict[str, Any]:
        """Return the wrapper's exact state, with the pending actions, without the environment's.

        With a copy of the environment, :meth:`restore_delay_state` continues an episode exactly.
        """
        return {
            "channel": self._channel.state(),
            "actions": deepcopy(self._actions),
            "observation": deepcopy(self._observation),
            "running": self._running,
        }

    def restore_delay_state(self, state: dict[str, Any]) -> None:
        """Continue exactly from :meth:`delay_state` of a wrapper made with the same arguments."""
        self._channel.restore(state["channel"])
        self._actions = deepcopy(state["actions"])
        self._observation = deepcopy(state["observation"])
        self._running = state["running"]

    def _queue(self, actions: Any) -> list[Any]:
        return initial_queue(actions, self._space, self.max_delay)

    def _fill(self, queue: list[Any]) -> None:
        """Write an initial queue into the ring: the decisions of the times -M .. -1."""
        for time, action in enumerate(queue, start=-self.max_delay):
            self._actions[time % self._places] = action

    def _delay(self) -> int | None:
        """Return the latest delay that the agent knows."""
        return self._channel.delay if self.reveal == "before" else self._channel.last_delay

    def _pending(self) -> list[Any]:
        length = self._channel.delay if self.reveal == "before" else self.max_delay
        assert length is not None
        places = self._places
        return [self._actions[time % places] for time in self._channel.schedule.pending(length)]

    def _delay_info(self) -> dict[str, Any]:
        """Return the keys of ``info`` that the agent knows before its next decision."""
        if self.reveal == "never":
            return {}
        pending = self._pending()
        return {
            "delay": self._delay(),
            "pending": tuple(pending if self._scalar else map(copied, pending)),
        }

    def _observed(self, observation: Any) -> Any:
        """Return an observation as the agent gets it: with the delay and the queue, if asked."""
        if self.observe == "plain":
            return observation
        parts = {"delay": fraction(self._delay(), self.max_delay)}
        if self._encoder is not None:
            queue = self._pending()
            pending: NDArray[Any] = np.zeros((self.max_delay, *self._shape), self._space.dtype)
            if queue:
                pending[: len(queue)] = queue
            filled = np.arange(self.max_delay) < len(queue)
            parts["pending"] = self._encoder.encode(pending, filled)
        return augmented(observation, parts)


def inner_apart(info: dict[str, Any]) -> dict[str, Any]:
    """Return ``info`` with the keys of a delay inside this one, and their masks, in ``inner``."""
    if DELAY_KEYS.isdisjoint(info):
        return info
    inner = {key: value for key, value in info.items() if key.removeprefix("_") in DELAY_KEYS}
    return {**{key: value for key, value in info.items() if key not in inner}, INNER: inner}


def check_choices(law: Law, rule: str, reveal: str, observe: str) -> None:
    """Check the wrapper's arguments that are words, each and together."""
    if reveal not in get_args(Reveal):
        raise DelayError(f"unknown reveal='{reveal}'{nearest(str(reveal), get_args(Reveal))}")
    check_observe(observe, get_args(Observe))
    if reveal == "never" and observe != "plain":
        raise DelayError(
            f"observe='{observe}' shows the delay but reveal='never' hides it; "
            "use observe='plain', or reveal='before' or 'after'"
        )
    if reveal == "before" and rule != "fixed" and law.sees_decision:
        raise DelayError(
            f"the delay of '{law}' depends on the decision and can't be revealed before it; "
            "use reveal='after' or 'never'"
        )


def recorded_law(law: Law) -> Law | str:
    """Return a law for the environment's spec: its text, if that describes it completely."""
    try:
        return str(law) if parse(str(law)) == law else law
    except DelayError:
        return law


def recorded_actions(actions: Any) -> Any:
    """Return initial actions for the environment's spec: arrays as lists."""
    return actions.tolist() if isinstance(actions, np.ndarray) else actions


def delay_spaces(observe: str, encoder: PendingEncoder | None) -> dict[str, spaces.Space[Any]]:
    """Return the spaces of what ``observe`` adds to an observation, by key."""
    parts: dict[str, spaces.Space[Any]] = {}
    if observe != "plain":
        parts["delay"] = fraction_space()
    if encoder is not None:
        parts["pending"] = encoder.space
    return parts
