"""An audit of what was played: does every row hold what the definition of the delay says?"""

from __future__ import annotations

from dataclasses import dataclass, field

from delayzero.agents.player import Step


class MisalignedError(AssertionError):
    """A row that contradicts the decisions before it."""


@dataclass
class _Episode:
    """The decisions of an episode so far."""

    decided: list[int] = field(default_factory=list)
    arrives: list[int] = field(default_factory=list)
    """When each one can run: its time and its delay."""
    first_queue: dict[int, int] = field(default_factory=dict)
    """What is known of the actions that run before any decision arrives, by time."""

    def runs_at(self, time: int, decisions: int, longest: int) -> tuple[int, int | None]:
        """The time of the decision that runs at a time, of so many made, and its action."""
        arrived = [i for i in range(decisions) if self.arrives[i] <= time]
        if not arrived:
            return time - longest, self.first_queue.get(time)
        return arrived[-1], self.decided[arrived[-1]]


class Audit:
    """Follows N environments and recomputes from the decisions and delays alone what runs when.

    The newest decision that has arrived runs: tau_t = max {i : i + z_i <= t}. Until one has, the
    first queue does. It takes time in proportion to the square of an episode's length: it is for
    tests and for looking, not for training.
    """

    def __init__(self, num_envs: int, max_delay: int, num_actions: int) -> None:
        self._longest, self._nothing = max_delay, num_actions
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
                self._episodes[i] = episode = _Episode()
            if episode is not None and not step.final[i]:
                self._check_one(episode, step, i)

    def _check_one(self, episode: _Episode, step: Step, i: int) -> None:
        time, delay = len(episode.decided), int(step.delay[i])
        seen = [int(a) for a in step.queue[i]]
        if time == 0:
            episode.first_queue = dict(enumerate(seen[:delay]))
        pending = [episode.runs_at(time + k, time, self._longest)[1] for k in range(delay)]
        wanted = pending + [self._nothing] * (len(seen) - delay)
        pairs = zip(seen, wanted, strict=True)
        _expect(i, time, "the queue", seen, [s if w is None else w for s, w in pairs])
        episode.decided.append(int(step.decided[i]))
        episode.arrives.append(time + delay)
        decision_time, action = episode.runs_at(time, time + 1, self._longest)
        _expect(i, time, "the decision's time", int(step.decision_time[i]), decision_time)
        if action is not None:
            _expect(i, time, "the executed action", int(step.executed[i]), action)


def _expect(env: int, time: int, what: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise MisalignedError(
            f"environment {env}, step {time} of its episode: {what} is {found}, not {wanted}"
        )
