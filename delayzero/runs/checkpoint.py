"""Checkpoints: everything a run needs to resume exactly, written atomically by orbax."""

from __future__ import annotations

import functools
import logging
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp

from delayzero.arguments import UsageError
from delayzero.files import DISK_FULL
from delayzero.progress import say
from delayzero.runs.checksums import Checksums

KEPT = 2
"""Checkpoints that are kept: if the newest is damaged, there is one before it."""
FILE_BYTES = 2**22
"""Approximate size of files, and of the chunks into which large arrays are split."""
UNFINISHED = "*.orbax-checkpoint-tmp*"
"""Names of checkpoints that orbax has not finished."""
UNREADABLE = (ValueError, TypeError, LookupError, AttributeError)
"""What orbax raises when it reads a damaged file."""

logging.getLogger("absl").setLevel(logging.WARNING)  # orbax logs every file


class BrokenCheckpointError(UsageError):
    """A checkpoint cannot be read."""


class Checkpoints:
    """The checkpoints of a run; the newest two are kept.

    A checkpoint has the parts ``learner`` (weights, optimiser, counters), ``replay``, ``collector``
    (the acting agent and the log of actions) and ``progress`` (plain numbers). All but the last are
    trees of arrays, restored with the structure and types of an example.
    """

    def __init__(self, folder: Path, *, read_only: bool = False) -> None:
        """Open a folder of checkpoints.

        Args:
            folder: Where they are.
            read_only: Create and delete nothing, since a run may be writing there. Otherwise the
                folder is created, and checkpoints that a killed run left unfinished are deleted.

        Raises:
            BrokenCheckpointError: What orbax notes about a checkpoint is damaged.
        """
        self._folder = folder.absolute()
        self._sums = Checksums(self._folder)
        options = ocp.CheckpointManagerOptions(
            max_to_keep=None if read_only else KEPT,
            create=not read_only,
            cleanup_tmp_directories=not read_only,
            enable_async_checkpointing=False,
        )
        try:
            self._manager = ocp.CheckpointManager(self._folder, options=options)
        except UNREADABLE as error:
            for step in reversed(self._sums.complete() if self._sums.kept else []):
                self._verify(step, ())
            raise BrokenCheckpointError(
                f"the checkpoints in {self._folder} cannot be read ({type(error).__name__}): one "
                "is damaged; restore a copy, or train in another --folder"
            ) from error
        if not read_only:
            self._discard_unfinished()

    def latest(self) -> int | None:
        """Return the number of the newest complete checkpoint, or None.

        Raises:
            UsageError: The file of checksums is damaged.
            BrokenCheckpointError: There were checkpoints, and all are missing.
        """
        if self._sums.kept:
            complete = self._sums.complete()
            if not complete and (lost := self._sums.sealed()):
                raise BrokenCheckpointError(
                    f"the checkpoints of {self._folder} ({', '.join(map(str, lost))}) are missing; "
                    "restore a copy, or delete the folder to begin the run again"
                )
            return max(complete, default=None)
        step: int | None = self._manager.latest_step()
        return step

    def save(self, step: int, parts: dict[str, Any], progress: dict[str, Any]) -> None:
        """Write a checkpoint; of those before it, the newest is kept.

        When this returns, the checkpoint and its checksums are on the disk.
        """
        items = {
            name: ocp.args.PyTreeSave(
                part,
                save_args=jax.tree.map(lambda _: ocp.SaveArgs(chunk_byte_size=FILE_BYTES), part),
                ocdbt_target_data_file_size=FILE_BYTES,
            )
            for name, part in parts.items()
        }
        try:
            self._sums.begin(self._manager.all_steps())
            arguments = ocp.args.Composite(progress=ocp.args.JsonSave(progress), **items)
            with _first_error_only():
                self._manager.save(step, args=arguments)
            self._sums.seal(step)
        except Exception as error:
            if not _disk_full(error):
                raise
            for path in self._folder.glob(UNFINISHED):
                _delete(path)
            before = self.latest()
            kept = "there is none before it" if before is None else f"{before} is intact"
            raise UsageError(
                f"there is no space left on the disk for a checkpoint in {self._folder} ({kept}); "
                "free some, and type the same command to resume"
            ) from error

    def progress(self) -> dict[str, Any]:
        """Return the plain numbers of the newest checkpoint."""
        parts = self._read({"progress": ocp.args.JsonRestore()})
        progress: dict[str, Any] = parts["progress"]
        return progress

    def restore(self, examples: dict[str, Any]) -> dict[str, Any]:
        """Return parts of the newest checkpoint.

        Args:
            examples: For each part to restore, a tree of arrays or of their shapes.

        Raises:
            BrokenCheckpointError: It cannot be read.
        """
        items = {}
        for name, example in examples.items():
            restore = jax.tree.map(_restore_args, example)
            items[name] = ocp.args.PyTreeRestore(item=example, restore_args=restore)
        # Orbax would commit arrays to a device. To JAX that is another kind of array, for which
        # everything is compiled again. So they are read as numpy arrays and placed like new ones.
        parts = self._read(items)
        if not self._sums.kept:
            say(
                f"warning: {self._folder} has no checksums: whether the checkpoint {self.latest()} "
                "is damaged cannot be verified"
            )
        return {name: jax.tree.map(_placed, examples[name], parts[name]) for name in examples}

    def _read(self, items: dict[str, Any]) -> dict[str, Any]:
        step = self.latest()
        self._verify(step, items)
        try:
            with _first_error_only():
                parts = self._manager.restore(step, args=ocp.args.Composite(**items))
            return {name: parts[name] for name in items}
        except (OSError, *UNREADABLE) as error:
            raise BrokenCheckpointError(
                f"the checkpoint {self._folder / str(step)} cannot be read "
                f"({type(error).__name__}): a part of it is missing or damaged, or it was written "
                "with other settings; restore a copy, move it away, or train in another --folder"
            ) from error

    def _verify(self, step: int | None, parts: Iterable[str]) -> None:
        """Refuse a checkpoint whose files have changed; offer another one.

        Raises:
            BrokenCheckpointError: A file has changed, or is missing.
        """
        if step is None or not self._sums.kept:
            return
        name = self._sums.damaged(step, parts)
        if name is None:
            return
        others = [other for other in self._sums.complete() if other != step]
        intact = [other for other in others if self._sums.damaged(other) is None]
        remedy = (
            f"delete {self._folder / str(step)} to resume from {self._folder / str(intact[-1])}, "
            "which is intact"
            if intact
            else "restore a copy, or train in another --folder"
        )
        raise BrokenCheckpointError(
            f"the checkpoint {self._folder / str(step)} is damaged: its file {name} is missing or "
            f"has changed since it was written; {remedy}"
        )

    def _discard_unfinished(self) -> None:
        """Delete checkpoints that a killed run left without checksums."""
        if self._sums.kept:
            complete = set(self._sums.complete())
            for step in sorted(set(self._manager.all_steps()) - complete):
                say(f"{self._folder / str(step)} was not written to its end, and is deleted")
                self._manager.delete(step)

    def close(self) -> None:
        """Close the manager."""
        self._manager.close()


def _disk_full(error: BaseException | None) -> bool:
    """Return whether an error, or one behind it, says that the disk is full."""
    while error is not None:
        if getattr(error, "errno", None) in DISK_FULL:
            return True
        if "No space left on device" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def _delete(folder: Path) -> None:
    """Delete a folder to which threads that orbax abandoned may still be writing."""
    for _ in range(10):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.1)


@contextmanager
def _first_error_only() -> Iterator[None]:
    """Raise the first error of orbax, and print nothing about those that follow from it.

    Orbax stops at the first array that fails. All others then find their event loop closed, which
    Python cannot raise, or end with errors that nobody retrieves. They do so later, when orbax has
    returned: after an error the filters stay.
    """
    hook = sys.unraisablehook
    sys.unraisablehook = functools.partial(_but_closed_loops, hook)
    try:
        yield
        sys.unraisablehook = hook
    except Exception:
        logging.getLogger("asyncio").addFilter(_not_abandoned)
        raise


def _but_closed_loops(hook: Callable[[Any], Any], error: Any) -> None:
    """Pass on exceptions that Python cannot raise, except those of closed event loops."""
    if str(error.exc_value) != "Event loop is closed":
        hook(error)


def _not_abandoned(record: logging.LogRecord) -> bool:
    """Whether a line of a log is not about an error that nobody retrieved."""
    return "exception was never retrieved" not in record.getMessage()


def _not_raised(record: logging.LogRecord) -> bool:
    """Whether a line of a log is not about what is found and told here as well.

    Exceptions are raised, and checksums find metadata that are missing or damaged.
    """
    told = (".run() raised an exception", "Metadata file")
    return not any(words in record.getMessage() for words in told)


logging.getLogger("absl").addFilter(_not_raised)


def examples_of(tree: Any) -> Any:
    """Return a tree of arrays without their memory, for :meth:`Checkpoints.restore`.

    Those on several devices are restored to the same, wherever they were when they were saved.
    """

    def example(leaf: Any) -> Any:
        if isinstance(leaf, np.ndarray):
            return np.broadcast_to(np.zeros((), leaf.dtype), leaf.shape)  # one number, repeated
        several = len(leaf.sharding.device_set) > 1
        return jax.ShapeDtypeStruct(
            leaf.shape, leaf.dtype, sharding=leaf.sharding if several else None
        )

    return jax.tree.map(example, tree)


def _restore_args(leaf: Any) -> Any:
    """Return how to read a leaf."""
    return ocp.RestoreArgs(restore_type=np.ndarray, dtype=leaf.dtype)


def _placed(example: Any, leaf: Any) -> Any:
    """Return a leaf like its example: a numpy array, or an array on one or several devices.

    Raises:
        BrokenCheckpointError: It has another shape.
    """
    if np.shape(leaf) != np.shape(example):
        raise BrokenCheckpointError(
            f"an array of the checkpoint has the shape {list(np.shape(leaf))}, and the run's "
            f"settings need {list(np.shape(example))}: restore the files of one and the same run"
        )
    if isinstance(example, np.ndarray):
        return leaf
    sharding = getattr(example, "sharding", None)
    return jnp.asarray(leaf) if sharding is None else jax.device_put(leaf, sharding)
