"""Delayed observation: what the agent sees, and its rewards, are late."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from numpy.typing import NDArray

from delayzero.delays.actions import copied
from delayzero.delays.channel import Channel, delay_wrappers, resolve_law
from delayzero.delays.episodes import EpisodeEnds, autoreset_mode, reset_rows, take_rows
from delayzero.delays.execution import recorded_law
from delayzero.delays.law import DelayError, Law
from delayzero.delays.schedule import Rule


class Inbox:
    """The packets of one environment on their way to the agent.

    Packet t holds the observation at t and the reward of the step that led to it. Attributes:

        shown: The time of the observation that the agent sees; 0 until another arrives.
    """

    def __init__(self, law: Law, rule: str, max_delay: int, seed: int | None, number: int) -> None:
        self.channel = Channel(law, rule, max_delay, seed, number)
        self._goes_back = rule == "lag-index"
        self.shown = 0
        self._newest = 0
        self._rewards: deque[tuple[int, Any]] = deque()

    def begin_episode(self, observation: Any) -> None:
        """Clear the inbox and send the first observation; the agent sees it at once."""
        self.channel.clear()
        self.shown = self._newest = 0
        self._rewards.clear()
        self._send(observation, None)

    def receive(self, reward: Any, observation: Any = None, action: Any = None) -> Any:
        """Send the next packet; the sum of the rewards that have now arrived.

        A packet that is overtaken is not shown, but its reward arrives with the one that overtook
        it: no reward is lost.
        """
        self._rewards.append((self.channel.schedule.time, reward))
        self._send(observation, action)
        arrived: list[Any] = []
        while self._rewards and self._rewards[0][0] <= self._newest:
            arrived.append(self._rewards.popleft()[1])
        return self._sum(arrived, reward)

    def settle(self, arrived: Any) -> Any:
        """Let all rewards under way arrive; their sum with what has just arrived."""
        total = self._sum([arrived, *(reward for _, reward in self._rewards)], arrived)
        self._rewards.clear()
        return total

    def flush(self, arrived: Any) -> Any:
        """The end of an episode: everything under way arrives; the sum of all rewards."""
        self.shown = self._newest = self.channel.schedule.time - 1
        return self.settle(arrived)

    def state(self) -> dict[str, Any]:
        """The exact state, as plain numbers; :meth:`restore` continues from it."""
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


class DelayedObservation(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """The agent sees late: observation t reaches it at t + z_t, with the reward that led to it.

    At each step the agent sees the newest observation that has arrived (or what ``rule`` says),
    and gets the rewards of all packets up to it, added up. Before any other arrives it sees the
    first one. At the end of an episode everything under way arrives at once: the final observation
    is the true one and the rewards add up to those of the bare environment. ``terminated`` and
    ``truncated`` are not delayed. ``info`` is the environment's own, not delayed, with
    ``observation_time``, the time of the observation shown, and ``observation_age``.

    Example:
        >>> import gymnasium as gym
        >>> from delayzero.delays import DelayedObservation
        >>> env = DelayedObservation(gym.make("CartPole-v1"), "constant:2")
        >>> _ = env.reset(seed=0)
        >>> [env.step(0)[1] for _ in range(4)]  # rewards
        [0.0, 0.0, 1.0, 1.0]
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        law: Law | str,
        *,
        rule: Rule = "latest-generated",
        max_delay: int | None = None,
        seed: int | None = None,
    ) -> None:
        """Put a delay between the environment and what the agent sees.

        Args:
            env: The environment.
            law: The delay law or its text, such as ``"wifi"``.
            rule: Which of the observations that have arrived is shown.
            max_delay: M, if it should be larger than the law's largest delay, or the law has none.
            seed: The seed of the delays before the first ``reset(seed=...)``.
        """
        self.law, self.max_delay = resolve_law(law, max_delay)
        gym.utils.RecordConstructorArgs.__init__(
            self, law=recorded_law(self.law), rule=rule, max_delay=max_delay, seed=seed
        )
        gym.Wrapper.__init__(self, env)
        self._inbox = Inbox(self.law, rule, self.max_delay, seed, delay_wrappers(env))
        self._places = self._inbox.channel.schedule.places
        self._packets: list[Any] = [None] * self._places  # a ring of the latest observations

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode: the first observation is seen at once."""
        observation, info = self.env.reset(seed=seed, options=options)
        if seed is not None:
            self._inbox.channel.reseed(seed)
        self._inbox.begin_episode(observation)
        self._packets[0] = copied(observation)
        return observation, {**info, **self._age()}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Run a step; see the newest observation that has arrived."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._packets[self._inbox.channel.schedule.time % self._places] = copied(observation)
        reward = self._inbox.receive(reward, observation, action)
        if terminated or truncated:
            reward = self._inbox.flush(reward)
        shown = copied(self._packets[self._inbox.shown % self._places])
        return shown, reward, terminated, truncated, {**info, **self._age()}

    def delay_state(self) -> dict[str, Any]:
        """The wrapper's exact state, packets under way included, without the environment's."""
        return {"inbox": self._inbox.state(), "packets": deepcopy(self._packets)}

    def restore_delay_state(self, state: dict[str, Any]) -> None:
        """Continue exactly from :meth:`delay_state` of a wrapper made with the same arguments."""
        self._inbox.restore(state["inbox"])
        self._packets = deepcopy(state["packets"])

    def _age(self) -> dict[str, int]:
        now = self._inbox.channel.schedule.time - 1
        return {"observation_time": self._inbox.shown, "observation_age": now - self._inbox.shown}


class DelayedObservationVector(
    VectorWrapper[Any, Any, Any, Any, Any], gym.utils.RecordConstructorArgs
):
    """:class:`DelayedObservation` for N environments, each with an independent delay of its own."""

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        law: Law | str,
        *,
        rule: Rule = "latest-generated",
        max_delay: int | None = None,
        seed: int | None = None,
        life_loss_info: bool = False,
    ) -> None:
        """Put delays between the environments and what the agent sees.

        Args:
            env: The vector environment; its autoreset mode may be any.
            law: The delay law or its text.
            rule: Which of the observations that have arrived is shown.
            max_delay: M, if it should be larger than the law's largest delay, or the law has none.
            seed: Before ``reset(seed=...)``, the delays of environment i come from ``seed + i``.
            life_loss_info: Whether the environments report lost lives as ends without resetting,
                as ALE's do with the argument of that name. At a lost life all rewards arrive, so
                that they count for that life; observations under way stay so.
        """
        self.law, self.max_delay = resolve_law(law, max_delay)
        gym.utils.RecordConstructorArgs.__init__(
            self,
            law=recorded_law(self.law),
            rule=rule,
            max_delay=max_delay,
            seed=seed,
            life_loss_info=life_loss_info,
        )
        VectorWrapper.__init__(self, env)
        self._autoreset = autoreset_mode(env)
        self._ends = EpisodeEnds(env, life_loss_info)
        number = delay_wrappers(env)
        self._inboxes = [
            Inbox(
                self.law,
                rule,
                self.max_delay,
                None if seed is None else seed + i,
                number,
            )
            for i in range(env.num_envs)
        ]
        self._rows = np.arange(env.num_envs)
        self._places = self._inboxes[0].channel.schedule.places
        self._packets: Any = None  # rings of the latest observations: [places, N, ...]
        self._ended = np.ones(env.num_envs, bool)

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Begin episodes, in all environments or in those of ``options["reset_mask"]``."""
        channels = [inbox.channel for inbox in self._inboxes]
        observations, info, mask = reset_rows(self.env, seed, options, channels)
        if self._packets is None:
            self._packets = _empty_rings(observations, self._places)
        self._ends.begin(info, mask)
        self._begin_episodes(mask, observations)
        self._store(observations, np.flatnonzero(mask))
        self._ended &= ~mask
        return self._shown(), {**info, **self._ages()}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Run a step; see the newest observations that have arrived."""
        if self._packets is None:
            raise gym.error.ResetNeeded("call reset() before step()")
        observations, rewards, terminated, truncated, info = self.env.step(actions)
        done = self._ends.true_ends(terminated, truncated, info, self._ended)
        lost = np.logical_or(terminated, truncated) & ~done
        final = info.get("final_obs") if self._autoreset == AutoresetMode.SAME_STEP else None
        rewards = np.array(rewards)
        for row in np.flatnonzero(~self._ended).tolist():
            inbox = self._inboxes[row]
            if self.law.closed_loop:
                source = observations if final is None or not done[row] else final
                last = take_rows(source, row)
                rewards[row] = inbox.receive(rewards[row], last, take_rows(actions, row))
            else:
                rewards[row] = inbox.receive(rewards[row])
            if done[row]:
                rewards[row] = inbox.flush(rewards[row])
            elif lost[row]:
                rewards[row] = inbox.settle(rewards[row])
        if self._autoreset == AutoresetMode.SAME_STEP:
            self._begin_episodes(done, observations)
        else:
            self._begin_episodes(self._ended, observations)
            self._ended = done
        self._store(observations, self._rows)
        return self._shown(), rewards, terminated, truncated, {**info, **self._ages()}

    def delay_state(self) -> dict[str, Any]:
        """The wrapper's exact state, packets under way included, without the environments'."""
        return {
            "inboxes": [inbox.state() for inbox in self._inboxes],
            "packets": deepcopy(self._packets),
            "ended": self._ended.copy(),
            "ends": self._ends.state(),
        }

    def restore_delay_state(self, state: dict[str, Any]) -> None:
        """Continue exactly from :meth:`delay_state` of a wrapper made with the same arguments."""
        for inbox, saved in zip(self._inboxes, state["inboxes"], strict=True):
            inbox.restore(saved)
        self._packets = deepcopy(state["packets"])
        self._ended = np.array(state["ended"], bool)
        self._ends.restore(state["ends"])

    def _begin_episodes(self, mask: NDArray[np.bool_], observations: Any) -> None:
        for row in np.flatnonzero(mask).tolist():
            self._inboxes[row].begin_episode(take_rows(observations, row))

    def _store(self, observations: Any, rows: NDArray[np.int64]) -> None:
        """Write the newest observations of some environments into their rings."""
        newest = np.array([inbox.channel.schedule.time - 1 for inbox in self._inboxes])
        _write(self._packets, newest[rows] % self._places, rows, observations)

    def _shown(self) -> Any:
        shown = np.array([inbox.shown for inbox in self._inboxes])
        return take_rows(self._packets, (shown % self._places, self._rows))

    def _ages(self) -> dict[str, Any]:
        shown = np.array([inbox.shown for inbox in self._inboxes])
        now = np.array([inbox.channel.schedule.time - 1 for inbox in self._inboxes])
        ages = {"observation_time": shown, "observation_age": now - shown}
        return {**ages, **{f"_{key}": np.ones(self.num_envs, bool) for key in ages}}


def _empty_rings(observations: Any, places: int) -> Any:
    """Rings ``[places, N, ...]`` for batches such as the given one."""
    if isinstance(observations, dict):
        return {key: _empty_rings(value, places) for key, value in observations.items()}
    if isinstance(observations, tuple):
        return tuple(_empty_rings(value, places) for value in observations)
    if not isinstance(observations, np.ndarray):
        raise DelayError(
            f"observations of type {type(observations).__name__} can't be delayed in a vector; "
            "they should be arrays, or dicts or tuples of arrays"
        )
    return np.zeros((places, *observations.shape), observations.dtype)


def _write(rings: Any, places: NDArray[Any], rows: NDArray[Any], observations: Any) -> None:
    if isinstance(rings, dict):
        for key, ring in rings.items():
            _write(ring, places, rows, observations[key])
    elif isinstance(rings, tuple):
        for ring, part in zip(rings, observations, strict=True):
            _write(ring, places, rows, part)
    else:
        rings[places, rows] = observations[rows]
