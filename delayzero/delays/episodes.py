"""Vector environments: when their episodes begin and end, and rows of their batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from numpy.typing import NDArray

from delayzero.delays.channel import Channel
from delayzero.delays.law import DelayError

Mask = NDArray[np.bool_]


class EpisodeEnds:
    """Tells the ends of episodes, which a reset follows, from lost lives, which no reset follows.

    ALE's vector environment with ``life_loss_info=True`` reports ``terminated`` at a lost life and
    plays on. The environment does not reveal that setting; this class infers it from the lives.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], life_loss_info: bool) -> None:
        self._life_loss_info = life_loss_info
        self._same_step = autoreset_mode(env) == AutoresetMode.SAME_STEP
        self._plays_on = type(env.unwrapped).__name__ == "AtariVectorEnv"
        if life_loss_info and isinstance(env.unwrapped, (SyncVectorEnv, AsyncVectorEnv)):
            raise DelayError(
                "life_loss_info=True is for vector environments that play on after a lost life, "
                f"such as ALE's; {type(env.unwrapped).__name__} calls reset() instead. To end "
                "episodes at lost lives, use a wrapper outside the delay"
            )
        self._lives: NDArray[Any] | None = None
        self._lost = np.zeros(env.num_envs, bool)  # lost a life in the last step

    def begin(self, info: dict[str, Any], mask: Mask) -> None:
        """Read the lives from the ``info`` of a reset."""
        lives = info.get("lives")
        if self._life_loss_info and lives is None:
            raise DelayError(
                "life_loss_info=True is for environments that report 'lives' in their info, "
                "such as ALE's with life_loss_info=True; this one does not"
            )
        if lives is not None:
            self._lives = np.array(
                lives if self._lives is None else np.where(mask, lives, self._lives)
            )

    def true_ends(
        self, terminated: Mask, truncated: Mask, info: dict[str, Any], reset: Mask
    ) -> Mask:
        """Return which environments ended an episode in this step, ``[N]``.

        A reset follows such an end, or has already been made.

        Args:
            terminated: As the step returned it, ``[N]``.
            truncated: As the step returned it, ``[N]``.
            info: As the step returned it.
            reset: Which environments this step should have reset (NEXT_STEP autoreset), ``[N]``.
        """
        ends: Mask = np.logical_or(terminated, truncated)
        lives, before = info.get("lives"), self._lives
        if lives is None or before is None:
            return ends
        self._lives = np.array(lives)  # a copy: an environment may reuse its arrays
        if not ends.any() and not reset.any():
            self._lost[:] = False
            return ends
        # When a game is over, no life is left or, after a reset, there are more lives again.
        lost = np.asarray(terminated) & ~np.asarray(truncated) & (lives < before) & (lives > 0)
        if self._life_loss_info:
            return np.asarray(ends & ~lost)
        if self._plays_on:
            unreset = lost if self._same_step else reset & (before > 0) & (lives == before)
            if unreset.any() and (self._same_step or self._lost[unreset].any()):
                raise DelayError(
                    f"environment {int(unreset.argmax())} was not reset after its end: it reports "
                    "lost lives as ends; pass life_loss_info=True"
                )
            self._lost = lost
        return ends

    def state(self) -> dict[str, Any]:
        """Return the exact state; :meth:`restore` continues from it."""
        lives = None if self._lives is None else self._lives.copy()
        return {"lives": lives, "lost": self._lost.copy()}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue exactly from a state."""
        lives = state["lives"]
        self._lives = None if lives is None else np.array(lives)
        self._lost = np.array(state["lost"], bool)


def autoreset_mode(env: VectorEnv[Any, Any, Any]) -> AutoresetMode:
    """Return the autoreset mode of a vector environment, from its metadata."""
    mode = env.metadata.get("autoreset_mode")
    if not isinstance(mode, AutoresetMode):
        raise DelayError(
            f"{env} does not declare when it resets; set metadata['autoreset_mode'] to a member "
            "of gymnasium.vector.AutoresetMode"
        )
    return mode


def reset_rows(
    env: VectorEnv[Any, Any, Any],
    seed: Any,
    options: dict[str, Any] | None,
    channels: Sequence[Channel],
) -> tuple[Any, dict[str, Any], Mask]:
    """Reset environments, and reseed the delays of those that get a seed.

    Returns:
        The observations and the info of the reset, and which environments were reset.
    """
    mask = reset_mask(options, env.num_envs)
    inner = None if options is None else dict(options)  # vector environments modify it
    observations, info = env.reset(seed=seed, options=inner)
    seeds = row_seeds(seed, env.num_envs)
    for channel, row_seed, chosen in zip(channels, seeds, mask, strict=True):
        if chosen and row_seed is not None:
            channel.reseed(row_seed)
    return observations, info, mask


def reset_mask(options: dict[str, Any] | None, num_envs: int) -> Mask:
    """Return which environments a reset concerns, ``[N]``."""
    if options and options.get("keep_pending"):
        raise DelayError(
            "keep_pending is for single environments; vector environments play on by themselves"
        )
    if options is None or "reset_mask" not in options:
        return np.ones(num_envs, bool)
    return checked_mask(options["reset_mask"], num_envs)


def checked_mask(mask: Any, num_envs: int) -> Mask:
    """Validate a mask of environments and return a copy: booleans, ``[N]``."""
    array = np.asarray(mask)
    if array.dtype != np.bool_ or array.shape != (num_envs,):
        raise DelayError(
            f"expected a mask of {num_envs} booleans, one for each environment, not {mask!r}"
        )
    return array.copy()


def row_seeds(seed: Any, num_envs: int) -> list[int | None]:
    """Return the seed of each environment, as Gymnasium's vector environments assign them."""
    if seed is None:
        return [None] * num_envs
    if isinstance(seed, (int, np.integer)):
        return [int(seed) + i for i in range(num_envs)]
    return [None if value is None else int(value) for value in seed]


def take_rows(batch: Any, rows: Any) -> Any:
    """Return rows of a batch of observations: arrays, or dicts and tuples of arrays."""
    if isinstance(batch, dict):
        return {key: take_rows(value, rows) for key, value in batch.items()}
    if isinstance(batch, tuple):
        return tuple(take_rows(value, rows) for value in batch)
    return batch[rows]
