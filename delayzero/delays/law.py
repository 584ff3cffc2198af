"""Delay laws: how long each successive decision takes."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from delayzero.words import meant

Unit = Literal["steps", "ms"]
Memory = tuple[float, ...]
"""What a law remembers between two blocks of delays: plain numbers, which can be saved."""


LONGEST = 2000
"""The longest delay, in steps, that wrappers and agents support."""
LARGEST_NUMBER = 10**9
"""The largest whole number in the text of a law, and the longest delay in a trace."""


class DelayError(ValueError):
    """An invalid delay law or argument; the message says what is wrong and what to type."""


@dataclass
class Context:
    """What a closed-loop law may look at when it draws the next delay.

    Attributes:
        observation: The observation at the step whose delay is drawn.
        action: The action just decided, for laws that see the decision; otherwise the previous one.
        make_rng: Creates the random generator of this draw (see :attr:`rng`).
    """

    observation: Any = None
    action: Any = None
    make_rng: Callable[[], np.random.Generator] = np.random.default_rng

    @property
    def rng(self) -> np.random.Generator:
        """The generator of this draw, from the law's random stream; created at the first access."""
        rng = self.make_rng()
        self.make_rng = lambda: rng
        return rng


class Law(ABC):
    """A delay law: immutable, comparable by value, with a text form (``str(law)``).

    A law only describes. :class:`~delayzero.delays.DelayStream` draws from it and keeps its random
    stream and its memory. To write a new law, subclass this as a frozen dataclass and define
    :meth:`path` and :attr:`largest`.
    """

    name: ClassVar[str] = ""
    """The word that begins the law's text."""
    example: ClassVar[str] = ""
    """A valid text, shown in error messages."""
    leading: ClassVar[str | None] = None
    """The field that comes first in the text, without its name: the ``15`` of ``walk:15``."""

    @abstractmethod
    def path(
        self, rng: np.random.Generator, steps: int, memory: Memory | None, period: float
    ) -> tuple[NDArray[Any], Memory]:
        """Draw the delays of ``steps`` successive decisions.

        Args:
            rng: The random generator of this block.
            steps: The number of delays to draw.
            memory: What the previous block returned; None for the first block.
            period: Milliseconds between two decisions, for laws in milliseconds.

        Returns:
            The delays, shape ``[steps]``, in :attr:`unit`, and the memory for the next block.
        """

    @property
    @abstractmethod
    def largest(self) -> float | None:
        """The largest delay that the law can give, in its unit; None if it is unbounded."""

    @property
    def unit(self) -> Unit:
        """``"steps"``, or ``"ms"`` for a latency that still has to be converted to steps."""
        return "steps"

    @property
    def restarts(self) -> bool:
        """Whether the law restarts in every episode; most laws continue across episodes."""
        return False

    @property
    def closed_loop(self) -> bool:
        """Whether the law looks at observations or actions, so that it can't be drawn ahead."""
        return False

    @property
    def sees_decision(self) -> bool:
        """Whether the delay of a decision depends on the decision itself."""
        return False

    def draw(self, context: Context) -> float:
        """Return the part of the next delay that depends on the observation and the action.

        It is added to the delay from :meth:`path`. A closed-loop law returns its delay here.
        """
        return 0

    @property
    def max_delay(self) -> int:
        """M, the largest delay in steps: the length of the queue that the law needs."""
        if self.unit != "steps":
            raise DelayError(
                f"'{self}' is in milliseconds; give the length of a step: '{self}@20ms,max=10'"
            )
        if self.largest is None:
            raise DelayError(f"'{self}' has no largest delay; {self.how_to_bound()}")
        if self.largest > LONGEST:
            raise DelayError(
                f"'{self}' can give delays of {self.largest:.0f} steps; at most {LONGEST} are "
                "supported"
            )
        return int(self.largest)

    def how_to_bound(self) -> str:
        """Return the end of an error message: how to give this law a largest delay."""
        return "define its property largest"

    @property
    def remembers(self) -> bool:
        """Whether a delay depends on earlier ones, so that :meth:`path` uses its memory."""
        return False

    def arguments(self) -> str:
        """Return the law's text after its name, without fields at their defaults."""
        parts: list[str] = []
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if field.name == self.leading:
                parts.insert(0, _value_text(value))
            elif value != field.default:
                parts.append(f"{field.name}={_value_text(value)}")
        return ",".join(parts)

    @classmethod
    def from_arguments(cls, text: str) -> Law:
        """Make the law from its text after the name."""
        types = {field.name: str(field.type) for field in fields(cls)}  # type: ignore[arg-type]
        values: dict[str, Any] = {}
        for position, part in enumerate(text.split(",") if text else []):
            key, equals, value = part.partition("=")
            if not equals:
                if position or cls.leading is None:
                    raise DelayError(f"'{part}' should be name=value")
                key, value = cls.leading, part
            if key not in types:
                raise DelayError(f"unknown option '{key}' of {cls.name}{nearest(key, types)}")
            if key in values:
                raise DelayError(f"'{key}' is given twice")
            values[key] = _parse_value(key, value, types[key])
        required = [f.name for f in fields(cls) if not _has_default(f)]  # type: ignore[arg-type]
        missing = [name for name in required if name not in values]
        if missing:
            raise DelayError(f"{cls.name} needs {' and '.join(missing)}")
        return cls(**values)

    def __str__(self) -> str:
        from delayzero.delays.text import format_law

        return format_law(self)


def nearest(word: str, words: Any) -> str:
    """Return the end of an error message: the likely word, if there is one, and all valid ones."""
    guess = meant(word, words)
    choose = f"did you mean '{guess}'? Choose" if guess else "choose"
    return f"; {choose} from {', '.join(words)}"


def number_text(value: float) -> str:
    """Write a number in the shortest form that loses nothing."""
    return (
        str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))
    )


def parse_whole(text: str, what: str) -> int:
    """Read a whole number of steps, of at most :data:`LARGEST_NUMBER`."""
    match = re.fullmatch(r"([+-]?)0*([0-9]+)", text.strip())
    if match is None:
        raise DelayError(f"{what} should be a whole number, not '{_shortened(text)}'")
    if len(match[2]) > len(str(LARGEST_NUMBER)) or int(match[2]) > LARGEST_NUMBER:
        raise DelayError(f"{what} should be at most {LARGEST_NUMBER}, not {_shortened(text)}")
    return int(match[1] + match[2])


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."


def parse_number(text: str, what: str) -> float:
    """Read a finite number."""
    try:
        value = float(text)
    except ValueError:
        raise DelayError(f"{what} should be a number, not '{_shortened(text)}'") from None
    if not math.isfinite(value):
        raise DelayError(f"{what} should be a finite number, not '{_shortened(text)}'")
    return value


def check_steps(what: str, value: Any, low: int = 0) -> None:
    """Check a delay in steps: a whole number, at least ``low``."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise DelayError(f"{what} should be a whole number of steps, not {value!r}")
    if value < low:
        raise DelayError(f"{what} should be at least {low}, not {value}")


def check_range(what: str, value: float, low: float, high: float = LARGEST_NUMBER) -> None:
    """Check a number against a closed range."""
    if not isinstance(value, (int, float, np.number)) or not math.isfinite(value):
        raise DelayError(f"{what} should be a finite number, not {value!r}")
    if not low <= value <= high:
        bounds = f"between {low:g} and {high:g}"
        if high == LARGEST_NUMBER:
            bounds = f"at least {low:g}" if value < low else f"at most {high:g}"
        raise DelayError(f"{what} should be {bounds}, not {value!r}")


def check_distribution(what: str, weights: tuple[float, ...]) -> None:
    """Check probabilities: none negative, and a sum of 1 to within 1e-6."""
    for weight in weights:
        check_range(f"a probability of {what}", weight, 0, 1)
    if abs(sum(weights) - 1) > 1e-6:
        raise DelayError(f"the probabilities of {what} sum to {sum(weights):.6g}, not to 1")


def cumulative(weights: tuple[float, ...]) -> NDArray[np.float64]:
    """Return cumulative probabilities without the last, which is 1, for ``searchsorted``."""
    sums: NDArray[np.float64] = np.cumsum(weights)
    return sums[:-1] / float(sums[-1])


def _value_text(value: Any) -> str:
    if isinstance(value, tuple):
        return "/".join(_value_text(item) for item in value)
    return number_text(value) if isinstance(value, (int, float)) else str(value)


def _parse_value(key: str, text: str, kind: str) -> Any:
    if kind.startswith("tuple"):
        return tuple(parse_number(item, key) for item in text.split("/"))
    if kind.startswith("int"):
        return parse_whole(text, key)
    return text if kind.startswith("str") else parse_number(text, key)


def _has_default(field: Any) -> bool:
    return field.default is not MISSING
