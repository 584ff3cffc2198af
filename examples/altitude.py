"""A drone that holds its altitude in wind: an environment of one's own.

    delayzero train cartpole --env altitude:Altitude-v0 --delay walk:4     # in this folder

docs/custom_environments.md explains every part, and examples/fly.py flies the result.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

STEP = 0.05  # seconds between two decisions
THRUSTS = (-6.0, 0.0, 6.0)  # metres per second squared, beside what balances gravity
WIND = 2.0  # the standard deviation of gusts, in metres per second squared
LOST = 5.0  # metres from the wanted altitude


class Altitude(gym.Env[NDArray[np.float32], np.int64]):
    """Observe the altitude's error and the vertical speed; choose one of three thrusts.

    The reward is 1 at the wanted altitude and falls to 0 at one metre from it. An episode ends
    5 metres from it, or after 200 steps (10 seconds).
    """

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = spaces.Discrete(len(THRUSTS))
        self._error = self._speed = self._gust = 0.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin up to a metre away from the wanted altitude."""
        super().reset(seed=seed)
        self._error, self._speed, self._gust = self.np_random.uniform(-1, 1), 0.0, 0.0
        return self._observe(), {}

    def step(
        self, action: np.int64
    ) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Fly for one step."""
        self._gust += 0.1 * (WIND * self.np_random.normal() - self._gust)
        self._speed += STEP * (THRUSTS[int(action)] + self._gust)
        self._error += STEP * self._speed
        reward = max(0.0, 1.0 - abs(self._error))
        return self._observe(), reward, abs(self._error) > LOST, False, {}

    def _observe(self) -> NDArray[np.float32]:
        return np.array([self._error, self._speed], np.float32)


gym.register("Altitude-v0", Altitude, max_episode_steps=200)
