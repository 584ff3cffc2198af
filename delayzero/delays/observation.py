"""Delayed observation: observations and rewards reach the agent late."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, Literal, get_args

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from delayzero.delays.actions import admitted, admitted_batch, check_action_space, copied
from delayzero.delays.augment import (
    RecentActions,
    augmented,
    augmented_finals,
    augmented_space,
    check_observe,
    fraction,
    fraction_space,
)
from delayzero.delays.channel import delay_wrappers, resolve_law
from delayzero.delays.episodes import EpisodeEnds, Mask, autoreset_mode, reset_rows, take_rows
from delayzero.delays.execution import recorded_law
from delayzero.delays.inbox import Inbox, empty_rings, write_rings
from delayzero.delays.law import Law
from delayzero.delays.schedule import Rule

ObserveAge = Literal["plain", "age", "actions"]


class DelayedObservation(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Observations arrive late: observation t at t + z_t, with the reward of the step before it.

    At each step the agent sees the newest observation that has arrived (or what ``rule`` says) and
    gets the sum of the rewards of all packets up to it. It sees the first observation at once. At
    the end of an episode everything arrives: the final observation is the true one, and the rewards
    add up to those of the bare environment. ``terminated`` and ``truncated`` are not delayed.
    ``info`` is the environment's, not delayed, with two keys added: ``observation_time``, the time
    of the observation shown, and ``observation_age``, how many steps old it is.

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
        observe: ObserveAge = "plain",
        max_delay: int | None = None,
        seed: int | None = None,
    ) -> None:
        """Put a delay between the environment and what the agent sees.

        Args:
            env: The environment.
            law: The delay law or its text, such as ``"wifi"``.
            rule: Which of the observations that have arrived is shown.
            observe: What the observation holds besides the environment's. ``"age"`` adds ``age``,
                ``[1]``: the age of the observation shown, divided by M. ``"actions"`` also adds
                ``actions``, ``[M, size + 1]``: what the agent needs to look ahead from the
                observation shown. If that one is from time s and the newest is from time t, slot j
                holds the action given to ``step`` at time s + j, for j < t - s; the other slots
                are empty (after a reset and at the end of an episode, all are). Actions are
                encoded as pending actions are by :class:`DelayedExecution`, whose ``observe``
                tells how the keys are arranged. Under ``rule="latest-arrival"`` an observation can
                be up to 2 M steps old; beyond M, the slots hold the last M actions.
            max_delay: M, if it should be larger than the law's largest delay, or the law has none.
            seed: The seed of the delays before the first ``reset(seed=...)``.

        Raises:
            DelayError: The law or an argument is invalid, or the environment's observations
                already have a key that ``observe`` adds.
        """
        self.law, self.max_delay = resolve_law(law, max_delay)
        check_observe(observe, get_args(ObserveAge))
        gym.utils.RecordConstructorArgs.__init__(
            self,
            law=recorded_law(self.law),
            rule=rule,
            observe=observe,
            max_delay=max_delay,
            seed=seed,
        )
        gym.Wrapper.__init__(self, env)
        self.observe = observe
        self._inbox = Inbox(self.law, rule, self.max_delay, seed, delay_wrappers(env))
        self._places = self._inbox.channel.schedule.places
        self._packets: list[Any] = [None] * self._places  # a ring of the latest observations
        self._recent: RecentActions | None = None
        if observe == "actions":
            self._recent = RecentActions(self.action_space, self.max_delay, num_envs=1)
        parts = _age_spaces(observe, self._recent, self._places, self.max_delay)
        self.observation_space = augmented_space(env.observation_space, parts)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; the agent sees the first observation at once."""
        observation, info = self.env.reset(seed=seed, options=options)
        if seed is not None:
            self._inbox.channel.reseed(seed)
        self._inbox.begin_episode(observation)
        if self._recent is not None:
            self._recent.begin_episode(0)
        self._packets[0] = copied(observation)
        return self._observed(observation), {**info, **self._age()}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Run a step and return the newest observation that has arrived."""
        inbox = self._inbox
        if self._recent is not None:
            given = admitted(self.action_space, action)
            if given is None:
                raise gym.error.InvalidAction(
                    f"the action {action!r} is not in {self.action_space}"
                )
            self._recent.record(np.array([inbox.now]), given)
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._packets[inbox.channel.schedule.time % self._places] = copied(observation)
        reward = inbox.receive(reward, observation, action)
        if terminated or truncated:
            reward = inbox.flush(reward)
        shown = self._observed(copied(self._packets[inbox.shown % self._places]))
        return shown, reward, terminated, truncated, {**info, **self._age()}

    def delay_state(self) -> dict[str, Any]:
        """Return the wrapper's exact state, with the packets in flight, without the environment's.

        With a copy of the environment, :meth:`restore_delay_state` continues an episode exactly.
        """
        return {
            "inbox": self._inbox.state(),
            "packets": deepcopy(self._packets),
            "actions": None if self._recent is None else self._recent.state(),
        }

    def restore_delay_state(self, state: dict[str, Any]) -> None:
        """Continue exactly from :meth:`delay_state` of a wrapper made with the same arguments."""
        self._inbox.restore(state["inbox"])
        self._packets = deepcopy(state["packets"])
        if self._recent is not None:
            self._recent.restore(state.get("actions"), np.array([self._inbox.now]))

    def _age(self) -> dict[str, int]:
        shown = self._inbox.shown
        return {"observation_time": shown, "observation_age": self._inbox.now - shown}

    def _observed(self, observation: Any) -> Any:
        """Return an observation as the agent gets it: with its age and the actions, if asked."""
        if self.observe == "plain":
            return observation
        shown, now = self._inbox.shown, self._inbox.now
        parts = {"age": fraction(now - shown, self.max_delay)}
        if self._recent is not None:
            parts["actions"] = self._recent.encode(np.array([shown]), np.array([now]))[0]
        return augmented(observation, parts)


class DelayedObservationVector(
    VectorWrapper[Any, Any, Any, Any, Any], gym.utils.RecordConstructorArgs
):
    """:class:`DelayedObservation` for N environments, each with an independent delay.

    Environment i behaves as a single wrapped environment with the i-th seed does. ``info`` holds
    ``observation_time`` and ``observation_age``, ``[N]``. With ``observe="age"`` or ``"actions"``,
    the final observations of SAME_STEP autoreset (``info["final_obs"]``) have age 0 and empty
    slots: they arrive at once.
    """

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        law: Law | str,
        *,
        rule: Rule = "latest-generated",
        observe: ObserveAge = "plain",
        max_delay: int | None = None,
        seed: int | None = None,
        life_loss_info: bool = False,
    ) -> None:
        """Put delays between the environments and what the agent sees.

        Args:
            env: The vector environment, with any autoreset mode.
            law: The delay law or its text.
            rule: Which of the observations that have arrived is shown.
            observe: As for :class:`DelayedObservation`; the parts are batches, ``age`` ``[N, 1]``
                and ``actions`` ``[N, M, size + 1]``.
            max_delay: M, if it should be larger than the law's largest delay, or the law has none.
            seed: Before ``reset(seed=...)``, the delays of environment i come from ``seed + i``.
            life_loss_info: Whether the environments report a lost life as an end without resetting,
                as ALE's do with the argument of that name. At a lost life all rewards arrive, so
                that they count for that life; observations stay in flight.

        Raises:
            DelayError: As for :class:`DelayedObservation`.
        """
        self.law, self.max_delay = resolve_law(law, max_delay)
        check_observe(observe, get_args(ObserveAge))
        gym.utils.RecordConstructorArgs.__init__(
            self,
            law=recorded_law(self.law),
            rule=rule,
            observe=observe,
            max_delay=max_delay,
            seed=seed,
            life_loss_info=life_loss_info,
        )
        VectorWrapper.__init__(self, env)
        self.observe = observe
        self._autoreset = autoreset_mode(env)
        self._ends = EpisodeEnds(env, life_loss_info)
        number = delay_wrappers(env)
        self._inboxes = [
            Inbox(self.law, rule, self.max_delay, None if seed is None else seed + i, number)
            for i in range(env.num_envs)
        ]
        self._rows = np.arange(env.num_envs)
        self._places = self._inboxes[0].channel.schedule.places
        self._packets: Any = None  # rings of the latest observations: [places, N, ...]
        self._rewards = np.zeros(env.num_envs)  # the latest, not delayed
        self._ended = np.ones(env.num_envs, bool)
        self._recent: RecentActions | None = None
        if observe == "actions":
            check_action_space(env)
            self._recent = RecentActions(env.single_action_space, self.max_delay, env.num_envs)
        if observe != "plain":
            parts = _age_spaces(observe, self._recent, self._places, self.max_delay)
            space = augmented_space(env.single_observation_space, parts)
            self.single_observation_space = space
            self.observation_space = batch_space(space, env.num_envs)

    @property
    def latest(self) -> tuple[Any, NDArray[Any]]:
        """The newest observations and rewards, without delay. For logs: agents must not see them.

        They are what the environments returned at the last ``reset`` or ``step``: the observations
        as a batch, the rewards as ``[N]``, zeros after ``reset``. The observation of an environment
        that the last ``step`` reset (NEXT_STEP and SAME_STEP autoreset) is the first one of its new
        episode.
        """
        if self._packets is None:
            raise gym.error.ResetNeeded("call reset() before reading latest")
        newest = take_rows(self._packets, (self._now() % self._places, self._rows))
        return newest, self._rewards.copy()

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
            self._packets = empty_rings(observations, self._places)
        self._ends.begin(info, mask)
        self._begin_episodes(mask, observations)
        self._store(observations, np.flatnonzero(mask))
        self._rewards = np.zeros(self.num_envs)
        self._ended &= ~mask
        return self._observed(), {**info, **self._ages()}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Run a step and return the newest observations that have arrived."""
        if self._packets is None:
            raise gym.error.ResetNeeded("call reset() before step()")
        if self._recent is not None:
            self._recent.record(self._now(), admitted_batch(self.env, actions))
        observations, rewards, terminated, truncated, info = self.env.step(actions)
        self._rewards = np.array(rewards)
        done = self._ends.true_ends(terminated, truncated, info, self._ended)
        ends = np.logical_or(terminated, truncated)
        same_step = self._autoreset == AutoresetMode.SAME_STEP
        final = info.get("final_obs") if same_step else None
        arrived = self._receive(observations, final, actions, done, ends & ~done)
        if same_step:
            self._begin_episodes(done, observations)
        else:
            self._begin_episodes(self._ended, observations)
            self._ended = done
        self._store(observations, self._rows)
        info = {**info, **self._ages()}
        if final is not None and self.observe != "plain":
            now = self._now()
            info["final_obs"] = augmented_finals(final, self._parts(now, now), ends)
        return self._observed(), arrived, terminated, truncated, info

    def delay_state(self) -> dict[str, Any]:
        """Return the wrapper's exact state, with the packets in flight, without the environments'.

        With a copy of the environments, :meth:`restore_delay_state` continues exactly.
        """
        return {
            "inboxes": [inbox.state() for inbox in self._inboxes],
            "packets": deepcopy(self._packets),
            "rewards": self._rewards.copy(),
            "ended": self._ended.copy(),
            "ends": self._ends.state(),
            "actions": None if self._recent is None else self._recent.state(),
        }

    def restore_delay_state(self, state: dict[str, Any]) -> None:
        """Continue exactly from :meth:`delay_state` of a wrapper made with the same arguments."""
        for inbox, saved in zip(self._inboxes, state["inboxes"], strict=True):
            inbox.restore(saved)
        self._packets = deepcopy(state["packets"])
        self._rewards = np.array(state.get("rewards", np.zeros(self.num_envs)))
        self._ended = np.array(state["ended"], bool)
        self._ends.restore(state["ends"])
        if self._recent is not None:
            self._recent.restore(state.get("actions"), self._now())

    def _receive(
        self, observations: Any, final: Any, actions: Any, done: Mask, lost: Mask
    ) -> NDArray[Any]:
        """Send the packets of a step; return the rewards that arrive, ``[N]``."""
        arrived = self._rewards.copy()
        for row in np.flatnonzero(~self._ended).tolist():
            inbox = self._inboxes[row]
            if self.law.closed_loop:
                source = observations if final is None or not done[row] else final
                newest = take_rows(source, row)
                arrived[row] = inbox.receive(arrived[row], newest, take_rows(actions, row))
            else:
                arrived[row] = inbox.receive(arrived[row])
            if done[row]:
                arrived[row] = inbox.flush(arrived[row])
            elif lost[row]:
                arrived[row] = inbox.settle(arrived[row])
        return arrived

    def _begin_episodes(self, mask: Mask, observations: Any) -> None:
        for row in np.flatnonzero(mask).tolist():
            self._inboxes[row].begin_episode(take_rows(observations, row))
            if self._recent is not None:
                self._recent.begin_episode(row)

    def _store(self, observations: Any, rows: NDArray[np.int64]) -> None:
        """Write the newest observations of some environments into their rings."""
        write_rings(self._packets, self._now()[rows] % self._places, rows, observations)

    def _now(self) -> NDArray[np.int64]:
        return np.array([inbox.now for inbox in self._inboxes])

    def _shown(self) -> NDArray[np.int64]:
        return np.array([inbox.shown for inbox in self._inboxes])

    def _observed(self) -> Any:
        """Return the observations as the agent gets them."""
        shown = self._shown()
        observations = take_rows(self._packets, (shown % self._places, self._rows))
        return augmented(observations, self._parts(shown, self._now()))

    def _parts(self, shown: NDArray[np.int64], now: NDArray[np.int64]) -> dict[str, Any]:
        """Return what ``observe`` adds to the observations of the times ``shown``, as batches."""
        if self.observe == "plain":
            return {}
        parts = {"age": fraction(now - shown, self.max_delay)}
        if self._recent is not None:
            parts["actions"] = self._recent.encode(shown, now)
        return parts

    def _ages(self) -> dict[str, Any]:
        shown = self._shown()
        ages = {"observation_time": shown, "observation_age": self._now() - shown}
        return {**ages, **{f"_{key}": np.ones(self.num_envs, bool) for key in ages}}


def _age_spaces(
    observe: str, recent: RecentActions | None, places: int, max_delay: int
) -> dict[str, spaces.Space[Any]]:
    """Return the spaces of what ``observe`` adds to an observation, by key."""
    parts: dict[str, spaces.Space[Any]] = {}
    if observe != "plain":
        parts["age"] = fraction_space(max(1.0, (places - 1) / max(max_delay, 1)))
    if recent is not None:
        parts["actions"] = recent.space
    return parts
