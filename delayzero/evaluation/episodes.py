"""Evaluation: separate environments, no exploration noise, raw scores, whole episodes.

Episodes are assigned to environments in advance. Taking the first to finish would favour short
episodes, which are the bad ones in most games.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from delayzero.arguments import UsageError
from delayzero.playing.environments import delayed, make_env
from delayzero.playing.streams import STREAM_EVALUATION, STREAM_EVALUATION_ENVS, run_key, run_seed
from delayzero.playing.system import System
from delayzero.progress import Advance, say
from delayzero.replay import Step
from delayzero.settings import DelaySettings

ENDLESS = 30_000
"""Steps without any end after which the user is told; Atari's limit is 27 000."""


class Episode(NamedTuple):
    """One episode of an evaluation."""

    env: int
    """Index of the environment that played it."""
    number: int
    """Index among that environment's episodes."""
    score: float
    """Sum of its raw rewards."""
    length: int
    """Number of its steps."""
    truncated: bool
    """Whether the time limit truncated it."""
    digest: int = 0
    """A checksum of its observations, executed actions and rewards: equal for equal episodes."""


class Evaluator:
    """Plays episodes with given weights; compiled once for all evaluations of a run."""

    def __init__(
        self,
        system: System,
        episodes: int,
        *,
        envs: int | None = None,
        max_steps: int | None = None,
        delay: str | None = None,
    ) -> None:
        """Make the environments.

        Args:
            system: The system to evaluate.
            episodes: The number of episodes.
            envs: Environments played in parallel; None: one for each episode.
            max_steps: Steps after which an episode is truncated; None: the environment's limit.
            delay: The delay law; None: the run's.

        Raises:
            UsageError: The agent cannot act under this law.
            gymnasium.error.Error: There would be too many environments side by side.
        """
        count = min(envs or episodes, episodes)
        base = make_env(
            system.config,
            count,
            training=False,
            max_steps=max_steps,
            foresees=system.agent.foresees,
        )
        self._system, self._quota = system, _split(episodes, count)
        delays = system.config.delays
        if delay is not None:
            delays = replace(delays or DelaySettings(), law=delay)
        self._delayed = delayed(base, delays)
        self._player = system.player(self._delayed, run_key(0, STREAM_EVALUATION), explore=False)

    def play(self, variables: Any, seed: int, advance: Advance | None = None) -> list[Episode]:
        """Play all episodes.

        Args:
            variables: The model's variables.
            seed: The seed of the environments, of their delays, and of an agent that decides at
                random.
            advance: Called after each step with the number of episodes that ended in it, and a
                text about progress.

        Raises:
            UsageError: A reward is not finite.
        """
        player, quota = self._player, self._quota
        player.begin(run_seed(seed, STREAM_EVALUATION_ENVS), run_key(seed, STREAM_EVALUATION))
        played: list[list[Episode]] = [[] for _ in quota]
        steps, digests = 0, [0] * len(quota)
        while any(len(done) < n for done, n in zip(played, quota, strict=True)):
            step, endings = player.step(variables)
            self._check_rewards(step)
            digests = _continued(digests, step)
            steps, ended = steps + 1, 0
            for env, score, length, truncated in endings:
                if len(played[env]) < quota[env]:
                    number = len(played[env])
                    episode = Episode(env, number, score, length, truncated, digests[env])
                    played[env].append(episode)
                    ended += 1
            if steps == ENDLESS and not any(played):
                say(f"no episode has ended in {steps} steps; to truncate them, type --max-steps N")
            if advance is not None:  # all episodes may end late, in the same step
                advance(ended, f"step {steps} of {len(quota)} parallel games")
        return [episode for done in played for episode in done]

    def _check_rewards(self, step: Step) -> None:
        wrong = step.reward[~np.isfinite(step.reward)]
        if wrong.size:
            name = self._system.config.env
            raise UsageError(
                f"a reward of the environment is {wrong[0]:g}, so its episode has no score; fix "
                f"{name}, or wrap it so that its rewards are finite"
            )

    def close(self) -> None:
        """Close the environments."""
        self._delayed.env.close()


def summary(episodes: Sequence[Episode]) -> dict[str, Any]:
    """Return mean score, standard error (None for one episode), extremes and mean length.

    ``distinct`` is the number of different episodes: in a deterministic environment a trained agent
    may play a few games again and again, and then the standard error says too little.
    """
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
        "distinct": len({episode.digest for episode in episodes}),
    }


def _continued(digests: Sequence[int], step: Step) -> list[int]:
    """Continue the digest of each environment's episode with a step; a first step begins anew."""
    following = []
    for i, digest in enumerate(digests):
        value = 0 if step.first[i] else digest
        for part in (step.observation[i], step.executed[i], step.reward[i]):
            value = zlib.crc32(np.ascontiguousarray(part).tobytes(), value)
        following.append(digest if step.final[i] else value)
    return following


def _split(episodes: int, envs: int) -> list[int]:
    """Return how many episodes each environment plays; the numbers differ by one at most."""
    return [episodes // envs + (i < episodes % envs) for i in range(envs)]
