"""What a person looks at: an environment's pictures, and the names of its actions."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv, VectorWrapper
from numpy.typing import NDArray

from delayzero.envs.atari import Atari, ale_seed, ale_vector
from delayzero.envs.minatar import MinAtar
from delayzero.extras import require

Picture = NDArray[np.uint8]
"""``[H, W, 3]``."""
RENDER_MODE = "rgb_array"
"""Gymnasium's name for pictures as arrays."""
WORDS = {"n": "no-op", "l": "left", "u": "up", "r": "right", "d": "down", "f": "fire"}
"""MinAtar's letters for actions."""
KNOWN = {
    "CartPoleEnv": ("left", "right"),
    "MountainCarEnv": ("left", "coast", "right"),
    "AcrobotEnv": ("left", "none", "right"),
    "LunarLander": ("none", "left", "main", "right"),
}
"""Names of actions that Gymnasium's environments have in their documentation alone."""


class RenderedAtari(Atari):
    """Games with a twin each that shows the emulator's own pictures, in full size and colour.

    ALE's vector environment has one size of picture, which is the agent's. A second one, with the
    same seeds and the same actions, plays the same games: whether it does is checked in every step.
    """

    def __init__(self, game: str, num_envs: int, *, max_steps: int) -> None:
        """Make N games, see :class:`~delayzero.envs.atari.Atari`, and their twins."""
        super().__init__(game, num_envs, max_steps=max_steps)
        self._twin = ale_vector(self.rom, num_envs, max_steps, *_screen(self.rom))
        self._pictures: NDArray[np.uint8] | None = None

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """Begin new games, from one seed or one for each game."""
        assert seed is not None, "twins need the seed of their games"
        assert options is None, "all games are reset together"
        pictures, _ = self._twin.reset(seed=ale_seed(seed, self.num_envs))
        self._pictures = pictures[:, 0].copy()
        return super().reset(seed=seed)

    def step(self, actions: Any) -> Any:
        """Play 4 frames of each game and of its twin."""
        outcome = super().step(actions)
        pictures, *same, _ = self._twin.step(np.asarray(actions, np.int64))
        for one, other in zip(outcome[1:4], same, strict=True):
            assert np.array_equal(one, other), "a game and its twin have parted"
        self._pictures = pictures[:, 0].copy()
        return outcome

    def render(self) -> tuple[Picture, ...]:
        """Return the newest picture of each game."""
        assert self._pictures is not None, "no game has begun"
        return tuple(self._pictures)

    def close(self, **kwargs: Any) -> None:
        """Close the games and their twins."""
        self._twin.close()
        super().close(**kwargs)


def action_names(env: VectorEnv[Any, Any, Any]) -> tuple[str, ...]:
    """Return a name for each action, such as ``("left", "right")``; numbers where there are none.

    An environment names its actions by an attribute ``action_names``.

    Args:
        env: As :func:`~delayzero.envs.make.make_vector` made it, in any wrappers.
    """
    count = int(getattr(env.single_action_space, "n", 0))
    names = _named(env)
    return names if len(names) == count else tuple(str(i) for i in range(count))


def _named(env: VectorEnv[Any, Any, Any]) -> tuple[str, ...]:
    """Return the names that an environment is known to have; none if none are known."""
    while isinstance(env, VectorWrapper) and not isinstance(env, Atari):
        env = env.env
    if isinstance(env, Atari):
        actions = _emulator(env.rom).getMinimalActionSet()
        return tuple(_words(action.name) for action in actions)
    one = getattr(env.unwrapped, "envs", (env,))[0].unwrapped
    if isinstance(one, MinAtar):
        return tuple(WORDS[letter] for letter in one.letters)
    own = getattr(one, "action_names", KNOWN.get(type(one).__name__, ()))
    return tuple(str(name) for name in own)


def _words(name: str) -> str:
    """Return an action of ALE in words: ``"up right fire"`` for ``"UPRIGHTFIRE"``."""
    parts = re.findall("up|down|left|right|fire", name.lower())
    return " ".join(parts) or "no-op"


def _screen(rom: str) -> tuple[int, int]:
    """Return the height and the width of a game's screen."""
    height, width = _emulator(rom).getScreenDims()
    return int(height), int(width)


def _emulator(rom: str) -> Any:
    """Return an emulator with a game loaded."""
    ale = require("ale_py", "atari")
    emulator = ale.ALEInterface()
    emulator.setLoggerMode(ale.LoggerMode.Error)
    emulator.loadROM(require("ale_py.roms", "atari").get_rom_path(rom))
    return emulator
