"""Which decision runs when, which are dropped and which repeated, from the delays alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from delayzero.delays import Rule
from delayzero.watching.moments import Sent


@dataclass(frozen=True)
class Course:
    """The decisions of an episode under a rule of execution (docs/delays.md).

    Attributes:
        rule: Which of the decisions that have arrived runs.
        first_queue: M actions that run until a decision has arrived.
        actions: What was decided at each time.
        delays: How many steps each decision takes.
    """

    rule: Rule
    first_queue: Sequence[int]
    actions: Sequence[int]
    delays: Sequence[int]

    @property
    def longest(self) -> int:
        """M, the longest delay."""
        return len(self.first_queue)

    def sent(self, time: int) -> Sent:
        """The decision of a time, or the action of the first queue for a negative one."""
        return Sent(time, self.first_queue[time] if time < 0 else self.actions[time])

    def lane(self, time: int) -> tuple[Sent, ...]:
        """What runs at ``time`` and after, up to the decision of ``time``, if no other comes."""
        delay = self.delays[time]
        return tuple(self._runs(time + ahead, time, delay) for ahead in range(delay + 1))

    def ran(self) -> list[Sent]:
        """What ran at each time."""
        return [self._runs(time, time, delay) for time, delay in enumerate(self.delays)]

    def dropped(self) -> list[tuple[Sent, ...]]:
        """The decisions that from each time on can no longer run, and never ran."""
        gone: list[tuple[Sent, ...]] = []
        waiting: set[int] = set()
        """Decisions that have not run and still may."""
        for time, running in enumerate(self.ran()):
            waiting.add(time)
            waiting.discard(running.time)
            lost = waiting - self._under_way(time)
            waiting -= lost
            gone.append(tuple(self.sent(one) for one in sorted(lost)))
        return gone

    def repeated(self) -> list[bool]:
        """Whether what runs at each time has run before."""
        times = [sent.time for sent in self.ran()]
        return [time in times[:i] for i, time in enumerate(times)]

    def met(self) -> list[int | None]:
        """When each decision first ran; None for those that never did."""
        first: dict[int, int] = {}
        for time, running in enumerate(self.ran()):
            first.setdefault(running.time, time)
        return [first.get(time) for time in range(len(self.actions))]

    def _runs(self, time: int, newest: int, delay: int) -> Sent:
        """What runs at a time, of what was decided up to ``newest``.

        Args:
            time: When.
            newest: The time of the last decision that there is.
            delay: Drawn at that time; the rule ``lag-index`` alone depends on it.
        """
        if self.rule in ("fixed", "lag-index"):
            return self.sent(time - (self.longest if self.rule == "fixed" else delay))
        oldest = max(-self.longest, time - 2 * self.longest)
        landed = [one for one in range(oldest, newest + 1) if self._lands(one) <= time]
        if self.rule == "latest-arrival":
            return self.sent(max(landed, key=lambda one: (self._lands(one), one)))
        return self.sent(max(landed))

    def _lands(self, time: int) -> int:
        """When the decision of a time arrives."""
        return time + (self.longest if time < 0 else self.delays[time])

    def _under_way(self, time: int) -> set[int]:
        """The decisions up to ``time`` that may run after it."""
        if self.rule == "lag-index":
            return set(range(time + 1 - self.longest, time + 1))
        coming = range(time + 1, time + self.longest + 1)
        return {self._runs(later, time, 0).time for later in coming}
