"""The time of a whole run, projected from a part of it at full size.

    python benchmarks/budget.py atari --env atari:Asterix --delay walk:15    (a GPU)
    python benchmarks/budget.py cartpole                                     (a CPU)
    python benchmarks/budget.py atari --env atari:Asterix --delay walk:25 --against constant:0

It takes the arguments of ``delayzero train``. The code of ``delayzero train`` makes some rounds of
self-play, some updates and some chunks of a sweep, with the replay allocated for the whole run, and
fewer of them where they would take minutes. The projection includes compiling, but no evaluations.

``--against LAW`` compares with another delay law instead. Rounds of self-play with their updates
alternate between the two laws in one process, since clock speeds drift. Printed are the geometric
mean of the ratios of neighbouring rounds and its standard error. Sweeps and the tail updates, which
do not depend on delay, would bring the ratio closer to one. Comparing a law with itself shows how
far the figure can be trusted.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from parts import report

from delayzero.arguments import UsageError
from delayzero.playing.actor import Actor
from delayzero.playing.environments import Environments
from delayzero.playing.system import build_system
from delayzero.settings import LearningConfig
from delayzero.settings.options import read_config
from delayzero.spaces import Spaces
from delayzero.training.collector import Collector
from delayzero.training.learning import copied
from delayzero.training.memory import peak_gigabytes
from delayzero.training.programs import Programs

CHUNKS = 8
"""Chunks of a sweep in one call."""
REPEATS = 6
"""Timed calls of each kind."""
CALL_SECONDS = 5.0
"""A call makes fewer updates or chunks if it would take longer."""
LIMIT_SECONDS = 30.0
"""No timed call begins later than this after the first of its kind."""
PAIRS = 16
"""Timed rounds under each of two laws."""
WARM_UP = 2
"""Untimed pairs of rounds before them."""


class Slice:
    """The parts of a run, compiled and ready to be timed."""

    def __init__(self, config: LearningConfig) -> None:
        self._config, self._env = config, Environments.of(config)
        self.system = build_system(config, Spaces.of(self._env.delayed.env))
        begun = time.monotonic()
        self.collector = Collector(self.system, Actor(self.system, self._env))
        say = functools.partial(print, file=sys.stderr)
        self.programs = Programs(self.system, say, self.collector.lowered)
        self.learner = self.programs.first_learner()
        self.replay = self.programs.first_replay()
        self.collector.begin()
        self._thread = ThreadPoolExecutor(1)
        self.key, self.position = jax.random.key(0), jnp.int32(0)
        self.play()
        jax.block_until_ready(self.replay.length)
        self.compile_seconds = time.monotonic() - begun
        while self.collector.interactions < config.random_interactions:
            self.play()

    def play(self) -> Any:
        """Play a round of self-play."""
        variables, updates = self.learner.variables, int(self.learner.updates)
        self.replay, _ = self.collector.collect(variables, self.replay, updates)
        return self.replay.length

    def play_and_update(self) -> Any:
        """Play a round of self-play, and make its updates meanwhile (overlap) or afterwards."""
        count = self._config.updates_per_round
        if not self._config.overlap:
            self.play()
            return self.update(count)
        variables, updates = copied(self.learner.variables), int(self.learner.updates)
        made = self._thread.submit(lambda: jax.block_until_ready(self.update(count)))
        played = self.collector.play(variables, updates)
        made.result()
        self.replay = self.collector.store(self.replay, played)
        return self.replay.length

    def update(self, count: int) -> Any:
        """Make a number of updates."""
        self.learner, self.replay, _ = self.programs.update(
            self.learner, self.replay, self.key, jnp.int32(count)
        )
        return self.learner.updates

    def sweep(self, count: int) -> Any:
        """Search a number of chunks of a sweep."""
        self.replay, self.position = self.programs.sweep(
            self.learner, self.replay, self.key, self.position, jnp.int32(count)
        )
        return self.position


def seconds(call: Callable[[], Any], repeats: int = REPEATS) -> float:
    """Return the mean time of a call, after one untimed call."""
    jax.block_until_ready(call())
    begun, done = time.monotonic(), 0
    while done < repeats and (done == 0 or time.monotonic() - begun < LIMIT_SECONDS):
        jax.block_until_ready(call())
        done += 1
    return (time.monotonic() - begun) / done


def each(call: Callable[[int], Any], most: int) -> tuple[float, int]:
    """Return the time per item of a call that makes several, and how many each call made."""
    alone = seconds(lambda: call(1), repeats=1)
    count = min(most, max(1, int(CALL_SECONDS / alone)))
    return seconds(lambda: call(count)) / count, count


def compared(config: LearningConfig, other: LearningConfig) -> dict[str, Any]:
    """Compare rounds of two configurations that differ in the delay law."""
    pieces = Slice(config), Slice(other)
    if len({type(piece.replay.frames) for piece in pieces}) > 1:
        raise UsageError("two replays do not fit into memory; type a smaller --replay.capacity")
    times = np.empty((WARM_UP + PAIRS, 2))
    for i, pair in enumerate(times):
        for k in (0, 1) if i % 2 else (1, 0):
            begun = time.monotonic()
            jax.block_until_ready(pieces[k].play_and_update())
            pair[k] = time.monotonic() - begun
    times = times[WARM_UP:]
    ratios = np.log(times[:, 0] / times[:, 1])
    return {
        "delay": config.law,
        "against": other.law,
        "updates_per_round": config.updates_per_round,
        "milliseconds": [round(1e3 * spent, 2) for spent in times.mean(0)],
        "ratio": round(float(np.exp(ratios.mean())), 4),
        "standard_error": round(float(ratios.std(ddof=1) / len(ratios) ** 0.5), 4),
    }


def projected(config: LearningConfig) -> dict[str, Any]:
    """Return the projected time of the whole run, and its parts."""
    piece, due = Slice(config), config.updates_per_round
    update, count = each(piece.update, due)
    if config.overlap and count == due:
        play = max(0.0, seconds(piece.play_and_update) - due * update)
    else:
        play = max(0.0, seconds(piece.play) - (due * update if config.overlap else 0.0))
    split = {
        "compiling": piece.compile_seconds,
        "playing": config.interactions / config.envs / config.rows * play,
        "updating": config.total_updates * update,
    }
    figures = {"round_milliseconds": play * 1e3, "update_milliseconds": update * 1e3}
    if piece.programs.sweep is not None:
        sweep, _ = each(piece.sweep, CHUNKS)
        searched = config.total_updates * piece.system.searching.reanalysis.positions_per_update
        split["sweeping"] = searched / piece.system.sweep_roots * sweep
        figures["sweep_milliseconds"] = sweep * 1e3
    return {
        "delay": config.law,
        "interactions": config.interactions,
        "updates": config.total_updates,
        **{name: round(figure, 3) for name, figure in figures.items()},
        "projected_seconds": {name: round(spent, 1) for name, spent in split.items()},
        "projected_minutes": round(sum(split.values()) / 60, 2),
        "updates_per_call": count,
        "peak_gigabytes": peak_gigabytes(),
    }


def _learning(words: list[str]) -> LearningConfig:
    """Return the settings that arguments describe.

    Raises:
        UsageError: The agent does not learn.
    """
    config = read_config(words)
    if not isinstance(config, LearningConfig):
        raise UsageError(f"--agent {config.agent} learns nothing; choose an agent that learns")
    return config


def main() -> None:
    """Measure, project and print."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--against")
    own, words = parser.parse_known_args()
    try:
        config = _learning(words)
        needed = 2 + (REPEATS if own.against is None else WARM_UP + PAIRS)
        rounds = (config.interactions - config.random_interactions) / config.envs / config.rows
        if not config.total_updates or rounds < needed:
            raise UsageError(
                f"the run is too short: it needs updates, and {needed} rounds or more after the "
                "random interactions; type a larger --interactions or --update-ratio"
            )
        if own.against is None:
            figures = projected(config)
        elif config.law is None:
            raise UsageError(f"--agent {config.agent} has no delay to compare; leave out --against")
        else:
            figures = compared(config, _learning([*words, "--delay", own.against]))
    except UsageError as error:
        sys.exit(f"budget: {error}")
    report("budget", {"options": sys.argv[1:], "env": config.env, **figures})


if __name__ == "__main__":
    main()
