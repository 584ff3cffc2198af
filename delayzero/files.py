"""Files that are written whole or not at all, and what to say of those that are not whole."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from delayzero.arguments import UsageError


def file_name(*words: str) -> str:
    """A name made of words, without characters that mean something in paths or shells."""
    return re.sub(r"[^\w.=-]+", "-", "-".join(words))


def write_whole(path: Path, text: str) -> None:
    """Write a file at once: whoever reads it, even after a crash, has the old or the new."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    with unfinished.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, path)


def write_json(path: Path, values: Any) -> None:
    """Write a JSON file at once."""
    write_whole(path, json.dumps(values, indent=2) + "\n")


def read_json(path: Path, remedy: str, keys: Iterable[str] = ()) -> dict[str, Any]:
    """The object in a JSON file.

    Args:
        path: The file.
        remedy: What to do if it is damaged, for the message.
        keys: What it must have.

    Raises:
        UsageError: It is damaged.
    """
    try:
        values = json.loads(path.read_text())
    except ValueError:
        values = None
    if not isinstance(values, dict) or not set(keys) <= set(values):
        raise UsageError(f"{path} is damaged; {remedy}")
    return values


def read_lines(path: Path, remedy: str) -> list[dict[str, Any]]:
    """The objects in a file of JSON lines; a last line that is still being written is left out.

    Raises:
        UsageError: Another line is damaged.
    """
    *whole, _ = path.read_text(errors="replace").split("\n")
    try:
        return [json.loads(line) for line in whole]
    except ValueError:
        raise UsageError(f"{path} is damaged; {remedy}") from None


def plain(value: Any) -> Any:
    """Numbers and lists of numbers that JSON knows."""
    if isinstance(value, (str, bool)) or value is None:
        return value
    array = np.asarray(value)
    if array.ndim == 0:
        number = array.item()
        return number if isinstance(number, int) or math.isfinite(number) else str(number)
    return [plain(entry) for entry in array]
