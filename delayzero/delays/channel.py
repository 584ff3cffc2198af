"""One environment's delayed channel: a stream of delays and the schedule that they make."""

from __future__ import annotations

import secrets
from typing import Any

import gymnasium as gym
from gymnasium.vector import VectorWrapper

from delayzero.delays.independent import Constant
from delayzero.delays.law import DelayError, Law, check_steps
from delayzero.delays.schedule import make_schedule
from delayzero.delays.stream import DelayStream
from delayzero.delays.text import clipped, parse


def resolve_law(law: Law | str, max_delay: int | None) -> tuple[Law, int]:
    """A law from an object or its text, and the M that goes with it.

    Raises:
        DelayError: The law can give more than ``max_delay``, or no bound is known.
    """
    law = parse(law) if isinstance(law, str) else law
    if not isinstance(law, Law):
        raise DelayError(f"a delay law or its text, such as 'walk:15', is needed, not {law!r}")
    if max_delay is None:
        return law, law.max_delay
    check_steps("max_delay", max_delay)
    law = clipped(law, max_delay)
    if law.max_delay > max_delay:
        raise DelayError(
            f"'{law}' can give {law.max_delay} steps, more than max_delay={max_delay}; "
            f"allow {law.max_delay}, or take a shorter law"
        )
    return law, max_delay


def delay_wrappers(env: Any) -> int:
    """How many delay wrappers there are in a stack of wrappers.

    It numbers the next one on top, so that the wrappers of a stack draw different delays from the
    one seed that they all get.
    """
    count = 0
    while isinstance(env, (gym.Wrapper, VectorWrapper)):
        count += hasattr(env, "restore_delay_state")
        env = env.env
    return count


class Channel:
    """The delay of one environment, step by step.

    The delay of the coming decision is drawn as soon as one is made, that of the last step of an
    episode included. A new episode does not draw: it goes on with that delay. So the law takes
    exactly one step for each step of the environment, over episodes too, and the observation that
    ends an episode has a delay as every other has. A closed-loop law draws when it has been shown
    the observation (:meth:`observe`).

    Attributes:
        delay: z_t of the coming decision. Not yet known (None) where the law sees the decision.
        last_delay: z_{t-1}, M before the first decision of an episode.
        schedule: Which decision runs when.
    """

    def __init__(
        self, law: Law, rule: str, max_delay: int, seed: int | None = None, number: int = 0
    ) -> None:
        """Make a channel.

        Args:
            law: The law, in steps.
            rule: Which of the decisions that have arrived runs.
            max_delay: M.
            seed: Of the delays; a random one if not given.
            number: Tells apart channels with the same seed (:func:`delay_wrappers`).
        """
        self._setting = {"law": str(law), "rule": rule, "max_delay": max_delay}
        self.schedule = make_schedule(rule, max_delay)
        self.max_delay = max_delay
        self.last_delay = max_delay
        self.delay: int | None = None
        seed = secrets.randbits(63) if seed is None else seed
        if rule == "fixed":  # the delay that counts is M, whatever the law draws
            law = Constant(max_delay)
        self._stream = DelayStream(law, seed, max_delay, number)
        self._closed_loop = law.closed_loop
        self._after_decision = law.sees_decision

    def reseed(self, seed: int) -> None:
        """Begin the law anew from a seed."""
        self.delay = None
        self._stream.reseed(seed)

    def clear(self) -> None:
        """Clear the schedule for a new episode, and begin a law anew that restarts in each."""
        self.schedule.reset()
        self.last_delay = self.max_delay
        if self._stream.law.restarts and self._stream.used:
            self._stream.restart()
            self.delay = None

    def begin_episode(self, observation: Any = None) -> None:
        """Clear the schedule. The law goes on, unless it restarts in every episode."""
        self.clear()
        self.resume(observation)

    def resume(self, observation: Any = None) -> None:
        """Go on after a reset with what it showed."""
        if self._closed_loop and self.delay is not None:
            self.delay = self._stream.again(observation)
        else:
            self.observe(observation)

    def decide(self, observation: Any = None, action: Any = None) -> int:
        """Decide at t, run step t, and return tau_t, the time of the decision that runs."""
        delay = self.delay
        if delay is None:
            if not self._after_decision:
                raise DelayError("no episode has begun: call begin_episode() first")
            delay = self._stream.next(observation, action)
        self.last_delay = delay
        if not self._closed_loop:
            self.delay = self._stream.next()
        return self.schedule.push(delay)

    def observe(self, observation: Any = None, action: Any = None) -> None:
        """Make sure that the delay of the coming decision is known, from what is seen now."""
        if (self._closed_loop or self.delay is None) and not self._after_decision:
            self.delay = self._stream.next(observation, action)

    def state(self) -> dict[str, Any]:
        """The exact state, as plain numbers; :meth:`restore` continues from it."""
        return {
            **self._setting,
            "delay": self.delay,
            "last_delay": self.last_delay,
            "schedule": self.schedule.state(),
            "stream": self._stream.state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue exactly from a state of a channel of the same law, rule and length."""
        for key, own in self._setting.items():
            if state[key] != own:
                raise DelayError(f"a state with {key} {state[key]!r} can't be restored to {own!r}")
        self.delay, self.last_delay = state["delay"], state["last_delay"]
        self.schedule.restore(state["schedule"])
        self._stream.restore(state["stream"])
