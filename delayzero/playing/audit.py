"""An audit of what was played: does every row hold what the definition of the delay says?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from delayzero.replay import Decisions, Step, Transitions


class MisalignedError(AssertionError):
    """A row that contradicts the decisions before it."""


@dataclass
class _Episode:
    """The decisions of an episode so far."""

    first_queue: Sequence[int]
    """What was planned to run before any decision arrives."""
    decided: list[int] = field(default_factory=list)
    arrives: list[int] = field(default_factory=list)
    """When each one can run: its time and its delay."""

    def runs_at(self, time: int, decisions: int) -> tuple[int, int]:
        """The time of the decision that runs at a time, of so many made, and its action."""
        arrived = [i for i in range(decisions) if self.arrives[i] <= time]
        if not arrived:
            return time - len(self.first_queue), self.first_queue[time]
        return arrived[-1], self.decided[arrived[-1]]


class Audit:
    """Follows N environments and recomputes from the decisions and delays alone what runs when.

    The newest decision that has arrived runs: tau_t = max {i : i + z_i <= t}. Until one has, the
    first queue does, as it was planned. It takes time in proportion to the square of an episode's
    length: it is for tests and for looking, not for training.
    """

    def __init__(
        self, num_envs: int, num_actions: int, logs: Literal["executed", "decided"] = "executed"
    ) -> None:
        """Begin, with no episode known.

        Args:
            num_envs: Environments.
            num_actions: How many actions there are; in a queue this number stands for none.
            logs: Which actions the replay is to hold.
        """
        self._nothing, self._logs = num_actions, logs
        self._episodes: list[_Episode | None] = [None] * num_envs

    def forget(self) -> None:
        """Give up the episodes under way: what is not known from its beginning is not checked."""
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

    def check_stored(self, step: Step, happened: Transitions, decisions: Decisions) -> None:
        """Check what the replay holds of a step that was checked, ``[N, ...]``.

        Raises:
            MisalignedError: A column holds something else.
        """
        wanted = {
            "first": (happened.first, step.first),
            "final": (happened.final, step.final),
            "action": (happened.action, getattr(step, self._logs)),
            "decided": (decisions.decided, step.decided),
            "delay": (decisions.delay, step.delay),
            "decision_time": (decisions.decision_time, step.decision_time),
        }
        if not isinstance(decisions.queue, tuple):
            wanted["queue"] = decisions.queue, step.queue
        for name, (found, right) in wanted.items():
            if not np.array_equal(found, right):
                raise MisalignedError(
                    f"the replay's column '{name}' holds {np.asarray(found).tolist()}, not "
                    f"{np.asarray(right).tolist()}"
                )

    def _check_one(self, episode: _Episode, step: Step, i: int) -> None:
        time, delay = len(episode.decided), int(step.delay[i])
        seen = step.queue[i].tolist()
        _expect(i, time, "the delay", delay, min(delay, len(episode.first_queue)))
        pending = [episode.runs_at(time + k, time)[1] for k in range(delay)]
        _expect(i, time, "the queue", seen, pending + [self._nothing] * (len(seen) - delay))
        episode.decided.append(int(step.decided[i]))
        episode.arrives.append(time + delay)
        decision_time, action = episode.runs_at(time, time + 1)
        _expect(i, time, "the decision's time", int(step.decision_time[i]), decision_time)
        _expect(i, time, "the executed action", int(step.executed[i]), action)


def _expect(env: int, time: int, what: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise MisalignedError(
            f"environment {env}, step {time} of its episode: {what} is {found}, not {wanted}"
        )
