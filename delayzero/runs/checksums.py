"""Checksums of checkpoints: what was written is what is read, or it is refused.

``checksums.json`` beside the checkpoints has a digest of every file of each complete one. It is
written after a checkpoint and all its files have reached the disk. So a checkpoint without
checksums was never finished, unless the folder has no such file at all: then an older version of
delayzero wrote it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from delayzero.arguments import UsageError
from delayzero.files import fsync_folder, named, read_json, write_json
from delayzero.forms import text, values_of

NAME = "checksums.json"
Sums = dict[str, str]
"""The digest of each file of a checkpoint, by its path inside it."""


class Checksums:
    """The checksums of the checkpoints in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / NAME

    @property
    def kept(self) -> bool:
        """Whether checksums are kept here; folders of older versions have none."""
        return self._path.exists()

    def begin(self, steps: Iterable[int]) -> None:
        """Keep checksums from now on, also of the checkpoints that are here already."""
        if not self.kept:
            write_json(self._path, {str(step): self._sums_of(step) for step in steps})

    def complete(self) -> list[int]:
        """Return the numbers of the complete checkpoints, in order.

        Raises:
            UsageError: The file of checksums is damaged.
        """
        return sorted(step for step in self.sealed() if (self._folder / str(step)).is_dir())

    def sealed(self) -> list[int]:
        """Return the numbers of all checkpoints that have checksums, also of those that are gone.

        Raises:
            UsageError: The file of checksums is damaged.
        """
        return sorted(map(int, self._read()))

    def seal(self, step: int) -> None:
        """Bring a checkpoint to the disk, and keep its checksums: it is complete from now on."""
        sums, older = self._sums_of(step), self._read().items()
        kept = {k: v for k, v in older if int(k) < step and (self._folder / k).is_dir()}
        write_json(self._path, {**kept, str(step): sums})

    def damaged(self, step: int, parts: Iterable[str] | None = None) -> str | None:
        """Return the first file of a checkpoint that is missing or has changed; None if none has.

        Args:
            step: Which checkpoint.
            parts: The parts to check, and what belongs to none; everything by default.

        Raises:
            OSError: A file cannot be read, which does not say that it is damaged.
        """
        folder, wanted = self._folder / str(step), None if parts is None else set(parts)
        for name, digest in sorted(self._read()[str(step)].items()):
            part, slash, _ = name.partition("/")
            if wanted is not None and slash and part not in wanted:
                continue
            try:
                with named(folder / name):
                    if _digest(folder / name) != digest:
                        return name
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                return name
        return None

    def _sums_of(self, step: int) -> Sums:
        """Bring the files of a checkpoint, and all names above them, to the disk; digest them."""
        folder = self._folder / str(step)
        sums = {name: _digest(folder / name, sync=True) for name in _files(folder)}
        inside = (path for path in folder.rglob("*") if path.is_dir())
        for path in (*inside, folder, self._folder, self._folder.parent):
            fsync_folder(path)
        return sums

    def _read(self) -> dict[str, Sums]:
        remedy = (
            "restore a copy, delete it to resume without verifying the checkpoint, or train in "
            "another --folder"
        )
        sums: dict[str, Sums] = read_json(self._path, remedy, values_of(values_of(text)))
        if not all(step.isdecimal() for step in sums):
            raise UsageError(f"{self._path} is damaged; {remedy}")
        return sums


def _files(folder: Path) -> list[str]:
    return sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )


def _digest(path: Path, *, sync: bool = False) -> str:
    """Return the digest of a file, and bring it to the disk if asked."""
    digest = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
        if sync:
            os.fsync(file.fileno())
    return digest.hexdigest()
