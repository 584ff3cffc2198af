"""Making vector environments from their ids."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import types
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers import TimeLimit

from delayzero.bounds import MOST_ENVS
from delayzero.envs.atari import Atari
from delayzero.envs.minatar import GAMES, MinAtar
from delayzero.envs.rendering import RENDER_MODE, RenderedAtari
from delayzero.words import meant

ATARI_STEPS = {True: 3_000, False: 27_000}  # in training, otherwise: 12 000 and 108 000 frames
MINATAR_STEPS = {True: 1_000, False: 5_000}


MakeEnv = Callable[..., gym.Env[Any, Any]]
"""A function that makes one environment; it is called without arguments, and with ``render_mode``
if it has a parameter of that name and pictures are asked for."""
_functions: dict[str, MakeEnv] = {}
"""Functions registered in this process, by their id."""


class UnsupportedEnvironment(gym.error.Error):
    """An environment that agents of delayzero cannot be trained in."""


def make_vector(
    env_id: str,
    num_envs: int,
    *,
    training: bool,
    max_steps: int | None = None,
    render: bool = False,
) -> VectorEnv[Any, Any, Any]:
    """Make N environments that reset themselves in the step after an end (NEXT_STEP autoreset).

    Args:
        env_id: ``"atari:<Game>"``, ``"minatar:<game>"``, any id of Gymnasium, one that a module
            registers (``"package.module:MyEnv-v0"``), or a function in a module that makes an
            environment (``"package.module:make_my_env"``). Modules are also searched for in the
            current folder.
        num_envs: N.
        training: Whether to use the time limits of training: 3 000 steps for Atari, 1 000 for
            MinAtar. Otherwise they are 27 000 and 5 000. Other environments keep their limits.
        max_steps: The number of steps after which to truncate an episode, instead of these.
        render: Whether ``render()`` is to return the environments' pictures, ``[H, W, 3]`` each.

    Returns:
        The vector environment; its rewards are raw, and a lost life does not end an episode.

    Raises:
        gymnasium.error.UnregisteredEnv: The environment is unknown.
        UnsupportedEnvironment: It has no pictures to render.
        delayzero.extras.MissingExtraError: ale_py or minatar is not installed.

    Example:
        >>> from delayzero.envs.make import make_vector
        >>> envs = make_vector("CartPole-v1", 3, training=True)
        >>> observations, _ = envs.reset(seed=0)
        >>> observations.shape
        (3, 4)
    """
    if num_envs < 1:
        raise gym.error.Error(f"num_envs should be at least 1, not {num_envs}")
    if num_envs > MOST_ENVS:
        raise gym.error.Error(
            f"{num_envs} environments side by side are too many; at most {MOST_ENVS} are "
            f"supported, with the option --envs {MOST_ENVS} or less"
        )
    if max_steps is not None and max_steps < 1:
        raise gym.error.Error(f"max_steps should be at least 1, not {max_steps}")
    kind, _, game = env_id.partition(":")
    if kind.lower() == "atari":
        make_atari = RenderedAtari if render else Atari
        return make_atari(game, num_envs, max_steps=max_steps or ATARI_STEPS[training])
    mode = RENDER_MODE if render else None
    if kind.lower() == "minatar":
        return _minatar(game, num_envs, max_steps or MINATAR_STEPS[training], mode)
    make = _functions.get(env_id) or _function_in_module(env_id)
    if make is not None:
        env = _from_function(env_id, make, num_envs, max_steps, mode)
    else:
        env = _registered(env_id, num_envs, max_steps, mode)
    if render:
        _check_renders(env, env_id)
    return env


def id_of_function(make: MakeEnv) -> str:
    """Return an id that stands for a function that makes an environment, in this process.

    It is ``module:function``, so that other processes can import the function by it, unless it is
    defined in a script, in a notebook or inside another function.
    """
    name = getattr(make, "__qualname__", type(make).__qualname__)
    env_id = f"{getattr(make, '__module__', type(make).__module__)}:{name}"
    _functions[env_id] = make
    return env_id


def function_of_id(env_id: str) -> MakeEnv | None:
    """Return the function that an id stands for in this process; None if it was not given one."""
    return _functions.get(env_id)


def names_one_function(make: MakeEnv) -> bool:
    """Return whether the id of a function stands for no other.

    Partial functions, lambdas, methods and callable objects share an id with others.
    """
    return isinstance(make, (types.FunctionType, type)) and "<" not in make.__qualname__


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
    if 0 in observations.shape:
        raise UnsupportedEnvironment(
            f"the observations have the shape {observations.shape}: there is nothing to observe"
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


def _minatar(
    game: str, num_envs: int, max_steps: int, render_mode: str | None
) -> VectorEnv[Any, Any, Any]:
    names = {name.replace("_", ""): name for name in GAMES}
    key = game.lower().replace("_", "")
    if key not in names:
        near = meant(key, names)
        choices = f"choose from {', '.join(GAMES)}"
        hint = f"did you mean 'minatar:{names[near]}'?" if near else choices
        raise gym.error.UnregisteredEnv(f"unknown MinAtar game '{game}'; {hint}")
    make = partial(_limited_minatar, names[key], max_steps, render_mode)
    return SyncVectorEnv([make] * num_envs, autoreset_mode=AutoresetMode.NEXT_STEP)


def _limited_minatar(game: str, max_steps: int, render_mode: str | None) -> gym.Env[Any, Any]:
    return TimeLimit(MinAtar(game, render_mode=render_mode), max_steps)


def _function_in_module(env_id: str) -> MakeEnv | None:
    """Import the module of ``module:name``; return its function of that name, if it has one."""
    module_name, colon, name = env_id.partition(":")
    if not colon:
        return None
    module = _imported(module_name, env_id)
    if name in gym.registry:
        return None
    function: Any = module
    for part in name.split("."):
        function = getattr(function, part, None)
    return function if callable(function) else None


def _imported(name: str, env_id: str) -> types.ModuleType:
    """Import a module, also from the current folder; errors inside it are raised unchanged.

    The current folder stays on the path: what the module registers may be imported later.
    """
    if not name or name.startswith("."):
        raise _unknown(env_id)
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if name == missing or name.startswith(f"{missing}."):
            raise _unknown(env_id) from None
        raise  # the module exists, and something that it imports does not


def _from_function(
    env_id: str, make: MakeEnv, num_envs: int, max_steps: int | None, render_mode: str | None
) -> VectorEnv[Any, Any, Any]:
    asked: dict[str, Any] = {}
    if render_mode is not None and "render_mode" in inspect.signature(make).parameters:
        asked = {"render_mode": render_mode}

    def make_one() -> gym.Env[Any, Any]:
        env = make(**asked)
        if not isinstance(env, gym.Env):
            raise UnsupportedEnvironment(
                f"{env_id} returned {type(env).__name__}; it should return a gymnasium.Env"
            )
        return env if max_steps is None else TimeLimit(env, max_steps)

    return SyncVectorEnv([make_one] * num_envs, autoreset_mode=AutoresetMode.NEXT_STEP)


def _registered(
    env_id: str, num_envs: int, max_steps: int | None, render_mode: str | None
) -> VectorEnv[Any, Any, Any]:
    name = env_id.rpartition(":")[2]  # its module is already imported
    asked: dict[str, Any] = {} if max_steps is None else {"max_episode_steps": max_steps}
    if render_mode is not None:
        asked["render_mode"] = render_mode
    try:
        with warnings.catch_warnings():
            if render_mode is not None:  # that it has no such mode is told in an error
                warnings.filterwarnings("ignore", ".*render_mode")
            return gym.make_vec(
                name,
                num_envs,
                vectorization_mode="sync",
                vector_kwargs={"autoreset_mode": AutoresetMode.NEXT_STEP},
                **asked,
            )
    except gym.error.UnregisteredEnv:
        raise _unknown(env_id) from None
    except TypeError as error:
        if render_mode is None or "render_mode" not in str(error):
            raise
        raise _not_rendered(env_id) from None


def _check_renders(env: VectorEnv[Any, Any, Any], env_id: str) -> None:
    """Check that each environment was made with pictures."""
    modes = [getattr(one, "render_mode", None) for one in getattr(env.unwrapped, "envs", ())]
    if not modes or any(mode != RENDER_MODE for mode in modes):
        raise _not_rendered(env_id)


def _not_rendered(env_id: str) -> UnsupportedEnvironment:
    return UnsupportedEnvironment(
        f"'{env_id}' has no pictures: an environment that can be watched takes "
        f"render_mode='{RENDER_MODE}', has that as its attribute, and returns [height, width, 3] "
        "of uint8 from render()"
    )


def _unknown(env_id: str) -> gym.error.UnregisteredEnv:
    """Return the error about an unknown id; its message says what to type."""
    module, colon, name = env_id.partition(":")
    if (colon and module == "__main__") or "<" in name:
        return gym.error.UnregisteredEnv(
            f"'{env_id}' is a function of a script or notebook, and cannot be imported from "
            "elsewhere: call delayzero.train there, or move the function into a module"
        )
    if colon and module in sys.modules:
        return gym.error.UnregisteredEnv(
            f"the module '{module}' registers no environment '{name}' and has no function with "
            "that name"
        )
    ids = {name.lower(): name for name in gym.registry}
    ids |= {game: f"minatar:{game}" for game in GAMES}
    near = meant(env_id.lower(), ids)
    hint = f"; did you mean '{ids[near]}'?" if near else ";"
    if colon:
        hint = f": no module '{module}' is installed or in {os.getcwd()};"
    return gym.error.UnregisteredEnv(
        f"unknown environment '{env_id}'{hint} Atari games are 'atari:<Game>', such as "
        "'atari:MsPacman', MinAtar's are 'minatar:<game>', your own are 'module:MyEnv-v0', and "
        "python -c 'import gymnasium; gymnasium.pprint_registry()' lists Gymnasium's"
    )
