"""The schedule of pending decisions: which decision runs at which step.

Times are those of decisions within an episode: 0, 1, 2, ...; the initial queue stands for
decisions made at -M .. -1 that each take M steps. A schedule knows times only. Whoever uses it
keeps the actions (or observations) themselves, in a ring of :attr:`Schedule.places` places, that of
time t being ``t % places``: a decision is not needed again once it is older than that.

One schedule is one environment's, in plain integers: for a single environment that is faster than
numpy, and for many it is a small part of the environments' own time (``docs/delays.md``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from itertools import chain
from typing import Any, Literal, NoReturn, get_args

from delayzero.delays.law import DelayError, nearest

Rule = Literal["latest-generated", "fixed", "lag-index", "latest-arrival"]
"""Which of the decisions that have arrived runs.

* ``latest-generated``: the newest, as in the paper (SED-MDP). What it overtakes is dropped.
* ``fixed``: a jitter buffer holds everything until it is exactly M steps old.
* ``lag-index``: step t runs decision t - z_t, with the delay drawn when it runs.
* ``latest-arrival``: the one that arrived last, even if it was decided earlier.
"""
RULES: tuple[str, ...] = get_args(Rule)


class Schedule(ABC):
    """The pending decisions of one environment.

    Attributes:
        places: How many of the latest decisions may still run.
        time: The time t of the coming decision.
        dropped: Decisions of this episode that have been overtaken and will never run.
        repeated: Steps of this episode that ran a decision that had already run.
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
        """Clear the schedule for a new episode: only the initial queue is under way."""
        self.time = self.dropped = self.repeated = 0

    @abstractmethod
    def push(self, delay: int) -> int:
        """Decide at t with delay z_t, run one step, and go on to t + 1.

        Returns:
            tau_t, the time of the decision that runs at t; negative for the initial queue.
        """

    @abstractmethod
    def upcoming(self, delay: int) -> array[int]:
        """The pending decisions, padded to M: only the first ``delay`` entries have a meaning.

        They are the times of the decisions that run at t .. t + delay - 1 if nothing more is
        decided. The array may be the schedule's own: do not change or keep it.
        """

    def pending(self, delay: int) -> list[int]:
        """The times of the decisions that run at t .. t + delay - 1 if nothing more is decided."""
        return self.upcoming(delay)[:delay].tolist()

    def _refuse(self, delay: int) -> NoReturn:
        raise DelayError(f"the delay {delay} should be between 0 and M = {self.max_delay}")

    def state(self) -> dict[str, Any]:
        """The exact state, as plain numbers; :meth:`restore` continues from it."""
        values = {}
        for name in chain.from_iterable(getattr(c, "__slots__", ()) for c in type(self).__mro__):
            value = getattr(self, name)
            values[name] = list(value) if isinstance(value, (list, array)) else value
        return values

    def restore(self, state: dict[str, Any]) -> None:
        """Continue exactly from a state of a schedule of the same kind and length."""
        for name, value in state.items():
            if isinstance(value, list):
                value = array("q", value) if isinstance(getattr(self, name), array) else [*value]
            setattr(self, name, value)


class LatestGenerated(Schedule):
    """tau_t = max{t' : t' + z_t' <= t}: a new decision takes over every slot from its landing on.

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
    """Everything is held until it is exactly M steps old, however early it arrives."""

    __slots__ = ()

    def push(self, delay: int) -> int:
        return super().push(self.max_delay)


class LatestArrival(Schedule):
    """Whatever landed last runs, until something else lands; of two at once, the newer.

    What lands when it is M steps old may have to run for up to M steps more, until the next lands.
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
    """Step t runs decision t - z_t. The delays to come are taken to stay as the present one is."""

    __slots__ = ("_ran",)

    def reset(self) -> None:
        super().reset()
        self._ran = [False] * (self.max_delay + 1)  # of each of the last M + 1 decisions

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
    """An empty schedule that follows a rule."""
    if rule not in _SCHEDULES:
        raise DelayError(f"'{rule}' is no rule for pending actions{nearest(rule, RULES)}")
    return _SCHEDULES[rule](max_delay)
