"""The delayed channel of one environment: a stream of delays and the schedule they make."""

from __future__ import annotations

import secrets
from typing import Any

import gymnasium as gym
from gymnasium.vector import VectorWrapper

from delayzero.delays.independent import Constant
from delayzero.delays.law import LONGEST, DelayError, Law, check_steps
from delayzero.delays.schedule import make_schedule
from delayzero.delays.stream import DelayStream
from delayzero.delays.text import clipped, parse


def resolve_law(law: Law | str, max_delay: int | None) -> tuple[Law, int]:
    """Return a law, given as an object or as text, and its M.

    Args:
        law: The law or its text.
        max_delay: M, if it should be larger than the law's largest delay, or the law has none.

    Raises:
        DelayError: The law can give more than ``max_delay``, or has no largest delay.
    """
    law = parse(law) if isinstance(law, str) else law
    if not isinstance(law, Law):
        raise DelayError(f"expected a delay law or its text, such as 'walk:15', not {law!r}")
    if max_delay is None:
        return law, law.max_delay
    check_steps("max_delay", max_delay)
    if max_delay > LONGEST:
        raise DelayError(f"max_delay={max_delay}; at most {LONGEST} steps are supported")
    law = clipped(law, max_delay)
    if law.max_delay > max_delay:
        raise DelayError(
            f"'{law}' can give {law.max_delay} steps, more than max_delay={max_delay}; "
            f"allow {law.max_delay}, or choose a shorter law"
        )
    return law, max_delay


def delay_wrappers(env: Any) -> int:
    """Count the delay wrappers in a stack of wrappers.

    The count numbers the next wrapper on top. All wrappers of a stack get the same seed, and their
    numbers make them draw different delays from it.
    """
    count = 0
    while isinstance(env, (gym.Wrapper, VectorWrapper)):
        count += hasattr(env, "restore_delay_state")
        env = env.env
    return count


class Channel:
    """The delay of one environment, step by step.

    Each decision draws the delay of the next one, also at the last step of an episode. A new
    episode draws nothing: its first decision has the delay drawn last. So the law advances exactly
    once per step of the environment, across episodes, and the observation that ends an episode has
    a delay like any other. A closed-loop law draws when it sees the observation (:meth:`observe`).

    Attributes:
        delay: z_t of the coming decision; None if the law needs to see that decision first.
        last_delay: z_{t-1}; M before the first decision of an episode.
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
            seed: The seed of the delays; random by default.
            number: Distinguishes channels with the same seed (:func:`delay_wrappers`).
        """
        self._setting = {"law": str(law), "rule": rule, "max_delay": max_delay}
        self.schedule = make_schedule(rule, max_delay)
        self.max_delay = max_delay
        self.last_delay = max_delay
        self.delay: int | None = None
        seed = secrets.randbits(63) if seed is None else seed
        if rule == "fixed":  # every decision takes M steps, whatever the law draws
            law = Constant(max_delay)
        self._stream = DelayStream(law, seed, max_delay, number)
        self._closed_loop = law.closed_loop
        self._after_decision = law.sees_decision

    def reseed(self, seed: int) -> None:
        """Restart the law from a seed."""
        self.delay = None
        self._stream.reseed(seed)

    def clear(self) -> None:
        """Clear the schedule for a new episode; restart the law if it restarts in every episode."""
        self.schedule.reset()
        self.last_delay = self.max_delay
        if self._stream.law.restarts and self._stream.used:
            self._stream.restart()
            self.delay = None

    def begin_episode(self, observation: Any = None) -> None:
        """Begin an episode. The law continues, unless it restarts in every episode."""
        self.clear()
        self.resume(observation)

    def resume(self, observation: Any = None) -> None:
        """Continue after a reset that returned this observation."""
        if self._closed_loop and self.delay is not None:
            self.delay = self._stream.again(observation)
        else:
            self.observe(observation)

    def decide(self, observation: Any = None, action: Any = None) -> int:
        """Decide at t, run step t, and return tau_t, the time of the decision that runs."""
        delay = self.delay
        if delay is None:
            if not self._after_decision:
                raise DelayError("no episode has begun; call begin_episode() first")
            delay = self._stream.next(observation, action)
        self.last_delay = delay
        if not self._closed_loop:
            self.delay = self._stream.next()
        return self.schedule.push(delay)

    def observe(self, observation: Any = None, action: Any = None) -> None:
        """Draw the delay of the coming decision, if it is not known yet."""
        if (self._closed_loop or self.delay is None) and not self._after_decision:
            self.delay = self._stream.next(observation, action)

    def state(self) -> dict[str, Any]:
        """Return the exact state as plain numbers; :meth:`restore` continues from it."""
        return {
            **self._setting,
            "delay": self.delay,
            "last_delay": self.last_delay,
            "schedule": self.schedule.state(),
            "stream": self._stream.state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue exactly from a state of a channel with the same law, rule and M."""
        for key, own in self._setting.items():
            if state[key] != own:
                raise DelayError(f"a state with {key} {state[key]!r} can't be restored to {own!r}")
        self.delay, self.last_delay = state["delay"], state["last_delay"]
        self.schedule.restore(state["schedule"])
        self._stream.restore(state["stream"])
