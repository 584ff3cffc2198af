"""The schedule of pending decisions: which decision runs at which step.

Decisions are identified by their times within an episode: 0, 1, 2, ... The initial queue stands for
decisions made at -M .. -1 that take M steps each. A schedule holds only times. Its user keeps the
actions (or observations) in a ring of :attr:`Schedule.places` places, time t at ``t % places``; a
decision that has left the ring is never needed again.

A schedule belongs to one environment and uses plain integers. For a single environment that is
faster than numpy; for many it is a small part of the environments' own time (``docs/delays.md``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from itertools import chain
from typing import Any, Literal, NoReturn, get_args

from delayzero.delays.law import DelayError, nearest

Rule = Literal["latest-generated", "fixed", "lag-index", "latest-arrival"]
"""Which of the decisions that have arrived runs.

* ``latest-generated``: the newest, as in the paper (SED-MDP). Decisions that it overtakes are
  dropped.
* ``fixed``: a jitter buffer holds each decision until it is exactly M steps old.
* ``lag-index``: step t runs decision t - z_t, with the delay drawn when it runs.
* ``latest-arrival``: the one that arrived last, even if it was decided earlier.
"""
RULES: tuple[str, ...] = get_args(Rule)


class Schedule(ABC):
    """The pending decisions of one environment.

    Attributes:
        places: The number of latest decisions that may still run.
        time: The time t of the coming decision.
        dropped: Decisions of this episode that have been overtaken and will never run.
        repeated: Steps of this episode that ran a decision again.
    """

    __slots__ = ("dropped", "max_delay", "places", "repeated", "time")

    time: int
    dropped: int
    repeated: int

    def __init__(self, max_delay: int) -> None:
        self.max_delay = max_delay
        self.places = max_delay + 1
        self.reset()

    def reset(self) -> None:
        """Clear the schedule for a new episode: only the initial queue is pending."""
        self.time = self.dropped = self.repeated = 0

    @abstractmethod
    def push(self, delay: int) -> int:
        """Decide at t with delay z_t, run one step, and advance to t + 1.

        Returns:
            tau_t, the time of the decision that runs at t; negative for the initial queue.
        """

    @abstractmethod
    def upcoming(self, delay: int) -> array[int]:
        """Return the pending decisions, padded to M entries; only the first ``delay`` count.

        They are the times of the decisions that run at t .. t + delay - 1 if no more decisions
        come. The array may belong to the schedule: do not modify or keep it.
        """

    def pending(self, delay: int) -> list[int]:
        """Return the times of the decisions that run at t .. t + delay - 1, if no more come."""
        return self.upcoming(delay)[:delay].tolist()

    def _refuse(self, delay: int) -> NoReturn:
        raise DelayError(f"the delay {delay} should be between 0 and M = {self.max_delay}")

    def state(self) -> dict[str, Any]:
        """Return the exact state as plain numbers; :meth:`restore` continues from it."""
        values = {}
        for name in chain.from_iterable(getattr(c, "__slots__", ()) for c in type(self).__mro__):
            value = getattr(self, name)
            values[name] = list(value) if isinstance(value, (list, array)) else value
        return values

    def restore(self, state: dict[str, Any]) -> None:
        """Continue exactly from a state of a schedule with the same rule and M."""
        for name, value in state.items():
            if isinstance(value, list):
                value = array("q", value) if isinstance(getattr(self, name), array) else [*value]
            setattr(self, name, value)


class LatestGenerated(Schedule):
    """tau_t = max{t' : t' + z_t' <= t}: a new decision takes every slot from its arrival on.

    The queue holds the decisions of the slots t .. t + M - 1. Deciding at t with delay z writes t
    into the slots z .. M (paper, section 4.1, and equation 1); then slot 0 runs.
    """

    __slots__ = ("_last", "_queue")

    def reset(self) -> None:
        super().reset()
        self._queue = array("q", range(-self.max_delay, 0))
        self._last = -1

    def push(self, delay: int) -> int:
        if not 0 <= delay <= self.max_delay:
            self._refuse(delay)
        time, queue = self.time, self._queue
        queue[delay:] = array("q", (time,)) * (self.max_delay + 1 - delay)
        running = queue.pop(0)
        self.time = time + 1
        if running >= 0:
            passed = running - self._last
            if passed == 0:
                self.repeated += 1
            else:
                self.dropped += passed - 1
            self._last = running
        return running

    def upcoming(self, delay: int) -> array[int]:
        return self._queue


class JitterBuffer(LatestGenerated):
    """Each decision is held until it is exactly M steps old, however early it arrives."""

    __slots__ = ()

    def push(self, delay: int) -> int:
        return super().push(self.max_delay)


class LatestArrival(Schedule):
    """The last decision to arrive runs until another arrives; of two at once, the newer.

    A decision that arrives when it is M steps old may run for up to M more steps, until the next
    one arrives.
    """

    __slots__ = ("_landing", "_last")

    def __init__(self, max_delay: int) -> None:
        super().__init__(max_delay)
        self.places = 2 * max_delay + 1

    def reset(self) -> None:
        super().reset()
        self._landing: list[int | None] = [*range(-self.max_delay, 0), None]
        self._last = -self.max_delay - 1

    def push(self, delay: int) -> int:
        if not 0 <= delay <= self.max_delay:
            self._refuse(delay)
        displaced = self._landing[delay]
        if displaced is not None and displaced >= 0:
            self.dropped += 1
        self._landing[delay] = self.time
        landed = self._landing.pop(0)
        self._landing.append(None)
        if landed is None:
            self.repeated += 1
        else:
            self._last = landed
        self.time += 1
        return self._last

    def upcoming(self, delay: int) -> array[int]:
        running, times = self._last, array("q")
        for landed in self._landing[:-1]:
            running = running if landed is None else landed
            times.append(running)
        return times


class LagIndex(Schedule):
    """Step t runs decision t - z_t. :meth:`upcoming` assumes that the delay stays the same."""

    __slots__ = ("_ran",)

    def reset(self) -> None:
        super().reset()
        self._ran = [False] * (self.max_delay + 1)  # for each of the last M + 1 decisions

    def push(self, delay: int) -> int:
        if not 0 <= delay <= self.max_delay:
            self._refuse(delay)
        time, places = self.time, self.places
        running = time - delay
        self._ran[time % places] = False
        if self._ran[running % places]:
            self.repeated += 1
        self._ran[running % places] = True
        oldest = time - self.max_delay
        if oldest >= 0 and not self._ran[oldest % places]:
            self.dropped += 1
        self.time = time + 1
        return running

    def upcoming(self, delay: int) -> array[int]:
        first = self.time - delay
        return array("q", range(first, first + self.max_delay))


_SCHEDULES: dict[str, type[Schedule]] = {
    "latest-generated": LatestGenerated,
    "fixed": JitterBuffer,
    "lag-index": LagIndex,
    "latest-arrival": LatestArrival,
}


def make_schedule(rule: str, max_delay: int) -> Schedule:
    """Return an empty schedule that follows a rule."""
    if rule not in _SCHEDULES:
        raise DelayError(f"unknown rule '{rule}'{nearest(rule, RULES)}")
    return _SCHEDULES[rule](max_delay)
