"""The folder of a run: its settings, the commands and versions that made it, its results."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO, get_args

from delayzero.arguments import UsageError
from delayzero.files import append_line, make_folder, read_json, read_lines, write_json
from delayzero.forms import number, whole, with_keys
from delayzero.learning.devices import learner_devices
from delayzero.model.build import data_type
from delayzero.progress import say
from delayzero.runs import lock
from delayzero.runs.checkpoint import Checkpoints
from delayzero.runs.machine import differences, versions
from delayzero.runs.paths import BUSY, RunPaths
from delayzero.runs.result import contradiction
from delayzero.settings import SearchingConfig, TrainConfig
from delayzero.settings.model import DataType
from delayzero.settings.stored import FREE_FIELDS, flat, from_json, untrusted_code

FINISHED = with_keys({"interactions": whole, "score": number})
"""The form of the result of every run."""
STARTS_REMEDY = "restore a copy, or delete it, and type the same command"


class RunFolder(RunPaths):
    """The folder of a run: creates it, guards it against a second process, reads its settings."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._lock: TextIO | None = None

    def finished(self, config: TrainConfig) -> bool:
        """Return whether this run has finished. Changes nothing in the folder.

        Raises:
            UsageError: The folder holds a run with different settings, or the result is damaged
                or of another run.
        """
        if not self.result.exists():
            return False
        remedy = "delete it, and type the same command to evaluate the run again"
        result = read_json(self.result, remedy)
        self._check_same(config)
        if wrong := FINISHED(result, ""):
            raise UsageError(f"{self.result} is damaged: {wrong}; {remedy}")
        if wrong := contradiction(result, asdict(config)):
            raise UsageError(f"{self.result} is not the result of this run: {wrong}; {remedy}")
        return True

    def as_begun(self, config: TrainConfig) -> TrainConfig:
        """Return the configuration with the data type that the run began with.

        Where the data type is ``auto``, the machine decides. A run that is resumed on another
        machine keeps its data type.

        Raises:
            UsageError: The list of starts is damaged.
        """
        if not isinstance(config, SearchingConfig) or config.model.dtype != "auto":
            return config
        if not self.has_begun():
            return config
        # The last start counts: earlier ones, on other machines, may have left no checkpoint.
        start = self._last_start()
        model = {"dtype": start.get("dtype", "auto")} if start else self._stored_model()
        dtype: Any = model.get("dtype", "auto")
        if dtype not in get_args(DataType):
            raise UsageError(f"{self.starts} is damaged; {STARTS_REMEDY}")
        return replace(config, model=replace(config.model, dtype=dtype))

    def check_free(self) -> None:
        """Check that no process trains here, before anything is read that it may be writing.

        Raises:
            UsageError: One does.
        """
        if self.lock.exists() and not lock.is_free(self.lock):
            raise self._busy()

    def _busy(self) -> UsageError:
        """The error of a folder in which another process trains."""
        return UsageError(
            f"{BUSY} ({lock.holder(self.lock)}) in {self.path}; wait for it to end, or type "
            "another --folder"
        )

    def open(self, config: TrainConfig, command: Sequence[str]) -> None:
        """Create the folder, or check that it holds this run; lock it and record the start.

        Args:
            config: The run.
            command: The command that was typed, for the record.

        Raises:
            UsageError: The folder holds a run with different settings, another process trains in
                it, the path is a file, or the run asks for devices that it cannot share.
        """
        devices = learner_devices(config)  # first: a typing error should leave no folder
        try:
            make_folder(self.path)
        except (FileExistsError, NotADirectoryError):
            raise UsageError(
                f"--folder {self.path} is a file, or lies inside one; type the name of a folder"
            ) from None
        except ValueError as error:  # a NUL in the name
            raise UsageError(f"--folder {str(self.path)!r}: {error}") from None
        self.close()  # of an attempt that was refused
        self._lock = lock.take(self.lock)
        if self._lock is None:
            raise self._busy()
        now = {**versions(config.env), "devices": devices}
        if self.has_begun():
            self._check_same(config)
            self._warn_of_changes(now)
        else:
            self.by_delay.unlink(missing_ok=True)  # scores of weights that are gone
        write_json(self.settings, asdict(config))
        start = {
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "command": shlex.join(command),
            "dtype": data_type(self.as_begun(config)),
            "versions": now,
        }
        append_line(self.starts, json.dumps(start))

    def close(self) -> None:
        """Release the lock, so that another process can open the folder."""
        if self._lock is not None:
            self._lock.close()

    def config(
        self, *, typed: TrainConfig | None = None, trust: bool = False, with_env: bool = False
    ) -> TrainConfig:
        """Read the run's configuration: from its file, or from the checkpoint if that is missing.

        Reading it, or making the environment, runs the Python code that it names (``callback:...``,
        ``module:...``).

        Args:
            typed: What the user typed, who trusts the code in it.
            trust: Whether to trust all code.
            with_env: Whether the environment will be made.

        Raises:
            UsageError: The folder holds no run, its settings are damaged or invalid, or they name
                code that is not trusted.
        """
        remedy = "restore a copy, or train in another --folder"
        values: dict[str, Any] | None
        if self.settings.exists():
            values = read_json(
                self.settings,
                "restore a copy, delete it if the run has a checkpoint (which has the settings "
                "too), or train in another --folder",
            )
        elif not self.has_begun():
            raise UsageError(f"{self.path} holds no run; type: delayzero train --help")
        else:
            values = self._settings_of_checkpoint()
        if values is None:
            raise UsageError(
                f"{self.settings} is missing, and no checkpoint has the run's settings; {remedy}"
            )
        if not trust and (unknown := untrusted_code(values, typed, with_env=with_env)):
            remedy = "if you trust the folder, type --trust (in Python: trust=True)"
            if typed is not None:
                remedy = "use the run's settings, or type another --folder"
            raise UsageError(
                f"the settings of {self.path} name Python code that would be run: "
                f"{', '.join(unknown)}; {remedy}"
            )
        try:
            return from_json(values)
        except (ValueError, TypeError, UsageError) as error:
            raise UsageError(
                f"{self.settings}: {error}; if another version of delayzero wrote it, use that "
                f"version (its commit is in {self.starts}), {remedy}"
            ) from None

    def check_checkpoint(
        self, progress: Mapping[str, Any], config: TrainConfig, free: Sequence[str] = ()
    ) -> None:
        """Check that a checkpoint is of the run whose settings and spaces this folder has.

        Args:
            progress: The checkpoint's plain numbers.
            config: The run's settings.
            free: Settings that may differ, besides ``FREE_FIELDS``.

        Raises:
            UsageError: It is not.
        """
        values, spaces = progress.get("config"), progress.get("spaces")
        changes: list[str] = []
        if values is not None:  # older ones have none
            changes = untrusted_code(values, config, with_env=True)
            if not changes:  # reading others would run code that nobody typed
                before, now = map(self.as_begun, (from_json(values), config))
                changes = changed_settings(before, now, free)
        beside = self.load_spaces()
        if None not in (spaces, beside) and spaces != beside:
            changes.append(f"{spaces} (now, in {self.spaces.name}, {beside})")
        if changes:
            raise UsageError(
                f"the checkpoint in {self.path} is of a run with different settings: "
                f"{', '.join(changes)}; use the run's settings, put back its files, or type "
                "another --folder"
            )

    def _settings_of_checkpoint(self) -> dict[str, Any] | None:
        """Read the settings that the newest checkpoint holds; None if there are none."""
        if not self.checkpoints.exists():
            return None
        with closing(Checkpoints(self.checkpoints, read_only=True)) as checkpoints:
            if checkpoints.latest() is None:
                return None
            values = checkpoints.progress().get("config")
        return values if isinstance(values, dict) else None

    def _stored_model(self) -> dict[str, Any]:
        """Read the settings of the model from the newest checkpoint; empty if it has none."""
        model = (self._settings_of_checkpoint() or {}).get("model")
        return model if isinstance(model, dict) else {}

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

    def _last_start(self) -> dict[str, Any]:
        """Read what was recorded at the last start; nothing if there is no record.

        Raises:
            UsageError: The list of starts is damaged.
        """
        starts = read_lines(self.starts, STARTS_REMEDY) if self.starts.exists() else []
        return starts[-1] if starts else {}

    def _warn_of_changes(self, now: dict[str, Any]) -> None:
        """Say what differs from the last start, and so may change the bits of the run."""
        changes = differences(self._last_start().get("versions"), now)
        if changes:
            say(
                f"warning: {self.path} was last trained with {', '.join(changes)}; it resumes, but "
                "may end with other bits than it would have there"
            )

    def _check_same(self, config: TrainConfig) -> None:
        before = self.as_begun(self.config(typed=config))
        changes = changed_settings(before, self.as_begun(config))
        if changes:
            raise UsageError(
                f"{self.path} holds a run with different settings: {', '.join(changes)}; use the "
                "run's settings, or type another --folder"
            )


def changed_settings(before: TrainConfig, now: TrainConfig, free: Sequence[str] = ()) -> list[str]:
    """List the settings that differ, apart from ``FREE_FIELDS``; such as ``"seed 0 (now 1)"``.

    Args:
        before: Settings.
        now: Others.
        free: Further settings that may differ.
    """
    old, new = flat(asdict(before)), flat(asdict(now))
    return [
        f"{name} {old.get(name)} (now {value})"
        for name, value in new.items()
        if old.get(name) != value and name not in (*FREE_FIELDS, *free)
    ]


def command_line() -> list[str]:
    """The command of this process, in the words that a user types."""
    return ["delayzero", *sys.argv[1:]]
