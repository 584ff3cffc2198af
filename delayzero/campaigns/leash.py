"""Runs a command that is asked to stop when the process that started it dies, however it dies.

    python -I leash.py PARENT WORD...

runs ``python -m WORD...`` in the place of this process. Linux sends it SIGTERM when the process
PARENT, which has started it, has ended: a run then saves a checkpoint, and does not go on alone.
Imports nothing of this package, so that it starts quickly.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def leashed(words: Sequence[str]) -> list[str]:
    """The command that runs ``python -m WORD...`` on a leash held by this process."""
    return [sys.executable, "-I", __file__, str(os.getpid()), *words]


def main(parent: int, words: Sequence[str]) -> None:
    """Become the command; end if the parent has died already."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)  # kept by exec
    if os.getppid() != parent:
        sys.exit(f"process {parent}, which has started this one, has ended")
    os.execv(sys.executable, [sys.executable, "-m", *words])


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
