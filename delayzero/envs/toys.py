"""Environments so small that every agent that learns at all should solve them.

They are registered as ``delayzero/Identity-v0``, ``delayzero/TwoStepBandit-v0``,
``delayzero/Wheel-v0``, which needs prediction under delay, and ``delayzero/Chase-v0``, in which
rewards are rare.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

Vector = NDArray[np.float32]


class Identity(gym.Env[Vector, np.int64]):
    """Name the symbol that is shown: a perfect episode scores 8, a random one 2 on average.

    Observations are one-hot, ``[4]``; the reward is 1 if the action is the symbol, else 0; the
    symbols are independent of each other and of the actions.

    Example:
        >>> import gymnasium as gym
        >>> import delayzero.envs
        >>> env = gym.make("delayzero/Identity-v0")
        >>> observation, _ = env.reset(seed=0)
        >>> env.step(observation.argmax())[1]
        1.0
    """

    metadata = {"render_modes": []}  # noqa: RUF012
    symbols = 4
    length = 8

    def __init__(self) -> None:
        self.action_space = spaces.Discrete(self.symbols)
        self.observation_space = spaces.Box(0.0, 1.0, (self.symbols,), np.float32)
        self._symbol = 0
        self._time = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Vector, dict[str, Any]]:
        """Begin an episode of 8 symbols."""
        super().reset(seed=seed)
        self._time = 0
        return self._show(), {}

    def step(self, action: np.int64) -> tuple[Vector, float, bool, bool, dict[str, Any]]:
        """Answer the symbol, and show the next one."""
        reward = float(action == self._symbol)
        self._time += 1
        return self._show(), reward, self._time == self.length, False, {}

    def _show(self) -> Vector:
        self._symbol = int(self.np_random.integers(self.symbols))
        return one_hot(self._symbol, self.symbols)


class TwoStepBandit(gym.Env[Vector, np.int64]):
    """Give up a small reward now for a larger one: the best episode scores 1, the greedy one 0.2.

    In the first state, action 0 gives 0.2 and leads to a state where no action gives a reward;
    action 1 gives 0 and leads to a state where action 0 gives 1. Then the episode ends. No action
    is best in both states; random play scores 0.35 on average. Observations are one-hot,
    ``[3]``: first state, poor state, rich state; all zeros at the end.
    """

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self) -> None:
        self.action_space = spaces.Discrete(2)
        self.observation_space = spaces.Box(0.0, 1.0, (3,), np.float32)
        self._state = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Vector, dict[str, Any]]:
        """Begin in the first state."""
        super().reset(seed=seed)
        self._state = 0
        return one_hot(0, 3), {}

    def step(self, action: np.int64) -> tuple[Vector, float, bool, bool, dict[str, Any]]:
        """Choose the second state, or act in it."""
        if self._state == 0:
            self._state = 1 + int(action)
            return one_hot(self._state, 3), 0.2 if action == 0 else 0.0, False, False, {}
        reward = float(self._state == 2 and action == 0)
        return np.zeros(3, np.float32), reward, True, False, {}


class Wheel(gym.Env[Vector, np.int64]):
    """Every action turns a wheel, and the right one depends on the place where it is executed.

    At place s of 5, action s % 3 gives 1 and the others 0; action a turns the wheel by 1 + a
    places. A perfect episode scores 12, a random one 4 on average. Under delay an agent must
    predict where the pending actions will turn the wheel; answering the observed place is no
    better than chance. Observations are one-hot, ``[5]``; the first place is random.
    """

    metadata = {"render_modes": []}  # noqa: RUF012
    places = 5
    length = 12

    def __init__(self) -> None:
        self.action_space = spaces.Discrete(3)
        self.observation_space = spaces.Box(0.0, 1.0, (self.places,), np.float32)
        self._place = 0
        self._time = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Vector, dict[str, Any]]:
        """Begin an episode of 12 turns at a random place."""
        super().reset(seed=seed)
        self._place, self._time = int(self.np_random.integers(self.places)), 0
        return one_hot(self._place, self.places), {}

    def step(self, action: np.int64) -> tuple[Vector, float, bool, bool, dict[str, Any]]:
        """Answer the place, and turn."""
        reward = float(action == self._place % 3)
        self._place = (self._place + 1 + int(action)) % self.places
        self._time += 1
        return one_hot(self._place, self.places), reward, self._time == self.length, False, {}


class Chase(gym.Env[Vector, np.int64]):
    """Run from a chaser along a road with seeds, the first one far away.

    There are 18 actions: those with a % 3 = 0 take the runner one place back, those with 1 leave
    it there, and those with 2 take it one place ahead. The chaser moves one place ahead with
    probability 1/7. The episode ends when it catches the runner, or after 100 steps. The first seed
    is 20 places ahead, the others follow every 3 places; each gives 1. Always running scores 27.
    Random play meets a seed about once in 2,000 steps, as in Atari's RoadRunner, so nearly every
    step that a learner sees has no reward.
    Observations are two one-hot vectors, together ``[32]``: the places to the chaser (at most 10)
    and to the next seed.
    """

    metadata = {"render_modes": []}  # noqa: RUF012
    length = 100
    first_seed, between_seeds = 20, 3
    head_start, farthest = 6, 10

    def __init__(self) -> None:
        self.action_space = spaces.Discrete(18)
        self.observation_space = spaces.Box(
            0.0, 1.0, (self.farthest + 1 + self.first_seed + 1,), np.float32
        )
        self._place = self._chaser = self._seed = self._time = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Vector, dict[str, Any]]:
        """Begin with a head start."""
        super().reset(seed=seed)
        self._place, self._chaser, self._seed = 0, -self.head_start, self.first_seed
        self._time = 0
        return self._show(), {}

    def step(self, action: np.int64) -> tuple[Vector, float, bool, bool, dict[str, Any]]:
        """Move the runner and the chaser."""
        self._place = max(0, self._place + int(action) % 3 - 1)
        self._chaser += int(self.np_random.random() < 1 / 7)
        on_seed = self._place == self._seed
        self._seed += self.between_seeds if on_seed else 0
        self._time += 1
        caught = self._chaser >= self._place
        return self._show(), float(on_seed), caught, self._time == self.length, {}

    def _show(self) -> Vector:
        gap = min(max(self._place - self._chaser, 0), self.farthest)
        ahead = min(self._seed - self._place, self.first_seed)
        parts = one_hot(gap, self.farthest + 1), one_hot(ahead, self.first_seed + 1)
        return np.concatenate(parts)


def one_hot(index: int, size: int) -> Vector:
    """Return zeros ``[size]`` with a one at ``index``."""
    vector = np.zeros(size, np.float32)
    vector[index] = 1.0
    return vector
