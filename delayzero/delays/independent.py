"""Laws of independent delays, in steps."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from delayzero.delays.law import (
    DelayError,
    Law,
    Memory,
    Unit,
    check_distribution,
    check_steps,
    cumulative,
    number_text,
    parse_number,
    parse_whole,
)


@dataclass(frozen=True)
class Constant(Law):
    """Every decision takes ``delay`` steps: ``constant:5``."""

    name: ClassVar[str] = "constant"
    example: ClassVar[str] = "constant:5"
    leading: ClassVar[str | None] = "delay"

    delay: int

    def __post_init__(self) -> None:
        check_steps("the delay", self.delay)

    @property
    def largest(self) -> float:
        return self.delay

    def path(
        self, rng: np.random.Generator, steps: int, memory: Memory | None, period: float
    ) -> tuple[NDArray[Any], Memory]:
        return np.full(steps, self.delay), ()


@dataclass(frozen=True)
class Uniform(Law):
    """Independent delays, uniform over ``low .. high`` inclusive: ``uniform:0-5``."""

    name: ClassVar[str] = "uniform"
    example: ClassVar[str] = "uniform:0-5"

    low: int
    high: int

    def __post_init__(self) -> None:
        check_steps("the smallest delay", self.low)
        check_steps("the largest delay", self.high)
        if self.low > self.high:
            raise DelayError(
                f"the range {self.low}-{self.high} is empty; put the smaller delay first"
            )

    @property
    def largest(self) -> float:
        return self.high

    def path(
        self, rng: np.random.Generator, steps: int, memory: Memory | None, period: float
    ) -> tuple[NDArray[Any], Memory]:
        return rng.integers(self.low, self.high, steps, endpoint=True), ()

    def arguments(self) -> str:
        return f"{self.low}-{self.high}"

    @classmethod
    def from_arguments(cls, text: str) -> Law:
        bounds = re.fullmatch("(-?[^-]+)-(.+)", text)
        if bounds is None:
            raise DelayError(f"'{text}' should be a range LOW-HIGH")
        low, high = bounds.groups()
        return cls(parse_whole(low, "the smallest delay"), parse_whole(high, "the largest delay"))


@dataclass(frozen=True)
class Categorical(Law):
    """Independent delays with given probabilities: ``categorical:1=0.3,2=0.7``."""

    name: ClassVar[str] = "categorical"
    example: ClassVar[str] = "categorical:1=0.3,2=0.7"

    delays: tuple[int, ...]
    probabilities: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.delays or len(self.delays) != len(self.probabilities):
            raise DelayError("categorical needs one probability for each delay")
        for delay in self.delays:
            check_steps("a delay", delay)
        if len(set(self.delays)) < len(self.delays):
            raise DelayError("a delay is given twice")
        check_distribution("categorical", self.probabilities)

    @property
    def largest(self) -> float:
        return max(self.delays)

    def path(
        self, rng: np.random.Generator, steps: int, memory: Memory | None, period: float
    ) -> tuple[NDArray[Any], Memory]:
        chance = rng.random(steps)
        drawn = np.searchsorted(cumulative(self.probabilities), chance, side="right")
        return np.asarray(self.delays)[drawn], ()

    def arguments(self) -> str:
        pairs = zip(self.delays, self.probabilities, strict=True)
        return ",".join(f"{delay}={number_text(p)}" for delay, p in pairs)

    @classmethod
    def from_arguments(cls, text: str) -> Law:
        delays, probabilities = [], []
        for part in text.split(","):
            delay, equals, probability = part.partition("=")
            if not equals:
                raise DelayError(f"'{part}' should be DELAY=PROBABILITY")
            delays.append(parse_whole(delay, "a delay"))
            probabilities.append(parse_number(probability, f"the probability of {delay}"))
        return cls(tuple(delays), tuple(probabilities))


@dataclass(frozen=True)
class PerEpisode(Law):
    """One draw of another law, held for a whole episode: ``per-episode:uniform:0-4``."""

    name: ClassVar[str] = "per-episode"
    example: ClassVar[str] = "per-episode:uniform:0-4"

    law: Law

    def __post_init__(self) -> None:
        if not self.law.name:
            raise DelayError(
                "per-episode holds one law; hold each part of a sum, and hold a latency before it "
                "is converted to steps"
            )
        if self.law.closed_loop or self.law.remembers:
            raise DelayError(
                f"per-episode takes a law of independent delays such as uniform:0-4, "
                f"not '{self.law}'"
            )

    @property
    def largest(self) -> float | None:
        return self.law.largest

    @property
    def unit(self) -> Unit:
        return self.law.unit

    @property
    def restarts(self) -> bool:
        return True

    @property
    def remembers(self) -> bool:
        return True

    def path(
        self, rng: np.random.Generator, steps: int, memory: Memory | None, period: float
    ) -> tuple[NDArray[Any], Memory]:
        value = self.law.path(rng, 1, None, period)[0][0] if memory is None else memory[0]
        held = np.full(steps, value)
        return held if self.unit == "ms" else held.astype(int), (float(value),)

    def arguments(self) -> str:
        return str(self.law)

    @classmethod
    def from_arguments(cls, text: str) -> Law:
        from delayzero.delays.text import parse_term

        if text.partition(":")[0] == cls.name:  # thousands of them would exhaust the stack
            raise DelayError("per-episode can't hold another per-episode")
        return cls(parse_term(text))
