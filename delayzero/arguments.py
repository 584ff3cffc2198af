"""Reading the command line: errors are one line that says what to type."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import NoReturn

from delayzero.words import meant


class UsageError(Exception):
    """The command line is wrong; the message says what, and what to type instead."""


class Parser(argparse.ArgumentParser):
    """An argument parser that raises :class:`UsageError` where others print and exit."""

    def error(self, message: str) -> NoReturn:
        """Raise a :class:`UsageError` that points to the help."""
        raise UsageError(f"{message}; type: {self.prog} --help")


def whole(low: int, high: int | None = None) -> Callable[[str], int]:
    """A type for ``add_argument``: a whole number that is at least ``low``, at most ``high``."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"'{text}' should be a whole number") from None
        if value < low or (high is not None and value > high):
            bounds = f"at least {low}" if high is None else f"between {low} and {high}"
            raise argparse.ArgumentTypeError(f"{value} should be {bounds}")
        return value

    return read


def positive(text: str) -> float:
    """A type for ``add_argument``: a finite number above zero."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' should be a number") from None
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} should be above 0")
    return value


def check_verb(verb: str, verbs: Iterable[str], prog: str) -> None:
    """Check a verb, and name the nearest one if there is none like it."""
    words = list(verbs)
    if verb in words:
        return
    guess = meant(verb, words)
    hint = f"; did you mean '{guess}'?" if guess else ";"
    raise UsageError(f"'{verb}' is no verb of {prog}{hint} valid: {', '.join(words)}")
