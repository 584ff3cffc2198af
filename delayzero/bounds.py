"""Validation of settings; messages name the option as it is typed."""

from __future__ import annotations

import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

LARGEST = 2**31 - 1
"""Counters on a device have 32 bits; no number in a run needs to be larger."""
MOST_ENVS = 4096
"""Environments side by side; ``benchmarks/load.py`` measures this many."""


@dataclass(frozen=True)
class Bounds:
    """The numbers from ``low`` to ``high``; NaN is never within bounds."""

    low: float
    high: float = LARGEST
    above: bool = False
    """Exclude ``low`` itself."""

    def contain(self, value: float) -> bool:
        """Whether a number is within the bounds."""
        return (self.low < value if self.above else self.low <= value) and value <= self.high

    def wanted(self, value: float) -> str:
        """Describe the bounds, for the message about a number outside them."""
        low = f"above {self.low}" if self.above else f"at least {self.low}"
        name_high = self.high < LARGEST or value > self.high
        return f"{low} and at most {self.high}" if name_high else low


COUNT = Bounds(1)
PARALLEL = Bounds(1, MOST_ENVS)
NOT_NEGATIVE = Bounds(0)
POSITIVE = Bounds(0, above=True)
SHARE = Bounds(0, 1)


def option(path: str) -> str:
    """Return a setting as it is typed: ``--learner.batch-size`` for ``learner.batch_size``."""
    return "--" + path.replace("_", "-")


def check_numbers(config: object, path: str, bounds: Mapping[Bounds, Iterable[str]]) -> None:
    """Check that numbers lie within their bounds; None always passes.

    Args:
        config: A dataclass.
        path: The prefix of its fields on the command line, such as ``"learner."``.
        bounds: For each bounds, the names of the fields that must lie within them.

    Raises:
        ValueError: A number lies outside; the message has the option, its value and the bounds.
    """
    for allowed, names in bounds.items():
        for name in names:
            value = getattr(config, name)
            if value is not None and not allowed.contain(value):
                expected = allowed.wanted(value)
                raise ValueError(f"{option(path + name)} is {value}; it should be {expected}")


def check_choice(path: str, value: object, choices: Any) -> None:
    """Check that a word is among those of a ``Literal``.

    Args:
        path: The setting, such as ``"replay.weights"``.
        value: Its value.
        choices: The ``Literal``.

    Raises:
        ValueError: It is not; the message has the option, its value and the valid words.
    """
    valid = typing.get_args(choices)
    if value not in valid:
        raise ValueError(f"{option(path)} is '{value}'; it should be one of: {', '.join(valid)}")
