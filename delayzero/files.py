"""Writing files that survive a power cut, and reading them with messages that say how to mend them.

When a function here returns, what it wrote is on the disk, and so is the file's name.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from delayzero.arguments import UsageError
from delayzero.forms import Form, anything
from delayzero.words import encodable

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
"""Numbers of the errors of a full disk and of a used up quota."""
LONGEST_LINE = 1 << 16
"""Bytes: no line that :func:`last_line` reads is longer."""


def file_name(*words: str) -> str:
    """Join words into a name without characters that are special in paths or shells."""
    return re.sub(r"[^\w.=-]+", "-", "-".join(words))


@contextmanager
def named(path: Path | str) -> Iterator[None]:
    """Name a file in errors that do not, such as those of a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def make_folder(path: Path) -> None:
    """Create a folder, and those above it, where they do not exist."""
    if path.is_dir():
        return
    make_folder(path.parent)
    path.mkdir(exist_ok=True)
    fsync_folder(path.parent)


def check_out(out: Path) -> None:
    """Check the name of a file that ``--out`` asks for, before the work begins.

    Raises:
        UsageError: It is a folder, a device or a pipe, lies inside a file or where you may not
            write.
    """
    if out.is_dir():
        raise UsageError(f"--out {out} is a folder; type the name of a file")
    if out.exists() and not out.is_file():
        raise UsageError(f"--out {out} is a device or a pipe; type the name of a file")
    if any(folder.is_file() for folder in out.parents):
        raise UsageError(f"--out {out} lies inside a file; type another folder")
    above = next(folder for folder in out.absolute().parents if folder.exists())
    if not os.access(above, os.W_OK | os.X_OK):
        raise UsageError(f"--out {out} cannot be written: you may not write to {above}")


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file atomically: readers see the old or the new content, even after a crash.

    What UTF-8 cannot encode becomes the replacement character.
    """
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        with named(path), unfinished.open("wb") as file:
            file.write(encodable(content).encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        with suppress(OSError):
            unfinished.unlink()  # the disk may be full
        raise
    os.replace(unfinished, path)
    fsync_folder(path.parent)


def append_line(path: Path, line: str) -> None:
    """Append a line to a file; a last line that was never finished is cut off."""
    with named(path), path.open("a+b") as file:
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
        file.write(line.encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    fsync_folder(path.parent)


def fsync_folder(path: Path) -> None:
    """Bring the names in a folder to the disk, where its file system can do that."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except PermissionError:  # one may write to it and not list it
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)


def write_json(path: Path, values: Any) -> None:
    """Write a JSON file atomically."""
    write_whole(path, json.dumps(values, indent=2) + "\n")


def read_json(path: Path, remedy: str, form: Form = anything) -> dict[str, Any]:
    """Read the object in a JSON file.

    Args:
        path: The file.
        remedy: How to mend a damaged file, for the message.
        form: Of the object.

    Raises:
        UsageError: The file holds no JSON object, or one of another form, or is no regular file.
    """
    _check_regular(path, remedy)
    return _parsed(path.read_bytes(), path, remedy, form)


def read_lines(path: Path, remedy: str, form: Form = anything) -> list[dict[str, Any]]:
    """Read the objects in a file of JSON lines, except a last line that is still being written.

    Args:
        path: The file.
        remedy: How to mend a damaged file, for the message.
        form: Of each object.

    Raises:
        UsageError: A complete line holds no JSON object, or one of another form, or the file is no
            regular one.
    """
    _check_regular(path, remedy)
    *complete, _ = path.read_bytes().split(b"\n")
    return [_parsed(line, path, remedy, form) for line in complete]


def last_line(path: Path, remedy: str, form: Form = anything) -> dict[str, Any] | None:
    """Read the last complete object in a file of JSON lines, without reading the whole file.

    Args:
        path: The file; its lines have at most ``LONGEST_LINE`` bytes.
        remedy: How to mend a damaged file, for the message.
        form: Of the object.

    Returns:
        None if no line is complete.

    Raises:
        UsageError: The line holds no JSON object, or one of another form, or the file is no regular
            one.
    """
    _check_regular(path, remedy)
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 2 * LONGEST_LINE))  # the last line may be half written
        *complete, _ = file.read().split(b"\n")
    return _parsed(complete[-1], path, remedy, form) if complete else None


def _check_regular(path: Path, remedy: str) -> None:
    """Check that reading a file comes to an end: reading a pipe waits for a writer."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise UsageError(f"{path} is a device or a pipe; {remedy}")


def _parsed(content: bytes, path: Path, remedy: str, form: Form) -> dict[str, Any]:
    try:
        values = json.loads(content)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise UsageError(f"{path} is damaged; {remedy}")
    if wrong := form(values, ""):
        raise UsageError(f"{path} is damaged: {wrong}; {remedy}")
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
