"""An audit of what was played: does every row hold what the definition of the delay says?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from delayzero.actions import Queue
from delayzero.agents import Logs
from delayzero.delays import Rule
from delayzero.delays.execution import Reveal
from delayzero.replay import Decisions, Step, Transitions


class MisalignedError(AssertionError):
    """A row that contradicts the decisions before it."""


class _Packet(NamedTuple):
    """A decision on its way, or an action of the first queue."""

    decided: int
    """When: negative for the first queue."""
    lands: int
    """When it can run first."""
    action: int


@dataclass
class _Episode:
    """What was decided and executed in an episode so far."""

    first_queue: Sequence[int]
    """What was planned to run before any decision arrives."""
    packets: list[_Packet] = field(default_factory=list)
    executed: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        longest = len(self.first_queue)
        self.packets = [
            _Packet(place - longest, place, action) for place, action in enumerate(self.first_queue)
        ]

    def runs_at(self, time: int, rule: Rule, delay: int) -> _Packet:
        """Return what runs at a time, of the packets that there are.

        Args:
            time: When.
            rule: Which of the packets that have landed runs.
            delay: The delay drawn at that time, which ``lag-index`` alone depends on.
        """
        longest = len(self.first_queue)
        if rule in ("fixed", "lag-index"):
            wanted = time - (longest if rule == "fixed" else delay)
            return next(packet for packet in self.packets if packet.decided == wanted)
        landed = [packet for packet in self.packets if packet.lands <= time]
        if rule == "latest-arrival":
            return max(landed, key=lambda packet: (packet.lands, packet.decided))
        return max(landed, key=lambda packet: packet.decided)

    def decided_at(self, time: int) -> int:
        """Return the action that was decided at a time, or planned for the first queue."""
        return next(packet.action for packet in self.packets if packet.decided == time)


class Audit:
    """Follows N environments and recomputes from the decisions and delays alone what runs when.

    ``latest-generated``: the newest decision that has arrived runs, tau_t = max {i : i + z_i <= t}.
    The other rules are recomputed likewise from their definitions (docs/delays.md). Until a
    decision has arrived the first queue runs, as it was planned. Where the delay is never revealed,
    the audit checks that what ran was decided when the environment says. It takes time in
    proportion to the square of an episode's length: it is for tests and for looking, not for
    training.
    """

    def __init__(
        self,
        num_envs: int,
        logs: Logs = "executed",
        *,
        rule: Rule = "latest-generated",
        reveal: Reveal = "before",
        oldest: int = 0,
    ) -> None:
        """Begin, with no episode known.

        Args:
            num_envs: Environments.
            logs: Which actions the replay is to hold.
            rule: Which of the decisions that have arrived runs.
            reveal: When the agent learns the delay of a decision.
            oldest: The greatest age of an observation that the agent acts on.
        """
        self._logs, self._rule, self._reveal, self._oldest = logs, rule, reveal, oldest
        self._episodes: list[_Episode | None] = [None] * num_envs

    def forget(self) -> None:
        """Give up the episodes in flight: what is not known from its beginning is not checked."""
        self._episodes = [None] * len(self._episodes)

    def check(self, step: Step) -> None:
        """Check one step of all environments.

        Raises:
            MisalignedError: An executed action, its time or a queue is not what it should be.
        """
        for i, episode in enumerate(self._episodes):
            if step.first[i]:
                planned = [] if step.planned is None else step.planned[i].tolist()
                self._episodes[i] = episode = _Episode(planned)
            if episode is not None and not step.final[i]:
                self._check_one(episode, step, i)

    def check_stored(self, step: Step, transitions: Transitions, decisions: Decisions) -> None:
        """Check what the replay holds of a step that was checked, ``[N, ...]``.

        Raises:
            MisalignedError: A column holds something else.
        """
        columns = {
            "first": (transitions.first, step.first),
            "final": (transitions.final, step.final),
            "action": (transitions.action, getattr(step, self._logs)),
            "decided": (decisions.decided, step.decided),
            "delay": (decisions.delay, step.delay),
            "decision_time": (decisions.decision_time, step.decision_time),
        }
        if isinstance(decisions.queue, Queue):
            columns["queue"] = decisions.queue.action, step.queue.action
            columns["queue's mask"] = decisions.queue.mask, step.queue.mask
        for name, (stored, right) in columns.items():
            if not np.array_equal(stored, right):
                raise MisalignedError(
                    f"the replay's column '{name}' holds {np.asarray(stored).tolist()}, not "
                    f"{np.asarray(right).tolist()}"
                )

    def _check_one(self, episode: _Episode, step: Step, i: int) -> None:
        time, delay, rule = len(episode.executed), int(step.delay[i]), self._rule
        queue, age = step.queue.row(i), int(step.age[i])
        longest = len(episode.first_queue)
        right_age = min(max(age, 0), self._oldest, time)
        _expect(i, time, "the age of the observation", age, right_age)
        pending = []
        if self._reveal == "before":
            pending = [episode.runs_at(time + k, rule, delay).action for k in range(delay)]
        _expect(i, time, "the queue", queue, [*episode.executed[time - age :], *pending])
        decision_time, executed = int(step.decision_time[i]), int(step.executed[i])
        decided = int(step.decided[i])
        if delay < 0:  # never revealed
            episode.packets.append(_Packet(time, time, decided))
            _expect(i, time, "the executed action", executed, episode.decided_at(decision_time))
        else:
            _expect(i, time, "the delay", delay, min(delay, longest))
            episode.packets.append(_Packet(time, time + delay, decided))
            right = episode.runs_at(time, rule, delay)
            _expect(i, time, "the decision's time", decision_time, right.decided)
            _expect(i, time, "the executed action", executed, right.action)
        episode.executed.append(executed)


def _expect(env: int, time: int, what: str, value: object, wanted: object) -> None:
    if value != wanted:
        raise MisalignedError(
            f"environment {env}, step {time} of its episode: {what} is {value}, not {wanted}"
        )
