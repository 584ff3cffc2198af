"""Drawing from a delay law: one stream for one environment."""

from __future__ import annotations

from typing import Any

import numpy as np

from delayzero.delays.law import Context, DelayError, Law, Memory

BLOCK = 256
"""Delays drawn at once. It is part of what a seed fixes: another value gives other delays."""

_PATH, _DRAW = 0xDE1A, 0xDE1B  # separate the streams from each other and from environments'


class DelayStream:
    """The successive delays of one environment.

    The randomness depends only on the seed and a block counter. So the exact state is a few numbers
    (:meth:`state`), whatever the law.
    """

    def __init__(self, law: Law, seed: int, max_delay: int | None = None, number: int = 0) -> None:
        """Start a stream.

        Args:
            law: The law, in steps.
            seed: Equal seeds give equal delays.
            max_delay: The bound that delays are checked against; by default the law's.
            number: Distinguishes streams with the same seed, such as those of two wrappers.
        """
        self.law = law
        self._closed_loop = law.closed_loop
        self._number = number
        self.max_delay = law.max_delay if max_delay is None else max_delay
        self.reseed(seed)

    def reseed(self, seed: int) -> None:
        """Restart from a seed."""
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
            raise DelayError(f"the seed should be a whole number, 0 or more, not {seed!r}")
        self._seed = int(seed)
        self._load(block=0, memory=None)

    def restart(self) -> None:
        """Restart the law with fresh randomness, for laws that restart in every episode."""
        self._load(self._block + 1, None)

    def next(self, observation: Any = None, action: Any = None) -> int:
        """Return the delay of the next decision, in steps.

        Args:
            observation: The observation at that step, for closed-loop laws.
            action: The action that a closed-loop law sees (:class:`Context`).
        """
        if self._position == BLOCK:
            self._load(self._block + 1, self._memory_after)
        delay: int = self._delays[self._position]
        self._position += 1
        return self._closed(delay, observation, action, 0) if self._closed_loop else delay

    def again(self, observation: Any = None) -> int:
        """Return the last delay again, with a closed-loop law's part for another observation.

        This is for a new episode: the law has already drawn for the observation that ended the
        previous one.
        """
        delay: int = self._delays[self._position - 1]
        return self._closed(delay, observation, None, 1) if self._closed_loop else delay

    @property
    def used(self) -> bool:
        """Whether any delay has been drawn since the law started."""
        return self._position > 0 or self._memory_before is not None

    def state(self) -> dict[str, Any]:
        """Return the exact state as plain numbers; :meth:`restore` continues from it."""
        return {
            "seed": self._seed,
            "block": self._block,
            "position": self._position,
            "memory": None if self._memory_before is None else list(self._memory_before),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue exactly from a state of a stream of the same law."""
        self._seed = int(state["seed"])
        memory = state["memory"]
        self._load(int(state["block"]), None if memory is None else tuple(memory))
        self._position = int(state["position"])

    def _load(self, block: int, memory: Memory | None) -> None:
        """Draw a block of delays and go to its start."""
        self._block, self._memory_before, self._position = block, memory, 0
        delays, self._memory_after = self.law.path(self._rng((_PATH, block)), BLOCK, memory, 0.0)
        if np.shape(delays) != (BLOCK,):
            shape = np.shape(delays)
            raise DelayError(f"'{self.law}' gave delays of shape {shape}, not ({BLOCK},)")
        delays = np.asarray(delays)
        if delays.dtype.kind not in "iu":
            raise DelayError(f"'{self.law}' gave delays that are not whole steps: {delays.dtype}")
        for extreme in (delays.min(), delays.max()):
            self._check(extreme)
        self._delays = delays.tolist()

    def _closed(self, delay: int, observation: Any, action: Any, draw: int) -> int:
        """Add the closed-loop part to a delay."""
        key = (_DRAW, self._block, self._position, draw)
        extra: Any = self.law.draw(Context(observation, action, lambda: self._rng(key)))
        if isinstance(extra, float) and extra.is_integer():
            extra = int(extra)
        self._check(extra)
        self._check(delay + extra)
        return delay + int(extra)

    def _rng(self, key: tuple[int, ...]) -> np.random.Generator:
        key = (self._number, *key)
        return np.random.default_rng(np.random.SeedSequence(self._seed, spawn_key=key))

    def _check(self, delay: Any) -> None:
        if isinstance(delay, bool) or not isinstance(delay, (int, np.integer)):
            raise DelayError(f"'{self.law}' gave {delay!r}, not a whole number of steps")
        if not 0 <= delay <= self.max_delay:
            raise DelayError(
                f"'{self.law}' gave a delay of {delay} steps; "
                f"it should be between 0 and the largest delay, {self.max_delay}"
            )
