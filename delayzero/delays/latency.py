"""Latencies in milliseconds, and their conversion to steps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from delayzero.delays.law import (
    LARGEST_NUMBER,
    DelayError,
    Law,
    Memory,
    Unit,
    check_distribution,
    check_range,
    check_steps,
    cumulative,
    number_text,
)


class Latency(Law):
    """A law whose delays are in milliseconds; :class:`InSteps` converts it to steps."""

    @property
    def unit(self) -> Unit:
        return "ms"

    @property
    def largest(self) -> float | None:
        return None


@dataclass(frozen=True)
class Exponential(Latency):
    """``shift`` plus an exponential with the given mean: ``exponential:mean=10,shift=15``."""

    name: ClassVar[str] = "exponential"
    example: ClassVar[str] = "exponential:mean=10,shift=15@20ms,max=5"

    mean: float
    shift: float = 0.0

    def __post_init__(self) -> None:
        check_range("mean", self.mean, 0)
        check_range("shift", self.shift, 0)

    def path(
        self, rng: np.random.Generator, steps: int, memory: Memory | None, period: float
    ) -> tuple[NDArray[Any], Memory]:
        return self.shift + rng.exponential(self.mean, steps), ()


@dataclass(frozen=True)
class Gamma(Latency):
    """``shift`` plus a gamma: ``gamma:shape=1.9,scale=38,shift=25``."""

    name: ClassVar[str] = "gamma"
    example: ClassVar[str] = "gamma:shape=1.9,scale=38,shift=25@20ms,max=15"

    shape: float
    scale: float
    shift: float = 0.0

    def __post_init__(self) -> None:
        for field in ("shape", "scale", "shift"):
            check_range(field, getattr(self, field), 0)

    def path(
        self, rng: np.random.Generator, steps: int, memory: Memory | None, period: float
    ) -> tuple[NDArray[Any], Memory]:
        return self.shift + rng.gamma(self.shape, self.scale, steps), ()


@dataclass(frozen=True)
class LogNormal(Latency):
    """``shift`` plus exp of a normal(mu, sigma): ``lognormal:mu=4.47,sigma=0.47``."""

    name: ClassVar[str] = "lognormal"
    example: ClassVar[str] = "lognormal:mu=4.47,sigma=0.47@20ms,max=15"

    mu: float
    sigma: float
    shift: float = 0.0

    def __post_init__(self) -> None:
        check_range("mu", self.mu, -math.inf)
        check_range("sigma", self.sigma, 0)
        check_range("shift", self.shift, 0)

    def path(
        self, rng: np.random.Generator, steps: int, memory: Memory | None, period: float
    ) -> tuple[NDArray[Any], Memory]:
        return self.shift + rng.lognormal(self.mu, self.sigma, steps), ()


@dataclass(frozen=True)
class HyperExponential(Latency):
    """``shift`` plus one of several exponentials, chosen for each packet.

    ``hyperexponential:weights=0.8/0.2,means=10/150,shift=15``
    """

    name: ClassVar[str] = "hyperexponential"
    example: ClassVar[str] = "hyperexponential:weights=0.8/0.2,means=10/150,shift=15@20ms,max=25"

    weights: tuple[float, ...]
    means: tuple[float, ...]
    shift: float = 0.0

    def __post_init__(self) -> None:
        if len(self.weights) != len(self.means):
            raise DelayError(f"{len(self.weights)} weights for {len(self.means)} means")
        check_distribution("hyperexponential", self.weights)
        for mean in self.means:
            check_range("a mean", mean, 0)
        check_range("shift", self.shift, 0)

    def path(
        self, rng: np.random.Generator, steps: int, memory: Memory | None, period: float
    ) -> tuple[NDArray[Any], Memory]:
        branch = np.searchsorted(cumulative(self.weights), rng.random(steps), side="right")
        return self.shift + rng.exponential(size=steps) * np.asarray(self.means)[branch], ()


@dataclass(frozen=True)
class Jitter(Latency):
    """Normal jitter around a mean, correlated from packet to packet, never below ``floor``.

    ``jitter:mean=50,std=15,correlation=0.5``; the correlation is that of an AR(1) process.
    """

    name: ClassVar[str] = "jitter"
    example: ClassVar[str] = "jitter:mean=50,std=15,correlation=0.5@20ms,max=6"

    mean: float
    std: float
    correlation: float = 0.0
    floor: float = 0.0

    def __post_init__(self) -> None:
        check_range("mean", self.mean, 0)
        check_range("std", self.std, 0)
        check_range("correlation", self.correlation, 0, 1)
        check_range("floor", self.floor, 0)

    @property
    def remembers(self) -> bool:
        return True

    def path(
        self, rng: np.random.Generator, steps: int, memory: Memory | None, period: float
    ) -> tuple[NDArray[Any], Memory]:
        noise = rng.standard_normal(steps)
        keep = self.correlation
        fresh = math.sqrt(1 - keep * keep) * noise
        if memory is None:
            fresh[0], first = noise[0], 0.0  # start in the stationary distribution
        else:
            first = memory[0]
        values = np.array(
            list(accumulate(fresh.tolist(), lambda x, e: keep * x + e, initial=first))[1:]
        )
        return np.maximum(self.mean + self.std * values, self.floor), (float(values[-1]),)


@dataclass(frozen=True)
class MM1(Latency):
    """Waiting and service in an M/M/1 queue: ``mm1:service=5,load=0.8``.

    ``service`` is the mean time to serve one packet, ``load`` the utilisation. Successive decisions
    are successive customers, whatever the length of a step; their sojourn times follow Lindley's
    recursion. The queue starts empty.
    """

    name: ClassVar[str] = "mm1"
    example: ClassVar[str] = "mm1:service=5,load=0.8@20ms,max=10"

    service: float
    load: float

    def __post_init__(self) -> None:
        check_range("service", self.service, 0)
        if not 0 < self.load < 1:
            raise DelayError(f"load should be above 0 and below 1, not {self.load!r}")

    @property
    def remembers(self) -> bool:
        return True

    def path(
        self, rng: np.random.Generator, steps: int, memory: Memory | None, period: float
    ) -> tuple[NDArray[Any], Memory]:
        served, gaps = rng.exponential(self.service, (2, steps))
        # Wait of the next packet: W' = max(0, W + S - A), with the gap A to the next arrival.
        change = (served - gaps / self.load).tolist()
        first = 0.0 if memory is None else memory[0]
        waits = list(accumulate(change, lambda wait, c: max(0.0, wait + c), initial=first))
        return np.array(waits[:-1]) + served, (waits[-1],)


@dataclass(frozen=True)
class Outage(Latency):
    """A link that fails from time to time: ``outage:every=8500,longest=3000``.

    The link works for ``every`` milliseconds, fails for a time drawn uniformly from 0 to
    ``longest``, and so on. A packet sent during an outage waits for its end; any other takes no
    time. An outage is therefore usually added to another latency.
    """

    name: ClassVar[str] = "outage"
    example: ClassVar[str] = "outage:every=8500,longest=3000@20ms"

    every: float
    longest: float

    def __post_init__(self) -> None:
        check_range("every", self.every, 1)
        check_range("longest", self.longest, 0)

    @property
    def largest(self) -> float:
        return self.longest

    @property
    def remembers(self) -> bool:
        return True

    def path(
        self, rng: np.random.Generator, steps: int, memory: Memory | None, period: float
    ) -> tuple[NDArray[Any], Memory]:
        clock, length = memory or self._begin(rng)
        waits = np.zeros(steps)
        for index in range(steps):
            waits[index] = self.every + length - clock if clock >= self.every else 0.0
            clock += period
            if period > 1000 * (self.every + self.longest):
                clock, length = self._begin(rng)  # after many outages, any phase is equally likely
            while clock >= self.every + length:
                clock -= self.every + length
                length = rng.uniform(0, self.longest)
        return waits, (clock, length)

    def _begin(self, rng: np.random.Generator) -> tuple[float, float]:
        """Draw the time since the link recovered, and the length of the next outage."""
        length = rng.uniform(0, self.longest)
        return rng.uniform(0, self.every + length), length


@dataclass(frozen=True)
class InSteps(Law):
    """A latency in steps of ``period`` milliseconds, rounded up and clipped to ``limit`` steps.

    ``lognormal:mu=4.47,sigma=0.47@20ms,max=15``
    """

    latency: Law
    period: float
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.latency.unit != "ms":
            raise DelayError(f"'{self.latency}' is in steps already; remove @...ms")
        if self.latency.closed_loop:
            raise DelayError(f"'{self.latency}' looks at observations; make it return steps")
        check_range("the step in milliseconds", self.period, 1e-3)
        if self.limit is not None:
            check_steps("max", self.limit)

    @property
    def largest(self) -> float | None:
        if self.limit is not None:
            return self.limit
        longest = self.latency.largest
        return None if longest is None else int(self._in_steps(np.array(longest)))

    def how_to_bound(self) -> str:
        return f"give one: '{self},max=10', or max_delay=10"

    @property
    def restarts(self) -> bool:
        return self.latency.restarts

    @property
    def remembers(self) -> bool:
        return self.latency.remembers

    def path(
        self, rng: np.random.Generator, steps: int, memory: Memory | None, period: float
    ) -> tuple[NDArray[Any], Memory]:
        milliseconds, memory = self.latency.path(rng, steps, memory, self.period)
        return self._in_steps(milliseconds), memory

    def _in_steps(self, milliseconds: NDArray[Any]) -> NDArray[Any]:
        """Round up to steps; a whole number with a rounding error stays that number."""
        limit = LARGEST_NUMBER if self.limit is None else self.limit
        steps = np.ceil(milliseconds / self.period - 1e-9)
        return np.clip(steps, 0, limit).astype(int)

    def arguments(self) -> str:
        limit = "" if self.limit is None else f",max={self.limit}"
        return f"@{number_text(self.period)}ms{limit}"
