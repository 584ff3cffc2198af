"""Vector environments from their ids."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers import TimeLimit

from delayzero.envs.atari import Atari
from delayzero.envs.minatar import GAMES, MinAtar
from delayzero.words import meant

ATARI_STEPS = {True: 3_000, False: 27_000}  # in training, otherwise: 12 000 and 108 000 frames
MINATAR_STEPS = {True: 1_000, False: 5_000}


class UnsupportedEnvironment(gym.error.Error):
    """An environment that agents of delayzero cannot be trained in."""


def make_vector(
    env_id: str, num_envs: int, *, training: bool, max_steps: int | None = None
) -> VectorEnv[Any, Any, Any]:
    """Make N environments that reset themselves in the step after an end (NEXT_STEP autoreset).

    Args:
        env_id: ``"atari:<Game>"``, ``"minatar:<game>"`` or any id of Gymnasium.
        num_envs: N.
        training: Whether to use the time limits of training: 3 000 steps for Atari, 1 000 for
            MinAtar. They are 27 000 and 5 000 otherwise; those of Gymnasium's are their own.
        max_steps: The number of steps after which to truncate an episode instead.

    Returns:
        The vector environment; its rewards are raw, and no life lost ends an episode.

    Raises:
        gymnasium.error.UnregisteredEnv: There is no such environment.
        delayzero.extras.MissingExtraError: ale_py or minatar is not installed.

    Example:
        >>> from delayzero.envs.make import make_vector
        >>> envs = make_vector("CartPole-v1", 3, training=True)
        >>> observations, _ = envs.reset(seed=0)
        >>> observations.shape
        (3, 4)
    """
    if num_envs < 1:
        raise gym.error.Error(f"num_envs is at least 1, not {num_envs}")
    if max_steps is not None and max_steps < 1:
        raise gym.error.Error(f"max_steps is at least 1, not {max_steps}")
    kind, _, game = env_id.partition(":")
    if kind.lower() == "atari":
        return Atari(game, num_envs, max_steps=max_steps or ATARI_STEPS[training])
    if kind.lower() == "minatar":
        return _minatar(game, num_envs, max_steps or MINATAR_STEPS[training])
    return _registered(env_id, num_envs, max_steps)


def check_supported(env: VectorEnv[Any, Any, Any]) -> None:
    """Check that agents can be trained in an environment.

    Raises:
        UnsupportedEnvironment: They cannot; the message says why and what to do.
    """
    actions, observations = env.single_action_space, env.single_observation_space
    if not isinstance(actions, spaces.Discrete):
        raise UnsupportedEnvironment(
            f"the actions are {actions}, not Discrete: choose a finite number of them in a "
            "wrapper, such as gymnasium.wrappers.TransformAction"
        )
    if actions.start != 0:
        raise UnsupportedEnvironment(
            f"the actions begin at {actions.start}, not at 0: shift them in a wrapper, such as "
            f"gymnasium.wrappers.TransformAction(env, lambda a: a + {actions.start}, "
            f"gymnasium.spaces.Discrete({actions.n}))"
        )
    if not isinstance(observations, spaces.Box):
        raise UnsupportedEnvironment(
            f"the observations are {observations}, not a Box: flatten them, with "
            "gymnasium.wrappers.FlattenObservation"
        )
    if len(observations.shape) not in (1, 3):
        raise UnsupportedEnvironment(
            f"the observations have the shape {observations.shape}; vectors [features] and images "
            "[height, width, channels] are supported: flatten them, with "
            "gymnasium.wrappers.FlattenObservation, or reshape them, with "
            "gymnasium.wrappers.ReshapeObservation"
        )
    if (mode := env.metadata.get("autoreset_mode")) != AutoresetMode.NEXT_STEP:
        raise UnsupportedEnvironment(
            f"the autoreset mode is {mode}, not NEXT_STEP: make the vector environment with "
            "autoreset_mode=gymnasium.vector.AutoresetMode.NEXT_STEP"
        )


def _minatar(game: str, num_envs: int, max_steps: int) -> VectorEnv[Any, Any, Any]:
    names = {name.replace("_", ""): name for name in GAMES}
    key = game.lower().replace("_", "")
    if key not in names:
        near = meant(key, names)
        hint = f"did you mean 'minatar:{names[near]}'?" if near else f"they are {', '.join(GAMES)}"
        raise gym.error.UnregisteredEnv(f"'{game}' is no MinAtar game; {hint}")
    make = partial(_limited_minatar, names[key], max_steps)
    return SyncVectorEnv([make] * num_envs, autoreset_mode=AutoresetMode.NEXT_STEP)


def _limited_minatar(game: str, max_steps: int) -> gym.Env[Any, Any]:
    return TimeLimit(MinAtar(game), max_steps)


def _registered(env_id: str, num_envs: int, max_steps: int | None) -> VectorEnv[Any, Any, Any]:
    limit: dict[str, Any] = {} if max_steps is None else {"max_episode_steps": max_steps}
    try:
        return gym.make_vec(
            env_id,
            num_envs,
            vectorization_mode="sync",
            vector_kwargs={"autoreset_mode": AutoresetMode.NEXT_STEP},
            **limit,
        )
    except gym.error.UnregisteredEnv:
        raise _unknown(env_id) from None
    except ModuleNotFoundError:
        if ":" not in env_id:  # otherwise the module to import, which registers the environment
            raise
        raise _unknown(env_id) from None


def _unknown(env_id: str) -> gym.error.UnregisteredEnv:
    known = {name.lower(): name for name in gym.registry}
    known |= {game: f"minatar:{game}" for game in GAMES}
    near = meant(env_id.lower(), known)
    hint = f"; did you mean '{known[near]}'?" if near else ";"
    return gym.error.UnregisteredEnv(
        f"there is no environment '{env_id}'{hint} Atari games are 'atari:<Game>', such as "
        "'atari:MsPacman', MinAtar's are 'minatar:<game>', and "
        "python -c 'import gymnasium; gymnasium.pprint_registry()' lists Gymnasium's own"
    )
