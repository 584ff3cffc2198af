"""Evaluation: separate environments, no noise, raw scores, whole episodes.

Episodes are split over the environments beforehand. Taking the first to finish instead would
count short episodes, the bad ones in most games, too often.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from delayzero.agents import act, first_stack
from delayzero.envs.make import make_vector
from delayzero.training.system import STREAM_EVALUATION, System, run_key

SEED = 1_000_000
"""Added to a run's seed for its evaluation, whose environments are never those of training."""


class Episode(NamedTuple):
    """One episode of an evaluation."""

    env: int
    """Which environment played it."""
    number: int
    """Its place among that environment's episodes."""
    score: float
    """The sum of its raw rewards."""
    length: int
    """Its steps."""
    truncated: bool
    """Whether the time limit cut it off."""


class Evaluator:
    """Plays episodes with given weights; compiled once for all evaluations of a run."""

    def __init__(
        self,
        system: System,
        episodes: int,
        *,
        envs: int | None = None,
        max_steps: int | None = None,
    ) -> None:
        """Prepare.

        Args:
            system: What to evaluate.
            episodes: How many.
            envs: Environments side by side; one for each episode by default.
            max_steps: Steps after which an episode is cut off; by default the environment's limit.
        """
        self._system, self._episodes, self._max_steps = system, episodes, max_steps
        self._envs = min(envs or episodes, episodes)
        self._act = jax.jit(functools.partial(act, system.planner, explore=False))

    def play(
        self, variables: Any, seed: int, advance: Callable[[int], None] | None = None
    ) -> list[Episode]:
        """Play all episodes.

        Args:
            variables: The model's.
            seed: Of the environments.
            advance: Called with the number of episodes that ended, for a bar of progress.
        """
        config, spaces, count = self._system.config, self._system.spaces, self._envs
        quota = _split(self._episodes, count)
        env = make_vector(config.env, count, training=False, max_steps=self._max_steps)
        key = run_key(seed, STREAM_EVALUATION)
        stack = first_stack(count, config.stack, spaces.shape, spaces.dtype)
        observation, _ = env.reset(seed=SEED + seed)
        first, final = np.ones(count, bool), np.zeros(count, bool)
        scores, lengths = np.zeros(count), np.zeros(count, np.int64)
        played: list[list[Episode]] = [[] for _ in range(count)]
        time = 0
        while any(len(mine) < n for mine, n in zip(played, quota, strict=True)):
            seen = np.array(observation, spaces.dtype)
            stack, found = self._act(variables, stack, seen, first, jax.random.fold_in(key, time))
            observation, reward, terminated, truncated, _ = env.step(np.asarray(found.action))
            scores, lengths = scores + reward, lengths + ~final
            ended, time = terminated | truncated, time + 1
            for i in np.flatnonzero(ended):
                if len(played[i]) < quota[i]:
                    ending = Episode(
                        env=int(i),
                        number=len(played[i]),
                        score=float(scores[i]),
                        length=int(lengths[i]),
                        truncated=bool(truncated[i] and not terminated[i]),
                    )
                    played[i].append(ending)
                    if advance is not None:
                        advance(1)
                scores[i], lengths[i] = 0.0, 0
            first, final = final, ended
        env.close()
        return [episode for mine in played for episode in mine]


def summary(episodes: Sequence[Episode]) -> dict[str, Any]:
    """The mean score, its standard error (None for one episode), the extremes, the mean length."""
    scores = np.array([episode.score for episode in episodes])
    spread = scores.std(ddof=1) / math.sqrt(len(scores)) if len(scores) > 1 else None
    return {
        "episodes": len(scores),
        "score": float(scores.mean()),
        "standard_error": spread if spread is None else float(spread),
        "lowest": float(scores.min()),
        "highest": float(scores.max()),
        "length": float(np.mean([episode.length for episode in episodes])),
        "truncated": sum(episode.truncated for episode in episodes),
    }


def _split(episodes: int, envs: int) -> list[int]:
    """How many episodes each environment plays: the same, or one more."""
    return [episodes // envs + (i < episodes % envs) for i in range(envs)]
