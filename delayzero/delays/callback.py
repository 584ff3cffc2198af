"""Delays that depend on observations or actions."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from delayzero.delays.law import (
    Context,
    DelayError,
    Law,
    Memory,
    check_steps,
    nearest,
    parse_whole,
)

Sees = Literal["observation", "decision"]
OPTIONS = ("max", "sees")


@dataclass(frozen=True)
class Callback(Law):
    """A delay computed by a function: ``callback:package.module.function,max=5``.

    The function takes a :class:`~delayzero.delays.Context` and returns a whole number of steps.
    With ``sees="observation"`` it is called before the decision, and the context's action is the
    previous one. With ``sees="decision"`` it is called after the decision, with the action just
    decided (for example, a planner that thinks longer about some moves). The delay can't be
    revealed before the decision then.
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
        return np.zeros(steps, dtype=int), ()  # draw() computes the delay

    def arguments(self) -> str:
        path = f"{self.function.__module__}.{getattr(self.function, '__qualname__', '?')}"
        sees = "" if self.sees == "observation" else f",sees={self.sees}"
        return f"{path},max={self.limit}{sees}"

    @classmethod
    def from_arguments(cls, text: str) -> Law:
        path, *options = text.split(",")
        values: dict[str, str] = {}
        for key, _, value in (option.partition("=") for option in options):
            if key not in OPTIONS:
                raise DelayError(f"unknown option '{key}' of callback{nearest(key, OPTIONS)}")
            if key in values:
                raise DelayError(f"'{key}' is given twice")
            values[key] = value
        if "max" not in values:
            raise DelayError(
                "callback needs max=STEPS, the largest delay that the function returns"
            )
        module, _, name = path.rpartition(".")
        try:
            function = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError, ValueError, TypeError) as error:
            raise DelayError(f"'{path}' can't be imported: {error}") from None
        sees: Any = values.get("sees", "observation")
        return cls(function, parse_whole(values["max"], "max"), sees)
