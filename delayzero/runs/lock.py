"""Locks of folders: one process at a time works in each, and the others can say which one it is."""

from __future__ import annotations

import fcntl
import os
import platform
from contextlib import suppress
from pathlib import Path
from typing import TextIO


def take(path: Path) -> TextIO | None:
    """Lock a file for this process, and write down in it which process that is.

    Args:
        path: The file, which is created if it does not exist.

    Returns:
        The file, which holds the lock until it is closed; None if another process holds it.
    """
    lock = path.open("a")
    if not _locked(lock):
        lock.close()
        return None
    with suppress(OSError):  # such as a full disk: the lock holds all the same
        os.ftruncate(lock.fileno(), 0)
        os.write(lock.fileno(), f"process {os.getpid()} on {platform.node()}".encode())
    return lock


def is_free(path: Path) -> bool:
    """Return whether no process holds a lock.

    For an instant it is held by the caller: a process that tries to take it then is refused.
    """
    try:
        with path.open("a") as lock:
            return _locked(lock)
    except OSError:  # no such folder, or not ours
        return True


def holder(path: Path) -> str:
    """Return who took a lock last, such as ``process 7 on node1``; ``unknown`` if that is lost."""
    try:
        said = path.read_text(errors="replace")
    except OSError:
        said = ""
    return " ".join(said.split()) or "unknown"


def _locked(lock: TextIO) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
