"""Checking the numbers of a configuration: messages name the option as it is typed."""

from __future__ import annotations

import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

LARGEST = 2**31 - 1
"""Counters on a device have 32 bits; no number of a run needs to be larger."""


@dataclass(frozen=True)
class Bounds:
    """The numbers from ``low`` to ``high``; NaN is never among them."""

    low: float
    high: float = LARGEST
    above: bool = False
    """Without ``low`` itself."""

    def contain(self, value: float) -> bool:
        """Whether a number is among them."""
        return (self.low < value if self.above else self.low <= value) and value <= self.high

    def wanted(self, value: float) -> str:
        """What a number should be instead of this one."""
        low = f"above {self.low}" if self.above else f"at least {self.low}"
        told = self.high < LARGEST or value > self.high
        return f"{low} and at most {self.high}" if told else low


COUNT = Bounds(1)
NOT_NEGATIVE = Bounds(0)
POSITIVE = Bounds(0, above=True)
SHARE = Bounds(0, 1)


def option(path: str) -> str:
    """A setting as it is typed: ``learner.batch_size`` is ``--learner.batch-size``."""
    return "--" + path.replace("_", "-")


def check_numbers(config: object, path: str, bounds: Mapping[Bounds, Iterable[str]]) -> None:
    """Refuse the first number that lies outside its bounds; None is not checked.

    Args:
        config: A dataclass.
        path: Before the names of its fields on the command line, such as ``"learner."``.
        bounds: The names of the fields within each bounds.

    Raises:
        ValueError: The message names the option, its value, and the bounds.
    """
    for allowed, names in bounds.items():
        for name in names:
            value = getattr(config, name)
            if value is not None and not allowed.contain(value):
                wanted = allowed.wanted(value)
                raise ValueError(f"{option(path + name)} is {value}; it should be {wanted}")


def check_choice(path: str, value: object, choices: Any) -> None:
    """Refuse a word that is not among those of a ``Literal``.

    Args:
        path: Of the setting, such as ``"replay.weights"``.
        value: What was given.
        choices: The ``Literal``.

    Raises:
        ValueError: The message names the option, its value, and the valid words.
    """
    valid = typing.get_args(choices)
    if value not in valid:
        raise ValueError(f"{option(path)} is '{value}'; it should be one of: {', '.join(valid)}")
