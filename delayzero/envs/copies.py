"""Looking ahead by playing copies of environments: a perfect forecast where they can be copied.

A copy has the random numbers of its environment too, so it also knows what chance will bring.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import SyncVectorEnv, VectorWrapper
from numpy.typing import NDArray

from delayzero.actions import Queue
from delayzero.envs.make import UnsupportedEnvironment


class Expected(NamedTuple):
    """What a copy showed after one action."""

    action: int
    observation: Any


class ForeseeingCopies(VectorWrapper[Any, Any, Any, Any, Any]):
    """N environments that can show the observations that actions will lead to.

    Copies are compared with their environments at every step. An environment that plays differently
    from its copy, because they share a simulator or a source of chance, is refused.
    """

    def __init__(self, env: SyncVectorEnv) -> None:
        """Wrap environments of this process."""
        super().__init__(env)
        self._games = env.envs
        self._ended = np.zeros(env.num_envs, bool)
        self._expected: dict[int, Expected] = {}

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Begin all episodes."""
        self._ended[:] = False
        self._expected.clear()
        return self.env.reset(seed=seed, options=options)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Run one step of each environment.

        Raises:
            UnsupportedEnvironment: An environment played differently from its copy.
        """
        observations, rewards, terminated, truncated, info = self.env.step(actions)
        self._ended = terminated | truncated
        for i, expected in self._expected.items():
            there = observations[i]
            if expected.action != actions[i] or self._ended[i]:
                continue
            if not np.array_equal(there, expected.observation, equal_nan=there.dtype.kind == "f"):
                raise UnsupportedEnvironment(
                    "a copy of the environment played differently from it, so what actions lead to "
                    "cannot be foreseen; leave --forecast out"
                )
        self._expected.clear()
        return observations, rewards, terminated, truncated, info

    def foresee(self, queue: Queue, count: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return the observations that the pending actions will lead to, up to an episode's end.

        Args:
            queue: The pending actions, ``[N, M]``.
            count: The largest number of observations to return, the last ones.

        Returns:
            The last observations, ``[N, count, ...]``, the newest last, and their number, ``[N]``:
            where the queue is shorter than ``count``, the first observations are zero.

        Raises:
            UnsupportedEnvironment: An environment cannot be copied.
        """
        space = self.single_observation_space
        assert space.shape is not None
        observations = np.zeros((self.num_envs, count, *space.shape), space.dtype)
        lengths = np.zeros(self.num_envs, np.int64)
        self._expected.clear()
        for i, game in enumerate(self._games):
            actions = np.asarray(queue.row(i), np.int64)  # as environments get them
            if self._ended[i] or not actions.size:
                continue
            shown = _played(_copied(game), actions)
            if shown:
                self._expected[i] = Expected(int(actions[0]), shown[0])
                lengths[i] = len(shown[-count:])
                observations[i, -lengths[i] :] = shown[-count:]
        return observations, lengths


def _copied(game: Any) -> Any:
    try:
        return copy.deepcopy(game)
    except Exception as error:  # whatever a simulator raises
        raise UnsupportedEnvironment(
            f"the environment cannot be copied ({error}), so what actions lead to cannot be "
            "foreseen; leave --forecast out"
        ) from error


def _played(game: Any, actions: Any) -> list[Any]:
    """Play until the episode ends; return the observations before that."""
    shown: list[Any] = []
    for action in actions:
        observation, _, terminated, truncated, _ = game.step(action)
        if terminated or truncated:
            break
        shown.append(np.array(observation))  # some environments show one array again and again
    return shown
