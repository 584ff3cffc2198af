"""Atari games as EfficientZero plays them, from ALE's vector environment.

Differences from ``<Game>NoFrameskip-v4`` with the wrappers of the original code:

1. ALE draws 0 to 29 no-op frames at a reset, not 1 to 30.
2. Frames are not compressed as JPEG.
3. A lost life does not end the episode: ``info["life_lost"]`` reports it.
"""

from __future__ import annotations

import operator
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from delayzero.extras import require
from delayzero.words import meant

FRAME_SKIP = 4
SIZE = 96
TWO_PLAYER = ("combat", "joust", "maze_craze", "warlords")  # they have no single-player mode


class Atari(VectorWrapper[Any, Any, Any, Any, Any]):
    """N games: frames ``[N, 96, 96, 3]`` (uint8), raw rewards, and which games lost a life.

    One step is 4 frames; the picture is the maximum of the last two. Actions are the game's
    minimal set, never sticky. ``info["life_lost"]`` ``[N]`` is True where this step lost a life
    and the game continues: neither where it ended nor where this step reset it. As in the
    original code, a game that counts down to 0 lives just before it is over loses none then.

    Attributes:
        rom: The name of the game's ROM.
    """

    def __init__(self, game: str, num_envs: int, *, max_steps: int) -> None:
        """Make N games.

        Args:
            game: Its name, such as ``"MsPacman"`` or ``"ms_pacman"``; case does not matter.
            num_envs: N.
            max_steps: The number of steps after which an episode is truncated.
        """
        self.rom = rom(game)
        super().__init__(ale_vector(self.rom, num_envs, max_steps))
        self.metadata = {**self.env.metadata, "autoreset_mode": AutoresetMode.NEXT_STEP}
        self.single_observation_space = spaces.Box(0, 255, (SIZE, SIZE, 3), np.uint8)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self._lives = np.zeros(num_envs, np.int32)
        self._ended = np.zeros(num_envs, bool)

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """Begin new games, from one seed or one for each game, below 2**31."""
        chosen = (options or {}).get("reset_mask", np.ones(self.num_envs, bool))
        observations, info = self.env.reset(
            seed=ale_seed(seed, int(np.sum(chosen))), options=options
        )
        self._lives = info["lives"].copy()
        self._ended &= ~chosen
        return observations[:, 0], {**info, "life_lost": np.zeros(self.num_envs, bool)}

    def step(
        self, actions: Any
    ) -> tuple[
        NDArray[np.uint8],
        NDArray[np.float64],
        NDArray[np.bool_],
        NDArray[np.bool_],
        dict[str, Any],
    ]:
        """Play 4 frames of each game; begin a new game where the last step ended one."""
        actions = np.asarray(actions, np.int64)
        if not self.action_space.contains(actions):  # ALE would wait for ever
            raise gym.error.InvalidAction(f"{actions} is not in {self.action_space}")
        observations, rewards, terminated, truncated, info = self.env.step(actions)
        ended = terminated | truncated
        lives = info["lives"]
        lost = (lives < self._lives) & (lives > 0) & ~ended & ~self._ended
        self._lives, self._ended = lives.copy(), ended
        info = {**info, "life_lost": lost}
        return observations[:, 0], rewards.astype(np.float64), terminated, truncated, info


def rom(game: str) -> str:
    """Return the name of a game's ROM in ale_py: ``"ms_pacman"`` for ``"MsPacman"``.

    Raises:
        gymnasium.error.UnregisteredEnv: The game is unknown; the message suggests the nearest name.
    """
    roms = require("ale_py.roms", "atari")
    games: list[str] = [name for name in roms.get_all_rom_ids() if name not in TWO_PLAYER]
    names = {name.replace("_", ""): name for name in games}
    key = game.lower().replace("_", "").replace("-", "").replace(" ", "")
    if key in names:
        return names[key]
    near = meant(key, names)
    hint = (
        f"did you mean 'atari:{title(names[near])}'?"
        if near
        else ("choose from " + ", ".join(title(name) for name in sorted(games)))
    )
    raise gym.error.UnregisteredEnv(f"unknown Atari game '{game}'; {hint}")


def title(name: str) -> str:
    """Return a game's name as papers write it, from its ROM's: ``"MsPacman"``."""
    return name.title().replace("_", "")


def ale_vector(
    name: str, num_envs: int, max_steps: int, height: int = SIZE, width: int = SIZE
) -> VectorEnv[Any, Any, Any]:
    """Return ALE's vector environment of N games, with pictures ``[N, 1, height, width, 3]``."""
    env: VectorEnv[Any, Any, Any] = require("ale_py.vector_env", "atari").AtariVectorEnv(
        name,
        num_envs,
        max_num_frames_per_episode=FRAME_SKIP * max_steps,  # no-op frames do not count
        autoreset_mode=AutoresetMode.NEXT_STEP,
        img_height=height,
        img_width=width,
        grayscale=False,
        stack_num=1,
        frameskip=FRAME_SKIP,
        maxpool=True,
        noop_max=30,
        episodic_life=False,
        life_loss_info=False,
        reward_clipping=False,
        use_fire_reset=False,
        repeat_action_probability=0.0,
        full_action_space=False,
    )
    return env


def ale_seed(seed: Any, count: int) -> Any:
    """Return a seed as ALE takes it: an int, or an array ``[count]``."""
    if seed is None:
        return None
    scalar = np.ndim(seed) == 0
    last = operator.index(seed) + count - 1 if scalar else int(np.max(seed))
    first = operator.index(seed) if scalar else int(np.min(seed))
    if first < 0 or last >= 2**31:
        raise gym.error.Error(
            f"ALE's seeds are from 0 to {2**31 - 1}; {seed!r} for {count} games would need {first} "
            f"to {last}"
        )
    return first if scalar else np.asarray(seed, np.int64)
