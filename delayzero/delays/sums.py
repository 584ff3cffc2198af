"""Sums of delay laws: sensor + network + computation + actuator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delayzero.delays.law import Context, DelayError, Law, Memory, Unit


@dataclass(frozen=True)
class Sum(Law):
    """The sum of several independent delays: ``constant:1+walk:4``.

    All parts have the same unit. Milliseconds are added before they are converted to steps:
    ``exponential:mean=5+outage:every=8500,longest=3000@20ms,max=40``.
    """

    parts: tuple[Law, ...]

    def __post_init__(self) -> None:
        flat = (p.parts if isinstance(p, Sum) else (p,) for p in self.parts)
        object.__setattr__(self, "parts", tuple(part for parts in flat for part in parts))
        if len(self.parts) < 2:
            raise DelayError("a sum needs two laws or more")
        if len({part.unit for part in self.parts}) > 1:
            raise DelayError(
                "steps and milliseconds can't be added; convert the milliseconds to steps: "
                "'exponential:mean=5@20ms,max=3+constant:1'"
            )
        if self.restarts:
            for part in self.parts:
                if part.remembers and not part.restarts:
                    raise DelayError(
                        f"'{part}' continues across episodes and can't be added to a law that "
                        "restarts in each"
                    )

    @property
    def largest(self) -> float | None:
        bounds = [part.largest for part in self.parts]
        finite = [bound for bound in bounds if bound is not None]
        return sum(finite) if len(finite) == len(bounds) else None

    @property
    def unit(self) -> Unit:
        return self.parts[0].unit

    def how_to_bound(self) -> str:
        part = next(part for part in self.parts if part.largest is None)
        return f"'{part}' has none; {part.how_to_bound()}"

    @property
    def restarts(self) -> bool:
        return any(part.restarts for part in self.parts)

    @property
    def remembers(self) -> bool:
        return any(part.remembers for part in self.parts)

    @property
    def closed_loop(self) -> bool:
        return any(part.closed_loop for part in self.parts)

    @property
    def sees_decision(self) -> bool:
        return any(part.sees_decision for part in self.parts)

    def draw(self, context: Context) -> float:
        return sum(part.draw(context) for part in self.parts)

    def path(
        self, rng: np.random.Generator, steps: int, memory: Memory | None, period: float
    ) -> tuple[NDArray[Any], Memory]:
        total: NDArray[Any] = np.zeros(steps)
        remembered: list[Memory] = []
        for part, old in zip(self.parts, self._split(memory), strict=True):
            delays, new = part.path(rng, steps, old, period)
            total = total + delays
            remembered.append(new)
        # Each part's memory follows its length, so that the flat tuple can be split again.
        flat = tuple(value for new in remembered for value in (float(len(new)), *new))
        if not any(remembered):
            flat = ()
        return total if self.unit == "ms" else total.astype(int), flat

    def _split(self, memory: Memory | None) -> list[Memory | None]:
        if not memory:
            return [memory] * len(self.parts)
        parts: list[Memory | None] = []
        position = 0
        for _ in self.parts:
            end = position + 1 + int(memory[position])
            parts.append(memory[position + 1 : end])
            position = end
        return parts
