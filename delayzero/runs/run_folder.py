"""The folder of a run: what was asked for, with what, and what came of it."""

from __future__ import annotations

import fcntl
import importlib.metadata
import json
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

import jax

from delayzero import __version__
from delayzero.arguments import UsageError
from delayzero.files import read_json, read_lines, write_json
from delayzero.model.build import computed_in
from delayzero.runs.paths import RunPaths
from delayzero.settings import SearchingConfig, TrainConfig
from delayzero.settings.stored import from_json

PACKAGES = ("numpy", "gymnasium", "jax", "jaxlib", "flax", "optax", "mctx", "ale-py", "minatar")
FREE_FIELDS = ("folder", "label", "log_every", "checkpoint_minutes", "memory")
"""Settings that may change when a run goes on: they do not change what is learned."""


class RunFolder(RunPaths):
    """The folder of a run: creates it, guards it against a second process, reads its settings."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._lock: TextIO | None = None

    def finished(self, config: TrainConfig) -> bool:
        """Whether the folder holds the result of this run; nothing in it is changed.

        Raises:
            UsageError: It holds the result of another run, or a damaged one.
        """
        if not self.result.exists():
            return False
        read_json(self.result, "delete it, and type the same command to evaluate the run again")
        self._check_same(config)
        return True

    def as_begun(self, config: TrainConfig) -> TrainConfig:
        """The same, with the data type that the run began with where that is left to the machine.

        A run may go on on another one, and is to compute there as it did.
        """
        if not isinstance(config, SearchingConfig) or config.model.dtype != "auto":
            return config
        if not (self._has_begun() and self.starts.exists()):
            return config
        # The last start: one before it may have ended, on another machine, before a checkpoint.
        starts = read_lines(self.starts, "put it back")
        dtype: Any = starts[-1].get("dtype", "auto") if starts else "auto"
        return replace(config, model=replace(config.model, dtype=dtype))

    def open(self, config: TrainConfig, command: Sequence[str]) -> None:
        """Make the folder, or check that it holds a run with the same settings.

        Raises:
            UsageError: It holds another run, or a run that is going on now, or it is a file.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise UsageError(
                f"--folder {self.path} is, or lies in, a file; type the name of a folder"
            ) from None
        self._lock = (self.path / "lock").open("a")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(f"a run is going on in {self.path}; wait for it to end") from None
        if self.settings.exists() and self._has_begun():
            self._check_same(config)
        write_json(self.settings, asdict(config))
        start = {
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "command": shlex.join(command),
            "dtype": _data_type(self.as_begun(config)),
            "versions": versions(),
        }
        with self.starts.open("a") as lines:
            lines.write(json.dumps(start) + "\n")

    def close(self) -> None:
        """Let others open it."""
        if self._lock is not None:
            self._lock.close()

    def config(self) -> TrainConfig:
        """The configuration of the run that the folder holds."""
        if not self.settings.exists():
            raise UsageError(f"{self.path} holds no run; type: delayzero train --help")
        remedy = "put back a copy, or train in another --folder"
        values = read_json(self.settings, remedy)
        try:
            return from_json(values)
        except (ValueError, TypeError, UsageError) as error:
            raise UsageError(
                f"{self.settings}: {error}; if another version of delayzero wrote it, take that "
                f"(its commit is in {self.starts}), or {remedy}"
            ) from None

    def save_spaces(self, values: dict[str, Any]) -> None:
        """Store the spaces of the run's environment.

        Args:
            values: The spaces in plain JSON types.
        """
        write_json(self.spaces, values)

    def load_spaces(self) -> dict[str, Any] | None:
        """Read what :meth:`save_spaces` stored; None if the folder has no such file.

        Raises:
            UsageError: The file is damaged.
        """
        if not self.spaces.exists():
            return None
        return read_json(self.spaces, "delete it, and type the same command")

    def _has_begun(self) -> bool:
        """Whether there is something to go on with."""
        made = self.checkpoints.glob("*") if self.checkpoints.exists() else ()
        return self.result.exists() or any(path.name.isdigit() for path in made)

    def _check_same(self, config: TrainConfig) -> None:
        changes = changed_settings(self.config(), config)
        if changes:
            raise UsageError(
                f"{self.path} holds a run with different settings: {', '.join(changes)}; use the "
                "run's settings, or type another --folder"
            )


def changed_settings(before: TrainConfig, now: TrainConfig) -> list[str]:
    """List the settings that differ, apart from ``FREE_FIELDS``; such as ``"seed 0 (now 1)"``."""
    old, new = _flat(asdict(before)), _flat(asdict(now))
    return [
        f"{name} {old.get(name)} (now {value})"
        for name, value in new.items()
        if old.get(name) != value and name not in FREE_FIELDS
    ]


def _data_type(config: TrainConfig) -> str:
    """What the networks of a run compute in."""
    return computed_in(config.model) if isinstance(config, SearchingConfig) else "float32"


def versions() -> dict[str, Any]:
    """What this runs on: packages, Python, the machine, the commit of this package."""
    found = {"delayzero": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        **found,
        "commit": commit(),
        "device": jax.local_devices()[0].device_kind,
        "machine": platform.platform(),
    }


def commit() -> str | None:
    """The commit of the source that is running, with a star if it was changed; None if unknown."""
    here = Path(__file__).parent
    try:
        _git(here, "ls-files", "--error-unmatch", __file__)  # else it is another project's commit
        head = _git(here, "rev-parse", "HEAD")
        changed = _git(here, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return None
    return head + ("*" if changed else "")


def command_line() -> list[str]:
    """The command of this process, as one would type it."""
    return ["delayzero", *sys.argv[1:]]


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *words], capture_output=True, text=True, check=True, timeout=10
    )
    return done.stdout.strip()


def _flat(values: dict[str, Any], path: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{path}{key}.")
        else:
            flat[path + key] = value
    return flat
