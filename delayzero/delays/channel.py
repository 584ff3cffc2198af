"""One environment's delayed channel: a stream of delays and the schedule that they make."""

from __future__ import annotations

import secrets
from typing import Any

from delayzero.delays.law import DelayError, Law
from delayzero.delays.schedule import make_schedule
from delayzero.delays.stream import DelayStream
from delayzero.delays.text import parse, with_limit


def resolve_law(law: Law | str, max_delay: int | None) -> tuple[Law, int]:
    """A law from an object or its text, and the M that goes with it.

    Raises:
        DelayError: The law can give more than ``max_delay``, or no bound is known.
    """
    law = parse(law, max_delay) if isinstance(law, str) else with_limit(law, max_delay)
    if max_delay is None:
        return law, law.max_delay
    if law.max_delay > max_delay:
        raise DelayError(
            f"'{law}' can give {law.max_delay} steps, more than max_delay={max_delay}; "
            f"give max_delay={law.max_delay} or a shorter law"
        )
    return law, max_delay


class Channel:
    """The delay of one environment, step by step.

    The delay z_t of the coming decision is drawn as soon as step t - 1 has run, the last step of
    an episode included. A new episode does not draw: it goes on with that delay. So the law takes
    exactly one step for each step of the environment, over episodes too, and the observation that
    ends an episode has a delay as every other has.

    Attributes:
        delay: z_t of the coming decision. Not yet known (None) where the law sees the decision.
        last_delay: z_{t-1}, M before the first decision of an episode.
        schedule: Which decision runs when.
    """

    def __init__(self, law: Law, rule: str, max_delay: int, seed: int | None = None) -> None:
        self.schedule = make_schedule(rule, max_delay)
        self.max_delay = max_delay
        self.last_delay = max_delay
        self.delay: int | None = None
        seed = secrets.randbits(63) if seed is None else seed
        self._stream = None if rule == "fixed" else DelayStream(law, seed, max_delay)

    def reseed(self, seed: int) -> None:
        """Begin the law anew from a seed."""
        self.delay = None
        if self._stream is not None:
            self._stream.reseed(seed)

    def begin_episode(self, observation: Any = None) -> None:
        """Clear the schedule; the law goes on, unless it restarts in every episode."""
        self.schedule.reset()
        self.last_delay = self.max_delay
        law = self._stream and self._stream.law
        if law and law.restarts and self.delay is not None:
            self._stream.restart()  # type: ignore[union-attr]
            self.delay = None
        if self.delay is None or (law and law.closed_loop):
            self.draw(observation)

    def decide(self, observation: Any = None, action: Any = None) -> int:
        """Decide at t, run step t, and return tau_t, the time of the decision that runs."""
        delay = self.delay
        if delay is None:
            if self._stream is None or not self._stream.law.sees_decision:
                raise DelayError("an episode has not begun: call reset() first")
            delay = self._stream.next(observation, action)
        self.last_delay = delay
        return self.schedule.push(delay)

    def draw(self, observation: Any = None, action: Any = None) -> None:
        """Draw the delay of the coming decision."""
        if self._stream is None:
            self.delay = self.max_delay
        elif self._stream.law.sees_decision:
            self.delay = None
        else:
            self.delay = self._stream.next(observation, action)

    def pending(self, steps: int) -> list[int]:
        """The times of the decisions that will run at t .. t + steps - 1 if nothing is decided."""
        return self.schedule.pending(steps)

    def state(self) -> dict[str, Any]:
        """The exact state, as plain numbers; :meth:`restore` continues from it."""
        return {
            "delay": self.delay,
            "last_delay": self.last_delay,
            "schedule": self.schedule.state(),
            "stream": None if self._stream is None else self._stream.state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue exactly from a state of a channel of the same law, rule and length."""
        self.delay, self.last_delay = state["delay"], state["last_delay"]
        self.schedule.restore(state["schedule"])
        if self._stream is not None:
            self._stream.restore(state["stream"])
