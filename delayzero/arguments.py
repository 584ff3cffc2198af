"""Parsing the command line; an error is one line that says what to type."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import NoReturn

from delayzero.words import meant


class UsageError(Exception):
    """The command line is wrong. The message says what is wrong and what to type."""


class Parser(argparse.ArgumentParser):
    """An argument parser that raises :class:`UsageError` instead of exiting."""

    def error(self, message: str) -> NoReturn:
        """Raise a :class:`UsageError` with the message and the command that prints the help."""
        raise UsageError(f"{message}; type: {self.prog} --help")


def whole(low: int, high: int | None = None) -> Callable[[str], int]:
    """A type for ``add_argument``: a whole number from ``low`` to ``high``."""

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
    """Check that a command exists.

    Args:
        verb: The word that was typed.
        verbs: The names of the commands.
        prog: The words before it, such as ``"delayzero delays"``.

    Raises:
        UsageError: It does not; the message suggests the nearest name.
    """
    names = list(verbs)
    if verb in names:
        return
    guess = meant(verb, names)
    hint = f"; did you mean '{guess}'? Choose" if guess else "; choose"
    command = f"{prog} {verb}".partition(" ")[2]
    raise UsageError(f"unknown command '{command}'{hint} from {', '.join(names)}")
