"""Delayed execution of actions, for Gymnasium's vector environments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from delayzero.delays.actions import (
    PendingEncoder,
    admitted,
    admitted_batch,
    check_action_space,
    default_action,
)
from delayzero.delays.augment import augmented, augmented_finals, augmented_space, fraction
from delayzero.delays.channel import Channel, delay_wrappers, resolve_law
from delayzero.delays.episodes import (
    EpisodeEnds,
    Mask,
    autoreset_mode,
    checked_mask,
    reset_rows,
    take_rows,
)
from delayzero.delays.execution import (
    Observe,
    Reveal,
    check_choices,
    delay_spaces,
    inner_apart,
    recorded_actions,
    recorded_law,
)
from delayzero.delays.law import DelayError, Law
from delayzero.delays.schedule import Rule


class DelayedExecutionVector(
    VectorWrapper[Any, Any, Any, Any, Any], gym.utils.RecordConstructorArgs
):
    """:class:`DelayedExecution` for N environments, each with an independent delay.

    Environment i behaves as a single wrapped environment with the i-th seed does. ``info`` holds
    arrays: ``delay`` ``[N]``, ``pending`` ``[N, M, ...]`` padded with zeros, and ``pending_mask``
    ``[N, M]``. After a step it also holds ``executed_action`` ``[N, ...]``, and ``decision_time``,
    ``dropped`` and ``repeated`` ``[N]``. As usual in Gymnasium, ``_executed_action`` and so on are
    False for an environment that this call reset, and that ran nothing (NEXT_STEP autoreset).

    At the end of an episode, the delay and the queue that belong to the final observation are in
    ``info`` (NEXT_STEP, DISABLED) or in ``info["final_info"]`` (SAME_STEP). With
    ``observe="delay"`` or ``"pending"`` they are also part of the final observation.

    If there is a delay inside this one, its keys are in ``info["inner"]``, as for
    :class:`DelayedExecution`, and in ``info["final_info"]["inner"]``.
    """

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        law: Law | str,
        *,
        rule: Rule = "latest-generated",
        initial_actions: Any | Callable[[Any], Any] = None,
        reveal: Reveal = "before",
        observe: Observe = "plain",
        max_delay: int | None = None,
        seed: int | None = None,
        life_loss_info: bool = False,
    ) -> None:
        """Put delays between the agent's decisions and the environments.

        Args:
            env: The vector environment, with any autoreset mode.
            law: The delay law or its text.
            rule: Which of the decisions that have arrived runs.
            initial_actions: As for :class:`DelayedExecution`, or an array ``[N, M, ...]``. A
                function takes the observations of the R environments that begin an episode, and
                returns ``[R, M, ...]``.
            reveal: As for :class:`DelayedExecution`.
            observe: As for :class:`DelayedExecution`; the parts are batches, ``delay`` ``[N, 1]``
                and ``pending`` ``[N, M, size + 1]``.
            max_delay: M, if it should be larger than the law's largest delay, or the law has none.
            seed: Before ``reset(seed=...)``, the delays of environment i come from ``seed + i``.
            life_loss_info: Whether the environments report a lost life as an end without resetting,
                as ALE's do with the argument of that name. The queue survives a lost life.

        Raises:
            DelayError: As for :class:`DelayedExecution`.
        """
        self.law, self.max_delay = resolve_law(law, max_delay)
        check_choices(self.law, rule, reveal, observe)
        gym.utils.RecordConstructorArgs.__init__(
            self,
            law=recorded_law(self.law),
            rule=rule,
            initial_actions=recorded_actions(initial_actions),
            reveal=reveal,
            observe=observe,
            max_delay=max_delay,
            seed=seed,
            life_loss_info=life_loss_info,
            _disable_deepcopy=True,  # an agent's method may plan the initial queue
        )
        VectorWrapper.__init__(self, env)
        self.rule, self.reveal, self.observe = rule, reveal, observe
        self._autoreset = autoreset_mode(env)
        self._ends = EpisodeEnds(env, life_loss_info)
        check_action_space(env)
        space = env.single_action_space
        self._closed_loop = self.law.closed_loop
        number = delay_wrappers(env)
        self._channels = [
            Channel(self.law, rule, self.max_delay, None if seed is None else seed + i, number)
            for i in range(env.num_envs)
        ]
        self._rows = np.arange(env.num_envs)
        self._slots = np.arange(self.max_delay)
        self._places = self._channels[0].schedule.places
        shape = (env.num_envs, self._places, *(space.shape or ()))
        self._actions: NDArray[Any] = np.zeros(shape, space.dtype)  # rings of the latest decisions
        self._initial = default_action(space) if initial_actions is None else initial_actions
        if not callable(self._initial):
            self._initial = self._queues(self._initial, env.num_envs)
        self._encoder = PendingEncoder(space, self.max_delay) if observe == "pending" else None
        self.single_observation_space = augmented_space(
            env.single_observation_space, delay_spaces(observe, self._encoder)
        )
        self.observation_space = (
            env.observation_space
            if observe == "plain"
            else batch_space(self.single_observation_space, env.num_envs)
        )
        self._observations: Any = None  # the environments' latest observations
        self._ended = np.ones(env.num_envs, bool)

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Begin episodes, in all environments or in those of ``options["reset_mask"]``."""
        self._observations, info, mask = reset_rows(self.env, seed, options, self._channels)
        self._ends.begin(info, mask)
        self._begin_episodes(mask)
        self._ended &= ~mask
        delay_info = self._delay_info()
        return self._observed(delay_info), {**inner_apart(info), **delay_info}

    def set_initial_actions(
        self, actions: Any, mask: Mask | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Set initial queues of episodes that have begun but not run a step.

        Args:
            actions: One action, M actions, or ``[N, M, ...]``; rows outside the mask are ignored.
            mask: Which environments, ``[N]``; all by default.

        Returns:
            The observations and the delay's keys of ``info``, as ``reset`` would return them now.

        Raises:
            DelayError: An environment is not in an episode or has already run a step, or the
                actions are not M actions of the space.
        """
        rows = self._rows if mask is None else np.flatnonzero(checked_mask(mask, self.num_envs))
        for row in rows:
            time = self._channels[row].schedule.time
            if self._observations is None or self._ended[row]:
                raise DelayError(f"environment {row} is not in an episode; call reset() first")
            if time:
                raise DelayError(
                    f"the initial queue of environment {row} can't be set at step {time}: "
                    "set it after its reset and before its first step"
                )
        self._fill(rows, self._queues(actions, self.num_envs)[rows])
        delay_info = self._delay_info()
        return self._observed(delay_info), delay_info

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Decide on actions; each environment runs the newest decision that has arrived."""
        actions = self._checked(actions)
        ran = ~self._ended
        decision_times = self._decide(actions, ran)
        executed = self._actions[self._rows, decision_times % self._places]
        executed[self._ended] = actions[self._ended]  # ignored: this call resets these
        observations, rewards, terminated, truncated, info = self.env.step(executed.copy())
        self._observations = observations
        done = self._ends.true_ends(terminated, truncated, info, self._ended)
        same_step = self._autoreset == AutoresetMode.SAME_STEP
        if self._closed_loop:
            self._show(actions, ran, info.get("final_obs") if same_step else None, done)
        info = {**inner_apart(info), **self._outcome(executed, decision_times, ran)}
        if same_step and "final_obs" in info:
            self._finish(info, np.logical_or(terminated, truncated))
        begun = done if same_step else self._ended
        if begun.any():
            self._begin_episodes(begun)
        self._ended = np.zeros_like(done) if same_step else done
        delay_info = self._delay_info()
        info.update(delay_info)
        return self._observed(delay_info), rewards, terminated, truncated, info

    def delay_state(self) -> dict[str, Any]:
        """Return the wrapper's exact state, with the pending actions, without the environments'.

        With a copy of the environments, :meth:`restore_delay_state` continues exactly.
        """
        return {
            "channels": [channel.state() for channel in self._channels],
            "actions": self._actions.copy(),
            "observations": deepcopy(self._observations),
            "ended": self._ended.copy(),
            "ends": self._ends.state(),
        }

    def restore_delay_state(self, state: dict[str, Any]) -> None:
        """Continue exactly from :meth:`delay_state` of a wrapper made with the same arguments."""
        for channel, saved in zip(self._channels, state["channels"], strict=True):
            channel.restore(saved)
        self._actions = np.array(state["actions"], self._actions.dtype)
        self._observations = deepcopy(state["observations"])
        self._ended = np.array(state["ended"], bool)
        self._ends.restore(state["ends"])

    def _checked(self, actions: Any) -> NDArray[Any]:
        if self._observations is None:
            raise gym.error.ResetNeeded("call reset() before step()")
        if self._ended.any() and self._autoreset == AutoresetMode.DISABLED:
            raise gym.error.ResetNeeded(
                f"environments {np.flatnonzero(self._ended).tolist()} have ended; call "
                "reset(options={'reset_mask': mask}) with a mask that is True for them"
            )
        return admitted_batch(self.env, actions)

    def _decide(self, actions: NDArray[Any], ran: Mask) -> NDArray[np.int64]:
        """Pass decisions to the channels; return the times of the decisions that run, ``[N]``."""
        channels = self._channels
        times = np.fromiter((c.schedule.time for c in channels), np.int64, len(channels))
        self._actions[self._rows, times % self._places] = actions
        if self._closed_loop:
            running = (
                c.decide(self._row(i), actions[i]) if ran[i] else 0 for i, c in enumerate(channels)
            )
        else:
            running = (c.decide() if r else 0 for c, r in zip(channels, ran.tolist(), strict=True))
        return np.fromiter(running, np.int64, len(channels))

    def _show(self, actions: NDArray[Any], ran: Mask, final: Any, done: Mask) -> None:
        """Show closed-loop laws the observations after the steps that ran."""
        for i in np.flatnonzero(ran).tolist():
            observation = self._row(i) if final is None or not done[i] else take_rows(final, i)
            self._channels[i].observe(observation, actions[i])

    def _begin_episodes(self, mask: Mask) -> None:
        rows = np.flatnonzero(mask)
        for row in rows.tolist():
            observation = self._row(row) if self._closed_loop else None
            self._channels[row].begin_episode(observation)
        if callable(self._initial):
            queues = self._queues(self._initial(take_rows(self._observations, rows)), len(rows))
        else:
            queues = self._initial[rows]
        self._fill(rows, queues)

    def _queues(self, actions: Any, count: int) -> NDArray[Any]:
        """Return initial queues ``[count, M, ...]`` from one action, one queue, or one per row."""
        space = self.env.single_action_space
        array = np.asarray(actions)
        shape = space.shape or ()
        wanted = (count, self.max_delay, *shape)
        if array.shape not in (shape, wanted[1:], wanted):
            raise DelayError(
                f"initial actions of shape {array.shape} should be one action {shape}, "
                f"one queue {wanted[1:]}, or one queue per environment {wanted}"
            )
        rows = [admitted(space, action) for action in array.reshape(-1, *shape)]
        for action, admissible in zip(array.reshape(-1, *shape), rows, strict=True):
            if admissible is None:
                raise DelayError(f"initial action {action!r} is not in {space}")
        return np.broadcast_to(np.array(rows, self._actions.dtype).reshape(array.shape), wanted)

    def _fill(self, rows: NDArray[Any], queues: NDArray[Any]) -> None:
        """Write initial queues into the ring: the decisions of the times -M .. -1."""
        places = (self._slots - self.max_delay) % self._places
        self._actions[rows[:, None], places] = queues

    def _delay_info(self) -> dict[str, Any]:
        """Return the keys of ``info`` that the agent knows before its next decisions."""
        if self.reveal == "never":
            return {}
        channels, most = self._channels, self.max_delay
        before = self.reveal == "before"
        delays = [(c.delay if before else c.last_delay) or 0 for c in channels]
        lengths = delays if before else [most] * len(channels)
        queues = [c.schedule.upcoming(length) for c, length in zip(channels, lengths, strict=True)]
        times = np.frombuffer(b"".join(queues), np.int64).reshape(len(channels), most)
        mask = self._slots < np.array(lengths)[:, None]
        pending = self._actions[self._rows[:, None], times % self._places]
        pending *= mask.reshape(mask.shape + (1,) * (pending.ndim - 2))
        delay_info = {"delay": np.array(delays), "pending": pending, "pending_mask": mask}
        present = np.ones(len(channels), bool)
        return {**delay_info, **{f"_{key}": present for key in delay_info}}

    def _outcome(
        self, executed: NDArray[Any], decision_times: NDArray[np.int64], ran: Mask
    ) -> dict[str, Any]:
        """Return the keys of ``info`` about what this call ran."""
        schedules = [channel.schedule for channel in self._channels]
        outcome = {
            "executed_action": executed,
            "decision_time": decision_times,
            "dropped": np.array([s.dropped for s in schedules]),
            "repeated": np.array([s.repeated for s in schedules]),
        }
        return {**outcome, **{f"_{key}": ran for key in outcome}}

    def _finish(self, info: dict[str, Any], done: Mask) -> None:
        """Add delay and queue to the final observation and info of episodes that have ended."""
        delay_info = self._delay_info()
        final_info = dict(inner_apart(info.get("final_info", {})))
        for key, value in delay_info.items():
            final_info[key] = done.copy() if key.startswith("_") else value
        info["final_info"] = final_info
        info.setdefault("_final_info", done.copy())
        if self.observe != "plain":
            info["final_obs"] = augmented_finals(info["final_obs"], self._parts(delay_info), done)

    def _observed(self, delay_info: dict[str, Any]) -> Any:
        return augmented(self._observations, self._parts(delay_info))

    def _parts(self, delay_info: dict[str, Any]) -> dict[str, Any]:
        """Return what ``observe`` adds to the observations, as batches."""
        if self.observe == "plain":
            return {}
        parts = {"delay": fraction(delay_info["delay"], self.max_delay)}
        if self._encoder is not None:
            parts["pending"] = self._encoder.encode(
                delay_info["pending"], delay_info["pending_mask"]
            )
        return parts

    def _row(self, row: int) -> Any:
        return take_rows(self._observations, row)
