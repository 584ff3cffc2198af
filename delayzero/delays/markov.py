"""Laws with memory, in steps: the walk, Markov chains, the Gilbert-Elliott channel."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from delayzero.delays.law import (
    DelayError,
    Law,
    Memory,
    check_distribution,
    check_range,
    check_steps,
    cumulative,
    number_text,
    parse_number,
    parse_whole,
)


@dataclass(frozen=True)
class Walk(Law):
    """The paper's clipped random walk on ``0 .. limit``: ``walk:15``.

    At each step the delay rises by ``step`` with probability ``up``, falls by ``step`` with
    probability ``down``, and is clipped to the range. It starts at ``start``, by default the limit,
    and is not reset between episodes.
    """

    name: ClassVar[str] = "walk"
    example: ClassVar[str] = "walk:15,up=0.2,down=0.2,step=1,start=15"
    leading: ClassVar[str | None] = "limit"

    limit: int
    up: float = 0.2
    down: float = 0.2
    step: int = 1
    start: int | None = None

    def __post_init__(self) -> None:
        check_steps("the largest delay of the walk", self.limit)
        check_steps("step", self.step, low=1)
        check_range("up", self.up, 0, 1)
        check_range("down", self.down, 0, 1)
        if self.up + self.down > 1:
            raise DelayError(f"up + down should be at most 1, not {self.up + self.down:g}")
        if self.start is not None:
            check_steps("start", self.start)
            check_range("start", self.start, 0, self.limit)

    @property
    def largest(self) -> float:
        return self.limit

    @property
    def remembers(self) -> bool:
        return True

    def path(
        self, rng: np.random.Generator, steps: int, memory: Memory | None, period: float
    ) -> tuple[NDArray[Any], Memory]:
        chance = rng.random(steps)
        moves = self.step * ((chance < self.up).astype(int) - (chance >= 1 - self.down))
        if memory is None:
            first = self.limit if self.start is None else self.start
            moves[0] = 0
        else:
            first = int(memory[0])
        limit = self.limit
        delays = list(
            accumulate(moves.tolist(), lambda z, move: min(max(z + move, 0), limit), initial=first)
        )[1:]
        return np.array(delays), (float(delays[-1]),)


@dataclass(frozen=True)
class MarkovChain(Law):
    """A Markov chain over delay values: ``markov:0-0=0.9,0-4=0.1,4-0=0.5,4-4=0.5``.

    The text gives ``FROM-TO=PROBABILITY`` for each possible transition. The chain starts at
    ``start``, by default the first delay named.
    """

    name: ClassVar[str] = "markov"
    example: ClassVar[str] = "markov:0-0=0.9,0-4=0.1,4-0=0.5,4-4=0.5,start=0"

    delays: tuple[int, ...]
    matrix: tuple[tuple[float, ...], ...]
    start: int | None = None

    def __post_init__(self) -> None:
        if not self.delays or len(set(self.delays)) < len(self.delays):
            raise DelayError("markov needs one row for each of its delays, each named once")
        for delay in self.delays:
            check_steps("a delay", delay)
        if len(self.matrix) != len(self.delays):
            raise DelayError(f"{len(self.matrix)} rows for {len(self.delays)} delays")
        for delay, row in zip(self.delays, self.matrix, strict=True):
            if len(row) != len(self.delays):
                raise DelayError(
                    f"the row of delay {delay} has {len(row)} entries, not {len(self.delays)}"
                )
            check_distribution(f"the transitions from delay {delay}", row)
        if self.start is not None and self.start not in self.delays:
            raise DelayError(f"start={self.start} is not one of the delays {self.delays}")

    @property
    def largest(self) -> float:
        return max(self.delays)

    @property
    def remembers(self) -> bool:
        return True

    def path(
        self, rng: np.random.Generator, steps: int, memory: Memory | None, period: float
    ) -> tuple[NDArray[Any], Memory]:
        rows = [cumulative(row).tolist() for row in self.matrix]
        states: list[int] = []
        for chance in rng.random(steps).tolist():
            if memory is None and not states:
                state = 0 if self.start is None else self.delays.index(self.start)
            else:
                previous = states[-1] if states else int((memory or (0,))[0])
                state = bisect_right(rows[previous], chance)
            states.append(state)
        return np.asarray(self.delays)[states], (float(states[-1]),)

    def arguments(self) -> str:
        parts = [
            f"{delay}-{other}={number_text(p)}"
            for delay, row in zip(self.delays, self.matrix, strict=True)
            for other, p in zip(self.delays, row, strict=True)
            if p or delay == other  # the diagonal keeps the order of the delays
        ]
        return ",".join(parts + ([] if self.start is None else [f"start={self.start}"]))

    @classmethod
    def from_arguments(cls, text: str) -> Law:
        start, entries = None, {}
        for part in text.split(","):
            key, equals, value = part.partition("=")
            source, dash, target = key.partition("-")
            if key == "start" and start is not None:
                raise DelayError("'start' is given twice")
            if key == "start":
                start = parse_whole(value, "start")
            elif equals and dash:
                move = (parse_whole(source, "a delay"), parse_whole(target, "a delay"))
                if move in entries:
                    raise DelayError(f"'{key}' is given twice")
                entries[move] = parse_number(value, f"the probability of {key}")
            else:
                raise DelayError(f"'{part}' should be FROM-TO=PROBABILITY")
        delays = tuple(dict.fromkeys(source for source, _ in entries))
        for _, reached in entries:
            if reached not in delays:
                raise DelayError(f"delay {reached} can be reached but has no transitions")
        matrix = tuple(tuple(entries.get((a, b), 0.0) for b in delays) for a in delays)
        return cls(delays, matrix, start)


@dataclass(frozen=True)
class GilbertElliott(Law):
    """A channel with two states: ``gilbert-elliott:good=1,bad=23,p=0.02,r=0.1``.

    A decision takes ``good`` steps in the good state and ``bad`` steps in the bad state. At each
    step the channel goes from good to bad with probability ``p`` and back with probability ``r``.
    A decision is lost with probability ``loss_good`` or ``loss_bad``. A lost decision gets the
    delay ``lost``: it runs only if nothing newer arrives for that long. The channel starts good.
    """

    name: ClassVar[str] = "gilbert-elliott"
    example: ClassVar[str] = "gilbert-elliott:good=1,bad=23,p=0.02,r=0.1"

    good: int
    bad: int
    p: float
    r: float
    loss_good: float = 0.0
    loss_bad: float = 0.0
    lost: int | None = None

    def __post_init__(self) -> None:
        check_steps("good", self.good)
        check_steps("bad", self.bad)
        for name in ("p", "r", "loss_good", "loss_bad"):
            check_range(name, getattr(self, name), 0, 1)
        if self.lost is not None:
            check_steps("lost", self.lost)
        elif self.loss_good or self.loss_bad:
            raise DelayError(
                "a channel that loses decisions needs lost=STEPS, the delay of a lost one"
            )

    @classmethod
    def from_moments(
        cls, good: int, bad: int, bad_fraction: float, correlation: float
    ) -> GilbertElliott:
        """Fit p and r to the fraction of time spent bad and the lag-1 autocorrelation."""
        check_range("bad_fraction", bad_fraction, 0, 1)
        check_range("correlation", correlation, 0, 1)
        change = 1 - correlation
        return cls(good, bad, p=bad_fraction * change, r=(1 - bad_fraction) * change)

    @property
    def largest(self) -> float:
        return max(self.good, self.bad, self.lost or 0)

    @property
    def remembers(self) -> bool:
        return True

    def path(
        self, rng: np.random.Generator, steps: int, memory: Memory | None, period: float
    ) -> tuple[NDArray[Any], Memory]:
        chance, losses = rng.random((2, steps))
        if memory is None:
            chance[0] = 1.0  # the first decision stays in the starting state
        bad = list(
            accumulate(
                chance.tolist(),
                lambda bad, u: u >= self.r if bad else u < self.p,
                initial=memory is not None and bool(memory[0]),
            )
        )[1:]
        is_bad = np.array(bad)
        lost = losses < np.where(is_bad, self.loss_bad, self.loss_good)
        delays = np.where(is_bad, self.bad, self.good)
        return np.where(lost, self.lost or 0, delays), (float(is_bad[-1]),)
