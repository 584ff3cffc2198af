"""What an environment shows and takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np


@dataclass(frozen=True)
class Spaces:
    """What an environment shows and takes."""

    shape: tuple[int, ...]
    """Of one observation."""
    dtype: np.dtype[Any]
    """Of one observation."""
    num_actions: int
    shares: bool = True
    """Whether the numbers of an observation are in [0, 1]; of uint8, when divided by 255."""

    @classmethod
    def of(cls, env: gym.vector.VectorEnv[Any, Any, Any]) -> Spaces:
        """Those of a vector environment."""
        seen, taken = env.single_observation_space, env.single_action_space
        assert isinstance(seen, gym.spaces.Box)
        assert isinstance(taken, gym.spaces.Discrete)
        dtype = np.dtype(np.float32) if seen.dtype == np.float64 else seen.dtype
        shares = seen.dtype == np.uint8 or bool(seen.low.min() >= 0 and seen.high.max() <= 1)
        return cls(tuple(seen.shape), np.dtype(dtype), int(taken.n), shares)
