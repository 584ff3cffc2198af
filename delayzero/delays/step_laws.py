"""Delay laws in steps of the environment."""

from __future__ import annotations

import importlib
import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from delayzero.delays.law import (
    Context,
    DelayError,
    Law,
    Memory,
    Unit,
    check_distribution,
    check_range,
    check_steps,
    cumulative,
    nearest,
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
    """Independent delays, uniform over ``low .. high``, both included: ``uniform:0-5``."""

    name: ClassVar[str] = "uniform"
    example: ClassVar[str] = "uniform:0-5"

    low: int
    high: int

    def __post_init__(self) -> None:
        check_steps("the smallest delay", self.low)
        check_steps("the largest delay", self.high)
        if self.low > self.high:
            raise DelayError(f"the range {self.low}-{self.high} is empty; the smaller comes first")

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
class Walk(Law):
    """The paper's clipped random walk on ``0 .. limit``: ``walk:15``.

    Each step the delay goes up by ``step`` with probability ``up``, down by ``step`` with
    probability ``down``, and is clipped to the range. It begins at ``start`` (the limit unless
    given), once: it is not reset between episodes.
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

    The text gives ``FROM-TO=PROBABILITY`` for each transition that can happen. The chain begins at
    ``start``, or at the first delay named.
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
                raise DelayError(f"the row of delay {delay} has {len(row)} entries")
            check_distribution(f"the transitions from delay {delay}", row)
        if self.start is not None and self.start not in self.delays:
            raise DelayError(f"start={self.start} is none of the delays {self.delays}")

    @property
    def largest(self) -> float:
        return max(self.delays)

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
                raise DelayError(f"delay {reached} is reached but has no transitions of its own")
        matrix = tuple(tuple(entries.get((a, b), 0.0) for b in delays) for a in delays)
        return cls(delays, matrix, start)


@dataclass(frozen=True)
class GilbertElliott(Law):
    """Two-state channel: ``gilbert-elliott:good=1,bad=23,p=0.02,r=0.1``.

    In the good state a decision takes ``good`` steps, in the bad state ``bad`` steps; ``p`` is the
    probability of going from good to bad at each step, ``r`` of going back. A decision is lost
    with probability ``loss_good`` or ``loss_bad``; a lost one gets the delay ``lost``, so that it
    runs only if nothing newer arrives for that long. The channel begins good.
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
            raise DelayError("a channel that loses decisions needs lost=STEPS, their delay")

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

    def path(
        self, rng: np.random.Generator, steps: int, memory: Memory | None, period: float
    ) -> tuple[NDArray[Any], Memory]:
        chance, losses = rng.random((2, steps))
        if memory is None:
            chance[0] = 1.0  # the first decision stays in the state it begins in
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


@dataclass(frozen=True)
class PerEpisode(Law):
    """One draw of another law, held for a whole episode: ``per-episode:uniform:0-4``."""

    name: ClassVar[str] = "per-episode"
    example: ClassVar[str] = "per-episode:uniform:0-4"

    law: Law

    def __post_init__(self) -> None:
        if not self.law.name:
            raise DelayError(
                "per-episode holds one law: hold each part of a sum, and a latency before it is "
                "turned into steps"
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

        return cls(parse_term(text))


Sees = Literal["observation", "decision"]


@dataclass(frozen=True)
class Callback(Law):
    """A delay computed by a function: ``callback:package.module.function,max=5``.

    The function gets a :class:`~delayzero.delays.Context` and returns a whole number of steps.
    With ``sees="observation"`` it is called before the decision and the context's action is the
    previous one. With ``sees="decision"`` it is called after it, with the action just decided (a
    planner that thinks longer about some moves, say); the delay can then not be revealed before.
    """

    name: ClassVar[str] = "callback"
    example: ClassVar[str] = "callback:package.module.function,max=5"

    function: Callable[[Context], int]
    limit: int
    sees: Sees = "observation"

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise DelayError(f"the callback should be a function, not {self.function!r}")
        check_steps("the largest delay of the callback", self.limit)
        if self.sees not in ("observation", "decision"):
            raise DelayError(f"sees='{self.sees}' should be 'observation' or 'decision'")

    @property
    def largest(self) -> float:
        return self.limit

    @property
    def closed_loop(self) -> bool:
        return True

    @property
    def sees_decision(self) -> bool:
        return self.sees == "decision"

    def draw(self, context: Context) -> float:
        return self.function(context)

    def path(
        self, rng: np.random.Generator, steps: int, memory: Memory | None, period: float
    ) -> tuple[NDArray[Any], Memory]:
        return np.zeros(steps, dtype=int), ()  # nothing of it is known ahead

    def arguments(self) -> str:
        path = f"{self.function.__module__}.{getattr(self.function, '__qualname__', '?')}"
        sees = "" if self.sees == "observation" else f",sees={self.sees}"
        return f"{path},max={self.limit}{sees}"

    @classmethod
    def from_arguments(cls, text: str) -> Law:
        path, *options = text.split(",")
        values: dict[str, str] = {}
        for key, _, value in (option.partition("=") for option in options):
            if key not in ("max", "sees"):
                raise DelayError(f"'{key}' is no option of callback{nearest(key, ['max', 'sees'])}")
            if key in values:
                raise DelayError(f"'{key}' is given twice")
            values[key] = value
        if "max" not in values:
            raise DelayError("callback needs max=STEPS, the largest delay that it returns")
        module, _, function = path.rpartition(".")
        try:
            found = getattr(importlib.import_module(module), function)
        except (ImportError, AttributeError, ValueError) as error:
            raise DelayError(f"'{path}' can't be imported: {error}") from None
        sees: Any = values.get("sees", "observation")
        return cls(found, parse_whole(values["max"], "max"), sees)
