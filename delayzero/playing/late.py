"""Late observations: which one an agent has received, for N environments.

An observation is a packet with its own delay, and brings its whole stack of frames along. The
delays are those of :class:`~delayzero.delays.DelayedObservationVector`. That wrapper hides the true
observations and rewards, which the replay keeps: it is the log of a run, and sooner or later every
packet arrives there. So agents are told the age of what they have received instead.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from delayzero.delays import Rule, parse
from delayzero.delays.channel import delay_wrappers
from delayzero.delays.episodes import take_rows
from delayzero.delays.inbox import Inbox
from delayzero.settings.delays import greatest_age

Mask = NDArray[np.bool_]


class LateObservations:
    """The observations of ``N`` environments on their way to the agent.

    Attributes:
        max_delay: D, the greatest age of what the agent acts on.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], law: str, rule: Rule) -> None:
        """Prepare.

        Args:
            env: The environments, under the delay of their actions if there is one.
            law: The text of the delay law.
            rule: Which of the observations that have arrived the agent acts on.
        """
        self._law = parse(law)
        self.max_delay = greatest_age(self._law, rule)
        number = delay_wrappers(env)  # as if a wrapper stood here
        self._inboxes = [
            Inbox(self._law, rule, self._law.max_delay, None, number) for _ in range(env.num_envs)
        ]

    @property
    def ages(self) -> NDArray[np.int32]:
        """Steps since the observation that each agent acts on now, ``[N]``."""
        newest = [inbox.channel.schedule.time - 1 - inbox.shown for inbox in self._inboxes]
        return np.array(newest, np.int32)

    def begin(self, seed: int, observations: Any) -> None:
        """Begin episodes; the first observations arrive at once.

        Args:
            seed: That the environments were reset with.
            observations: Their first observations.
        """
        for i, inbox in enumerate(self._inboxes):
            inbox.channel.reseed(seed + i)
            inbox.begin_episode(self._row(observations, i))

    def step(self, observations: Any, actions: Any, ended: Mask, began: Mask) -> None:
        """Send the observations of a step.

        Args:
            observations: ``[N, ...]``.
            actions: What was decided, ``[N, ...]``.
            ended: Episodes that ended with this step: all that is on its way arrives.
            began: Episodes that began with it.
        """
        for i, inbox in enumerate(self._inboxes):
            row = self._row(observations, i)
            if began[i]:
                inbox.begin_episode(row)
                continue
            inbox.receive(0.0, row, actions[i])
            if ended[i]:
                inbox.flush(0.0)

    def state(self) -> list[dict[str, Any]]:
        """Return plain numbers from which :meth:`restore` continues exactly."""
        return [inbox.state() for inbox in self._inboxes]

    def restore(self, state: list[dict[str, Any]]) -> None:
        """Continue from a :meth:`state`."""
        for inbox, values in zip(self._inboxes, state, strict=True):
            inbox.restore(values)

    def _row(self, observations: Any, row: int) -> Any:
        """Return what a law that depends on observations is shown."""
        return take_rows(observations, row) if self._law.closed_loop else None
