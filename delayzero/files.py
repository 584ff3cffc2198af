"""Writing files atomically, and reading them with messages that say how to mend damage."""

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

LONGEST_LINE = 1 << 16
"""Bytes: no line that :func:`last_line` reads is longer."""


def file_name(*words: str) -> str:
    """Join words into a name without characters that are special in paths or shells."""
    return re.sub(r"[^\w.=-]+", "-", "-".join(words))


def write_whole(path: Path, text: str) -> None:
    """Write a file atomically: readers see the old or the new text, even after a crash."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    with unfinished.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, path)


def fsync_folder(path: Path) -> None:
    """Bring the names of a folder's files to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_json(path: Path, values: Any) -> None:
    """Write a JSON file atomically."""
    write_whole(path, json.dumps(values, indent=2) + "\n")


def read_json(path: Path, remedy: str, keys: Iterable[str] = ()) -> dict[str, Any]:
    """Read the object in a JSON file.

    Args:
        path: The file.
        remedy: How to mend a damaged file, for the message.
        keys: Keys that the object must have.

    Raises:
        UsageError: The file holds no JSON object, or one without these keys.
    """
    try:
        values = json.loads(path.read_text())
    except ValueError:
        values = None
    if not isinstance(values, dict) or not set(keys) <= set(values):
        raise UsageError(f"{path} is damaged; {remedy}")
    return values


def read_lines(path: Path, remedy: str) -> list[dict[str, Any]]:
    """Read the objects in a file of JSON lines, except a last line that is still being written.

    Args:
        path: The file.
        remedy: How to mend a damaged file, for the message.

    Raises:
        UsageError: A complete line holds no JSON object.
    """
    *complete, _ = path.read_text(errors="replace").split("\n")
    return [_parsed(line, path, remedy) for line in complete]


def last_line(path: Path, remedy: str) -> dict[str, Any] | None:
    """Read the last complete object in a file of JSON lines, without reading the whole file.

    Args:
        path: The file; its lines have at most ``LONGEST_LINE`` bytes.
        remedy: How to mend a damaged file, for the message.

    Returns:
        None if no line is complete.

    Raises:
        UsageError: The line holds no JSON object.
    """
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 2 * LONGEST_LINE))  # the last line may be half written
        *complete, _ = file.read().decode(errors="replace").split("\n")
    return _parsed(complete[-1], path, remedy) if complete else None


def _parsed(line: str, path: Path, remedy: str) -> dict[str, Any]:
    try:
        values = json.loads(line)
    except ValueError:
        values = None
    if not isinstance(values, dict):
        raise UsageError(f"{path} is damaged; {remedy}")
    return values


def plain(value: Any) -> Any:
    """Convert numbers, arrays and lists of them to what JSON can hold.

    Numbers that are not finite become text, such as ``"nan"``.
    """
    if isinstance(value, (str, bool)) or value is None:
        return value
    array = np.asarray(value)
    if array.ndim == 0:
        number = array.item()
        return number if isinstance(number, int) or math.isfinite(number) else str(number)
    return [plain(entry) for entry in array]
