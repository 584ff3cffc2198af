"""Looking ahead in Atari games with the emulator itself, the perfect forward model.

The state of ALE's vector environment cannot be saved and restored. Each game therefore has a
shadow here, a second emulator that is kept in step: same seed, same no-op frames, same actions. A
shadow can be cloned, played ahead and restored. Its pictures are those of the vector environment,
bit for bit, except for the last one of an episode (ALE's vector environment mixes older frames in).

This does not work for every game: once restored, the emulator of TicTacToe3D plays differently than
it would have. Shadows are therefore compared with their games at every step, and a game whose
shadow differs is refused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from gymnasium.vector import SyncVectorEnv, VectorEnv, VectorWrapper
from numpy.typing import NDArray

from delayzero.actions import Queue
from delayzero.envs.atari import FRAME_SKIP, SIZE, Atari
from delayzero.envs.copies import ForeseeingCopies
from delayzero.envs.make import UnsupportedEnvironment
from delayzero.extras import require

Picture = NDArray[np.uint8]
SLIVER = 1e-3
"""OpenCV ignores smaller parts of a pixel."""
EVERYTHING = slice(0, SIZE)
"""All lines of a picture."""
STRIP = 8
"""Lines of a picture that are compared at each step, each time the next ones."""


class ForeseeingAtari(VectorWrapper[Any, Any, Any, Any, Any]):
    """N Atari games that can show the pictures that actions will lead to."""

    def __init__(self, env: Atari) -> None:
        """Give each game a shadow."""
        super().__init__(env)
        self._rom = env.rom
        self._shadows: list[Any] = []
        self._actions: Sequence[Any] = ()
        self._ended = np.zeros(env.num_envs, bool)
        self._steps = 0

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Begin all games.

        Args:
            seed: An int; required, since shadows get the same seed.
            options: Must be None.

        Raises:
            UnsupportedEnvironment: A shadow's picture differs from its game's.
        """
        assert isinstance(seed, (int, np.integer)), "shadows need a seed"
        assert options is None, "all games are reset together"
        observations, info = self.env.reset(seed=int(seed))
        self._shadows = [_emulator(self._rom, int(seed) + i) for i in range(self.num_envs)]
        self._actions = self._shadows[0].getMinimalActionSet()
        self._ended = np.zeros(self.num_envs, bool)
        for i, frames in enumerate(info["episode_frame_number"]):
            self._check(_begin(self._shadows[i], int(frames)), observations[i])
        return observations, info

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Play one step of each game, and of its shadow.

        Raises:
            UnsupportedEnvironment: A shadow's picture differs from its game's.
        """
        observations, rewards, terminated, truncated, info = self.env.step(actions)
        frames, ended = info["episode_frame_number"], terminated | truncated
        first = self._steps * STRIP % SIZE
        for i, shadow in enumerate(self._shadows):
            if self._ended[i]:
                self._check(_begin(shadow, int(frames[i])), observations[i])
                continue
            picture = _play(shadow, self._actions[int(actions[i])])
            if picture is not None and not ended[i]:
                self._check(picture, observations[i], slice(first, first + STRIP))
        self._ended = ended
        self._steps += 1
        return observations, rewards, terminated, truncated, info

    def foresee(self, queue: Queue, count: int) -> tuple[Picture, NDArray[np.int64]]:
        """Return the pictures that the pending actions will lead to, up to the end of a game.

        Args:
            queue: The pending actions, ``[N, M]``.
            count: The largest number of pictures to return, the last ones.

        Returns:
            The last pictures, ``[N, count, 96, 96, 3]``, the newest last, and their number,
            ``[N]``: where the queue is shorter than ``count``, the first pictures are black.
        """
        pictures = np.zeros((self.num_envs, count, SIZE, SIZE, 3), np.uint8)
        lengths = np.zeros(self.num_envs, np.int64)
        for i, shadow in enumerate(self._shadows):
            actions = [self._actions[a] for a in queue.row(i)]
            if self._ended[i] or not actions:
                continue
            before = shadow.cloneState(include_rng=True)
            shown = _play_all(shadow, actions)[-count:]
            shadow.restoreState(before)
            lengths[i] = len(shown)
            if shown:
                pictures[i, -len(shown) :] = [shrunk(picture) for picture in shown]
        return pictures, lengths

    def _check(self, picture: Picture, observation: Picture, lines: slice = EVERYTHING) -> None:
        """Check that a shadow's picture is the observation of its game."""
        if not np.array_equal(shrunk(picture, lines), observation[lines]):
            raise UnsupportedEnvironment(
                f"a second emulator of '{self._rom}' cannot be kept in step with the game, so its "
                "pictures cannot be foreseen; choose another game or --agent, or leave --forecast "
                "out"
            )


Foreseeing = ForeseeingAtari | ForeseeingCopies
"""Environments that can show what actions will lead to."""


def foreseeing(env: VectorEnv[Any, Any, Any]) -> Foreseeing:
    """Return environments that can show what actions will lead to.

    Raises:
        UnsupportedEnvironment: They can neither be copied nor played ahead by an emulator.
    """
    if isinstance(env, Atari):
        return ForeseeingAtari(env)
    if isinstance(env, SyncVectorEnv):
        return ForeseeingCopies(env)
    raise UnsupportedEnvironment(
        f"what actions lead to can be foreseen in Atari games and in environments that can be "
        f"copied, not in {type(env).__name__}; leave --forecast out"
    )


def foresight_of(env: VectorEnv[Any, Any, Any]) -> Foreseeing | None:
    """Return the environments inside wrappers that :func:`foreseeing` made, or None."""
    while not isinstance(env, Foreseeing):
        if not isinstance(env, VectorWrapper):
            return None
        env = env.env
    return env


def shrunk(picture: Picture, lines: slice = EVERYTHING) -> Picture:
    """Shrink a picture to ``[96, 96, 3]`` by the means of areas, rounded as OpenCV does.

    Args:
        picture: ``[H, W, 3]``.
        lines: Which lines of the small picture to return.
    """
    height, width = picture.shape[:2]
    top, bottom = lines.start * height // SIZE, -(-lines.stop * height // SIZE)
    values = picture[top:bottom].astype(np.float32)
    wide = np.zeros((bottom - top, SIZE, 3), np.float32)
    for places, shares in _areas(width, SIZE):
        wide += values[:, places] * shares[None, :, None]
    small = np.zeros((lines.stop - lines.start, SIZE, 3), np.float32)
    for places, shares in _areas(height, SIZE):
        here = np.maximum(places[lines] - top, 0)  # padding has place 0 and share 0
        small += wide[here] * shares[lines, None, None]
    return np.rint(small).astype(np.uint8)


@cache
def _areas(length: int, size: int) -> list[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """Return which pixels of a line make up a shorter one, in the order of OpenCV's sums.

    Returns:
        For the first, second, ... pixel of each area: places ``[size]``, shares ``[size]``.
    """
    scale = length / size
    areas: list[list[tuple[int, float]]] = []
    for i in range(size):
        begin, end = i * scale, (i + 1) * scale
        width = min(scale, length - begin)
        last = min(math.floor(end), length - 1)
        first = min(math.ceil(begin), last)
        parts = [(first - 1, (first - begin) / width)] if first - begin > SLIVER else []
        parts += [(k, 1 / width) for k in range(first, last)]
        if end - last > SLIVER:
            parts.append((last, min(end - last, 1.0, width) / width))
        areas.append(parts)
    most = max(map(len, areas))
    padded = [parts + [(0, 0.0)] * (most - len(parts)) for parts in areas]
    table = np.array(padded)  # [size, most, 2]
    return [
        (table[:, k, 0].astype(np.int64), table[:, k, 1].astype(np.float32)) for k in range(most)
    ]


def _emulator(name: str, seed: int) -> Any:
    """Return an emulator with the settings of the vector environment."""
    ale = require("ale_py", "atari")
    emulator = ale.ALEInterface()
    emulator.setLoggerMode(ale.LoggerMode.Error)
    emulator.setInt("random_seed", seed)
    emulator.setFloat("repeat_action_probability", 0.0)
    emulator.loadROM(require("ale_py.roms", "atari").get_rom_path(name))
    return emulator


def _begin(emulator: Any, frames: int) -> Picture:
    """Begin a game and play no-ops until its frame number is ``frames``; return its picture."""
    emulator.reset_game()
    for _ in range(frames - emulator.getEpisodeFrameNumber()):
        emulator.act(0)
    picture: Picture = emulator.getScreenRGB()
    return picture


def _play(emulator: Any, action: Any) -> Picture | None:
    """Play one step; return the maximum of its last two frames, or None if the game ended."""
    pictures: list[Picture] = []
    for k in range(FRAME_SKIP):
        emulator.act(action)
        if emulator.game_over(with_truncation=False):
            return None
        if k >= FRAME_SKIP - 2:
            pictures.append(emulator.getScreenRGB())
    shown: Picture = np.maximum(*pictures)
    return shown


def _play_all(emulator: Any, actions: Sequence[Any]) -> list[Picture]:
    """Play steps until the game is over; return their pictures."""
    pictures: list[Picture] = []
    for action in actions:
        picture = _play(emulator, action)
        if picture is None:
            break
        pictures.append(picture)
    return pictures
