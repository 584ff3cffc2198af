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
    """What a copy did in its first step."""

    action: int
    observation: NDArray[Any]
    ended: bool


class Played(NamedTuple):
    """What a copy did."""

    observations: list[NDArray[Any]]
    """Those of steps that did not end the episode."""
    first: Expected


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
        """Begin all episodes; ``options`` must be None."""
        assert options is None, "all episodes begin together"
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
            if expected.action != actions[i]:
                continue
            there, ended = observations[i], bool(self._ended[i])
            equal_nan = there.dtype.kind == "f"
            same = np.array_equal(there, expected.observation, equal_nan=equal_nan)
            if ended != expected.ended or not same:
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
            UnsupportedEnvironment: A copy of an environment cannot be made, or not be played.
        """
        space, kind = self.single_observation_space, self.single_action_space.dtype
        assert space.shape is not None
        observations = np.zeros((self.num_envs, count, *space.shape), space.dtype)
        lengths = np.zeros(self.num_envs, np.int64)
        self._expected.clear()
        for i, game in enumerate(self._games):
            actions = np.asarray(queue.row(i), kind)
            if self._ended[i] or not actions.size:
                continue
            played = _played(game, actions, space.dtype)
            self._expected[i] = played.first
            shown = played.observations[-count:]
            if shown:
                lengths[i] = len(shown)
                observations[i, -len(shown) :] = shown
        return observations, lengths


def _played(game: Any, actions: NDArray[Any], dtype: Any) -> Played:
    """Play a copy of an environment until its episode ends."""
    steps: list[tuple[NDArray[Any], bool]] = []
    try:
        game = copy.deepcopy(game)
        for action in actions:
            observation, _, terminated, truncated, _ = game.step(action)
            ended = bool(terminated or truncated)
            # As vector environments keep it: of the space's type, and not the environment's array.
            steps.append((np.array(observation, dtype), ended))
            if ended:
                break
    except Exception as error:  # whatever a simulator raises
        raise UnsupportedEnvironment(
            f"a copy of the environment cannot be played ({error or type(error).__name__}), so "
            "what actions lead to cannot be foreseen; leave --forecast out"
        ) from error
    first = Expected(int(actions[0]), *steps[0])
    return Played([shown for shown, ended in steps if not ended], first)
