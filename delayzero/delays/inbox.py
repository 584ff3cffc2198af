"""Observations and rewards on their way to the agent."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delayzero.delays.channel import Channel
from delayzero.delays.law import DelayError, Law


class Inbox:
    """The packets of one environment on their way to the agent.

    Packet t holds the observation at t and the reward of the step that led to it.

    Attributes:
        channel: The delay of each packet.
        shown: The time of the observation that the agent sees; 0 until another arrives.
    """

    def __init__(self, law: Law, rule: str, max_delay: int, seed: int | None, number: int) -> None:
        self.channel = Channel(law, rule, max_delay, seed, number)
        self._goes_back = rule == "lag-index"
        self.shown = 0
        self._newest = 0
        self._rewards: deque[tuple[int, Any]] = deque()

    @property
    def now(self) -> int:
        """The time of the newest packet sent."""
        return self.channel.schedule.time - 1

    def begin_episode(self, observation: Any) -> None:
        """Clear the inbox and send the first observation; the agent sees it at once."""
        self.channel.clear()
        self.shown = self._newest = 0
        self._rewards.clear()
        self._send(observation, None)

    def receive(self, reward: Any, observation: Any = None, action: Any = None) -> Any:
        """Send the next packet and return the sum of the rewards that arrive now.

        A packet that is overtaken is not shown, but its reward arrives with the packet that
        overtook it: no reward is lost.
        """
        self._rewards.append((self.channel.schedule.time, reward))
        self._send(observation, action)
        arrived: list[Any] = []
        while self._rewards and self._rewards[0][0] <= self._newest:
            arrived.append(self._rewards.popleft()[1])
        return self._sum(arrived, reward)

    def settle(self, arrived: Any) -> Any:
        """Deliver all outstanding rewards; return their sum with those that arrived before."""
        total = self._sum([arrived, *(reward for _, reward in self._rewards)], arrived)
        self._rewards.clear()
        return total

    def flush(self, arrived: Any) -> Any:
        """Deliver every packet at the end of an episode; return the sum of all rewards."""
        self.shown = self._newest = self.now
        return self.settle(arrived)

    def state(self) -> dict[str, Any]:
        """Return the exact state as plain numbers; :meth:`restore` continues from it."""
        return {
            "channel": self.channel.state(),
            "shown": self.shown,
            "newest": self._newest,
            "rewards": [list(entry) for entry in self._rewards],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue exactly from a state."""
        self.channel.restore(state["channel"])
        self.shown, self._newest = state["shown"], state["newest"]
        self._rewards = deque((time, reward) for time, reward in state["rewards"])

    def _send(self, observation: Any, action: Any) -> None:
        self.channel.observe(observation, action)
        time = self.channel.decide(observation, action)
        if time >= 0 or self._goes_back:  # there is nothing before the first observation
            self.shown = max(time, 0)
        self._newest = max(self._newest, self.shown)

    @staticmethod
    def _sum(rewards: list[Any], like: Any) -> Any:
        return sum(rewards[1:], rewards[0]) if rewards else 0 * like


def empty_rings(observations: Any, places: int) -> Any:
    """Return rings ``[places, N, ...]`` for batches such as the given one."""
    if isinstance(observations, dict):
        return {key: empty_rings(value, places) for key, value in observations.items()}
    if isinstance(observations, tuple):
        return tuple(empty_rings(value, places) for value in observations)
    if not isinstance(observations, np.ndarray):
        raise DelayError(
            f"observations of type {type(observations).__name__} can't be delayed in a vector; "
            "they should be arrays, or dicts or tuples of arrays"
        )
    return np.zeros((places, *observations.shape), observations.dtype)


def write_rings(rings: Any, places: NDArray[Any], rows: NDArray[Any], observations: Any) -> None:
    """Write rows of a batch of observations into rings, each at its place."""
    if isinstance(rings, dict):
        for key, ring in rings.items():
            write_rings(ring, places, rows, observations[key])
    elif isinstance(rings, tuple):
        for ring, part in zip(rings, observations, strict=True):
            write_rings(ring, places, rows, part)
    else:
        rings[places, rows] = observations[rows]
