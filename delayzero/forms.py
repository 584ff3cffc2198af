"""The forms of values in JSON files, to say in one line what in a damaged file is wrong.

A form is a function of a value and its name in the file. It returns what is wrong with the value,
such as ``"scores[2] is None, not a finite number"``; an empty text if nothing is.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any

Form = Callable[[Any, str], str]
LARGEST = 2**63
"""No number in a file is as large as this."""


def number(value: Any, name: str) -> str:
    """The form of finite numbers."""
    return _unless(is_number(value), value, name, "a finite number")


def is_number(value: Any) -> bool:
    """Return whether a value is a finite number; True and False are none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) < LARGEST and math.isfinite(value)


def whole(value: Any, name: str) -> str:
    """The form of whole numbers from 0."""
    fits = is_number(value) and isinstance(value, int) and value >= 0
    return _unless(fits, value, name, "a whole number")


def text(value: Any, name: str) -> str:
    """The form of texts."""
    return _unless(isinstance(value, str), value, name, "a text")


def moment(value: Any, name: str) -> str:
    """The form of moments in ISO 8601, with their time zone."""
    try:
        fits = datetime.fromisoformat(value).tzinfo is not None
    except (TypeError, ValueError):
        fits = False
    return _unless(fits, value, name, "a time such as 2026-01-31T12:00:00+00:00")


def group(value: Any, name: str) -> str:
    """The form of objects with any keys."""
    return _unless(isinstance(value, dict), value, name, "a group of values")


def one_of(choices: Collection[str]) -> Form:
    """Return the form of a choice."""
    expected = f"one of {', '.join(choices)}"
    return lambda value, name: _unless(
        isinstance(value, str) and value in choices, value, name, expected
    )


def optional(form: Form) -> Form:
    """Return the form of values that may be None."""
    return lambda value, name: "" if value is None else form(value, name)


def list_of(form: Form, least: int = 0, most: float = math.inf) -> Form:
    """Return the form of lists with ``least`` to ``most`` entries of a form."""

    def check(value: Any, name: str) -> str:
        if not isinstance(value, list) or not least <= len(value) <= most:
            return _unless(False, value, name, f"a list of {_bounds(least, most)}")
        return _first(form(entry, f"{name}[{i}]") for i, entry in enumerate(value))

    return check


def values_of(form: Form) -> Form:
    """Return the form of objects with any keys, whose values are of a form."""

    def check(value: Any, name: str) -> str:
        prefix = f"{name}." if name else ""
        return group(value, name) or _first(form(one, prefix + key) for key, one in value.items())

    return check


def with_keys(forms: Mapping[str, Form]) -> Form:
    """Return the form of objects with at least these keys."""

    def check(value: Any, name: str) -> str:
        if wrong := group(value, name):
            return wrong
        prefix = f"{name}." if name else ""
        missing = [key for key in forms if key not in value]
        if missing:
            return f"{prefix}{missing[0]} is missing"
        return _first(form(value[key], prefix + key) for key, form in forms.items())

    return check


def anything(value: Any, name: str) -> str:
    """The form of any value."""
    del value, name
    return ""


def _unless(fits: bool, value: Any, name: str, expected: str) -> str:
    return "" if fits else f"{name} is {_short(value)}, not {expected}"


def _short(value: Any) -> str:
    return " ".join(reprlib.repr(value).split())


def _first(wrongs: Any) -> str:
    """Return the first text that is not empty."""
    return next(filter(None, wrongs), "")


def _bounds(least: int, most: float) -> str:
    if least == most:
        return f"{least} values"
    return "values" if least == 0 else f"{least} or more values"
