"""What an environment shows and takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from delayzero.actions import ActionSpec


@dataclass(frozen=True)
class Spaces:
    """What an environment shows and takes."""

    shape: tuple[int, ...]
    """Of one observation."""
    dtype: np.dtype[Any]
    """Of one observation."""
    actions: ActionSpec
    unit_range: bool = True
    """Whether the numbers of an observation are in [0, 1] (uint8: after division by 255)."""

    @classmethod
    def of(cls, env: gym.vector.VectorEnv[Any, Any, Any]) -> Spaces:
        """Return the spaces of a vector environment with Box observations, Discrete actions."""
        observations, actions = env.single_observation_space, env.single_action_space
        assert isinstance(observations, gym.spaces.Box)
        assert isinstance(actions, gym.spaces.Discrete)
        dtype = observations.dtype
        low, high = observations.low.min(), observations.high.max()
        return cls(
            shape=tuple(observations.shape),
            dtype=np.dtype(np.float32 if dtype == np.float64 else dtype),
            actions=ActionSpec(int(actions.n)),
            unit_range=dtype == np.uint8 or bool(low >= 0 and high <= 1),
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain values from which :meth:`from_json` makes the same spaces."""
        return {
            "observation": {
                "shape": list(self.shape),
                "dtype": self.dtype.name,
                "unit_range": self.unit_range,
            },
            "actions": self.actions.count,
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Spaces:
        """Return the spaces that :meth:`to_json` described.

        Raises:
            ValueError: A value is missing, or of the wrong kind.
        """
        try:
            observation = values["observation"]
            return cls(
                shape=tuple(int(size) for size in observation["shape"]),
                dtype=np.dtype(observation["dtype"]),
                actions=ActionSpec(int(values["actions"])),
                unit_range=bool(observation["unit_range"]),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"no spaces: {error}") from None
