"""Everything that a configuration describes, built."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from delayzero.envs.make import check_supported, make_vector
from delayzero.learning import Learner
from delayzero.model import build_model
from delayzero.planning import Planner
from delayzero.training.config import TrainConfig


@dataclass(frozen=True)
class Spaces:
    """What an environment shows and takes."""

    shape: tuple[int, ...]
    """Of one observation."""
    dtype: np.dtype[Any]
    """Of one observation."""
    num_actions: int

    @classmethod
    def of(cls, env: gym.vector.VectorEnv[Any, Any, Any]) -> Spaces:
        """Those of a vector environment."""
        seen, taken = env.single_observation_space, env.single_action_space
        assert isinstance(seen, gym.spaces.Box)
        assert isinstance(taken, gym.spaces.Discrete)
        dtype = np.dtype(np.float32) if seen.dtype == np.float64 else seen.dtype
        return cls(tuple(seen.shape), np.dtype(dtype), int(taken.n))


@dataclass(frozen=True)
class System:
    """The parts of a run that do not change."""

    config: TrainConfig
    spaces: Spaces
    planner: Planner
    learner: Learner

    @property
    def replay_rows(self) -> int:
        """Slots of the replay.

        An episode's last observation takes a row too: room is left for one in ten. Where episodes
        are shorter, the oldest rows go first.
        """
        config = self.config
        kept = config.replay.capacity or math.ceil(1.1 * config.interactions)
        return math.ceil(kept / config.envs) + config.learner.window + config.stack + config.rows

    @property
    def sweep_roots(self) -> int:
        """Positions in a chunk of a sweep, never more than are stored when learning begins."""
        return min(self.config.reanalysis.roots, self.config.random_interactions)

    def example(self) -> Array:
        """A stack of observations, ``[1, S, ...]``, for the shapes."""
        return jnp.zeros((1, self.config.stack, *self.spaces.shape), self.spaces.dtype)


def make_training_env(config: TrainConfig) -> gym.vector.VectorEnv[Any, Any, Any]:
    """The environments of a run."""
    env = make_vector(config.env, config.envs, training=True, max_steps=config.max_steps)
    check_supported(env)
    return env


def build_system(config: TrainConfig, spaces: Spaces) -> System:
    """Build the model, the search and the learner of a run."""
    model = build_model(config.model, spaces.shape, spaces.num_actions)
    planner = Planner(
        model=model,
        config=config.search.resolved(spaces.num_actions),
        discount=config.discount,
        prefix_horizon=config.learner.prefix_horizon,
    )
    pixels = spaces.dtype == np.uint8 and len(spaces.shape) == 3
    augment = pixels if config.learner.augment is None else config.learner.augment
    learner = Learner(
        planner=planner,
        config=config.learner,
        reanalysis=config.reanalysis,
        replay=config.replay,
        stack=config.stack,
        total_updates=max(1, config.total_updates),
        augment=augment,
    )
    return System(config, spaces, planner, learner)


def run_key(seed: int, stream: int) -> Array:
    """The random key of one of a run's streams."""
    return jax.random.fold_in(jax.random.key(seed), stream)


STREAM_WEIGHTS, STREAM_ACTING, STREAM_LEARNING, STREAM_SWEEPS, STREAM_EVALUATION = range(5)
