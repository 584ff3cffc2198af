"""The words behind ``delayzero train``: presets, then pairs of an option and its value."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator, Sequence

from delayzero.arguments import UsageError
from delayzero.bounds import option
from delayzero.training.config import TrainConfig
from delayzero.training.presets import PRESETS
from delayzero.words import meant

HELP = ("-h", "--help")


def split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Presets, and what stands behind them.

    Raises:
        UsageError: An option does not exist, or a word belongs to none; the message says what may
            have been meant.
    """
    count = next((i for i, word in enumerate(words) if word.startswith("-")), len(words))
    presets, rest = list(words[:count]), list(words[count:])
    known, i = list(_options(TrainConfig)), 0
    while i < len(rest):
        word, pair = rest[i], 1 if "=" in rest[i] or rest[i] in HELP else 2
        if not word.startswith("-"):
            _refuse_word(word, presets, [*rest[:i], *rest[i + 1 :]])
        _check_option(word.partition("=")[0], known)
        i += pair
    return presets, rest


def _options(kind: type, path: str = "") -> Iterator[str]:
    """Every option, as it is typed."""
    hints = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        if dataclasses.is_dataclass(hints[field.name]):
            yield from _options(hints[field.name], f"{path}{field.name}.")
        else:
            yield option(path + field.name)


def _check_option(word: str, known: Sequence[str]) -> None:
    typed = option(word.lstrip("-"))
    if word in HELP or word.startswith("--tyro-") or (word.startswith("--") and typed in known):
        return
    parts = {name[2:].rpartition(".")[2]: name for name in reversed(known)}  # without its group
    names = {name[2:]: name for name in known}
    guess = meant(typed[2:].rpartition(".")[2], parts) if "." not in typed else None
    guess = guess or meant(typed[2:], names)
    found = {**parts, **names}.get(guess or "")
    hint = f"; did you mean {found}?" if found else ";"
    raise UsageError(f"'{word}' is no option{hint} type: delayzero train --help")


def _refuse_word(word: str, presets: Sequence[str], rest: Sequence[str]) -> None:
    if word in PRESETS:
        line = " ".join(["delayzero train", *presets, word, *rest])
        raise UsageError(f"presets stand first; type: {line}")
    raise UsageError(
        f"'{word}' belongs to no option; options are typed as --seed 3, behind the presets"
    )
