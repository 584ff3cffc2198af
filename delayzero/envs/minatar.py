"""MinAtar games as Gymnasium environments.

The environments that the ``minatar`` package registers do not take seeds as Gymnasium requires (its
environment checker fails on them). This is a thin wrapper over the same games that does.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from delayzero.extras import require

GAMES = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")
CELL = 16
"""Pixels of a cell of the rendered grid, a dark line among them."""
GROUND, LINE = (24, 28, 38), (36, 41, 54)
COLOURS = (
    *((86, 180, 233), (255, 196, 61), (130, 138, 155), (213, 94, 60), (0, 178, 128)),
    *((204, 121, 187), (240, 228, 66), (122, 205, 255), (255, 255, 255), (255, 150, 90)),
)
"""Of the channels, the player's first; those that colour-blind people tell apart come first."""


class MinAtar(gym.Env[NDArray[np.float32], np.int64]):
    """One MinAtar game: observations ``[10, 10, channels]`` of zeros and ones.

    Example:
        >>> from delayzero.envs.minatar import MinAtar
        >>> env = MinAtar("breakout")
        >>> observation, _ = env.reset(seed=0)
        >>> observation.shape
        (10, 10, 4)
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(
        self,
        game: str,
        *,
        sticky_action_prob: float = 0.1,
        difficulty_ramping: bool = True,
        minimal_actions: bool = True,
        render_mode: str | None = None,
    ) -> None:
        """Make a game.

        Args:
            game: One of ``GAMES``.
            sticky_action_prob: The probability that the previous action is repeated instead.
            difficulty_ramping: Whether the game becomes harder over time.
            minimal_actions: Whether to offer only the actions that this game uses, not all six.
            render_mode: ``"rgb_array"`` or None.
        """
        if game not in GAMES:
            raise gym.error.UnregisteredEnv(
                f"unknown MinAtar game '{game}'; choose from {', '.join(GAMES)}"
            )
        environment = require("minatar", "minatar").Environment
        self._game = environment(game, sticky_action_prob, difficulty_ramping)
        count = self._game.num_actions()
        self._actions = self._game.minimal_action_set() if minimal_actions else range(count)
        self.render_mode = render_mode
        self.action_space = spaces.Discrete(len(self._actions))
        self.observation_space = spaces.Box(0.0, 1.0, tuple(self._game.state_shape()), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin a game; a seed also restarts its randomness."""
        super().reset(seed=seed)
        if seed is not None:
            self._game.seed(int(self.np_random.integers(2**31)))
            self._game.last_action = 0  # the sticky action, which the game's reset keeps
        self._game.reset()
        return self._observation(), {}

    def step(
        self, action: np.int64
    ) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Play one frame."""
        reward, terminated = self._game.act(self._actions[action])
        return self._observation(), float(reward), bool(terminated), False, {}

    def render(self) -> NDArray[np.uint8]:
        """Return an image of the channels in colours, ``[160, 160, 3]``; the player is on top."""
        state = self._game.state()
        cells = np.full((*state.shape[:2], 3), GROUND, np.uint8)
        for channel in reversed(range(state.shape[-1])):
            cells[state[..., channel] > 0] = COLOURS[channel]
        image: NDArray[np.uint8] = cells.repeat(CELL, axis=0).repeat(CELL, axis=1)
        image[CELL - 1 :: CELL], image[:, CELL - 1 :: CELL] = LINE, LINE
        return image

    @property
    def letters(self) -> list[str]:
        """The game's letter for each action: n, l, u, r, d or f."""
        return [self._game.env.action_map[action] for action in self._actions]

    def _observation(self) -> NDArray[np.float32]:
        observation: NDArray[np.float32] = self._game.state().astype(np.float32)
        return observation
