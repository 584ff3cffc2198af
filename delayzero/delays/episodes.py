"""When episodes of a vector environment begin and end, and rows of its batches."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from delayzero.delays.law import DelayError

Mask = NDArray[np.bool_]


class EpisodeEnds:
    """Tells the true ends of episodes, which a reset follows, from lost lives, which none does.

    ALE's vector environment with ``life_loss_info=True`` reports ``terminated`` when a life is
    lost and plays on.
    """

    def __init__(self, life_loss_info: bool) -> None:
        self._life_loss_info = life_loss_info
        self._lives: NDArray[Any] | None = None
        self._frames: NDArray[Any] | None = None

    def begin(self, info: dict[str, Any]) -> None:
        """Take note of a reset's ``info``."""
        if self._life_loss_info and "lives" not in info:
            raise DelayError(
                "life_loss_info=True is for environments that report 'lives' in their info, "
                "such as ALE's with life_loss_info=True; this one does not"
            )
        self._note(info)

    def true_ends(
        self, terminated: Mask, truncated: Mask, info: dict[str, Any], reset: Mask
    ) -> Mask:
        """Which environments ended an episode in this step, so that a reset follows.

        Args:
            terminated: As the step returned it, ``[N]``.
            truncated: As the step returned it, ``[N]``.
            info: As the step returned it.
            reset: Which environments this step should have reset (NEXT_STEP autoreset), ``[N]``.
        """
        frames = info.get("episode_frame_number")
        if frames is not None and self._frames is not None:
            played_on = reset & (frames > self._frames)
            if played_on.any():
                raise DelayError(
                    f"environment {int(played_on.argmax())} was not reset after it had ended: it "
                    "reports lost lives as ends; give life_loss_info=True"
                )
        ends: Mask = np.logical_or(terminated, truncated)
        if self._life_loss_info:
            lives = info["lives"]
            # Where the game is over, no life is left or, after a reset, there are more again.
            lost = (lives < self._lives) & (lives > 0)
            ends = ends & (np.asarray(truncated) | ~lost)
        self._note(info)
        return ends

    def state(self) -> dict[str, Any]:
        """The exact state; :meth:`restore` continues from it."""
        return {"lives": self._lives, "frames": self._frames}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue exactly from a state."""
        self._lives, self._frames = state["lives"], state["frames"]

    def _note(self, info: dict[str, Any]) -> None:
        # Copies: an environment may reuse its arrays.
        lives, frames = info.get("lives"), info.get("episode_frame_number")
        self._lives = None if lives is None else np.array(lives)
        self._frames = None if frames is None else np.array(frames)


def autoreset_mode(env: VectorEnv[Any, Any, Any]) -> AutoresetMode:
    """The autoreset mode of a vector environment, from its metadata."""
    mode = env.metadata.get("autoreset_mode")
    if not isinstance(mode, AutoresetMode):
        raise DelayError(
            f"{env} does not say when it resets; set metadata['autoreset_mode'] to one of "
            "gymnasium.vector.AutoresetMode"
        )
    return mode


def reset_mask(options: dict[str, Any] | None, num_envs: int) -> Mask:
    """Which environments a reset concerns."""
    if options is None or "reset_mask" not in options:
        return np.ones(num_envs, bool)
    return np.array(options["reset_mask"], bool)


def row_seeds(seed: Any, num_envs: int) -> list[int | None]:
    """The seed of each environment, as Gymnasium's vector environments give them out."""
    if seed is None:
        return [None] * num_envs
    if isinstance(seed, (int, np.integer)):
        return [int(seed) + i for i in range(num_envs)]
    return [None if value is None else int(value) for value in seed]


def take_rows(batch: Any, rows: Any) -> Any:
    """The given rows of a batch of observations: arrays, or dicts and tuples of arrays."""
    if isinstance(batch, dict):
        return {key: take_rows(value, rows) for key, value in batch.items()}
    if isinstance(batch, tuple):
        return tuple(take_rows(value, rows) for value in batch)
    return batch[rows]
