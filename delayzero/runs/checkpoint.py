"""Checkpoints: everything a run needs to go on exactly, written by orbax, whole or not at all."""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp

from delayzero.arguments import UsageError

FILE_BYTES = 2**22
"""About the size of the files, and of the pieces that large arrays are cut into."""

logging.getLogger("absl").setLevel(logging.WARNING)  # orbax reports every file


class BrokenCheckpointError(UsageError):
    """A checkpoint cannot be read."""


class Checkpoints:
    """The checkpoints of a run; the newest is kept.

    One has the parts ``learner`` (weights, optimiser, counters), ``replay``, ``collector`` (the
    acting agent and the log of actions) and ``progress`` (plain numbers). Each part is a tree of
    arrays, restored into the form of an example.
    """

    def __init__(self, folder: Path, *, read_only: bool = False) -> None:
        """Open them.

        Args:
            folder: Where they are.
            read_only: Create and delete nothing: a run may be writing there. The run itself makes
                the folder, and deletes what it left half written when it was killed.
        """
        self._folder = folder.absolute()
        options = ocp.CheckpointManagerOptions(
            max_to_keep=None if read_only else 1,
            create=not read_only,
            cleanup_tmp_directories=not read_only,
            enable_async_checkpointing=False,
        )
        self._manager = ocp.CheckpointManager(self._folder, options=options)

    def latest(self) -> int | None:
        """The number of the newest checkpoint, or None."""
        step: int | None = self._manager.latest_step()
        return step

    def save(self, step: int, parts: dict[str, Any], progress: dict[str, Any]) -> None:
        """Write a checkpoint; the one before goes when this one is complete."""
        items = {
            name: ocp.args.PyTreeSave(
                part,
                save_args=jax.tree.map(lambda _: ocp.SaveArgs(chunk_byte_size=FILE_BYTES), part),
                ocdbt_target_data_file_size=FILE_BYTES,
            )
            for name, part in parts.items()
        }
        self._manager.save(
            step, args=ocp.args.Composite(progress=ocp.args.JsonSave(progress), **items)
        )

    def progress(self) -> dict[str, Any]:
        """The plain numbers of the newest checkpoint."""
        found = self._read({"progress": ocp.args.JsonRestore()})
        progress: dict[str, Any] = found["progress"]
        return progress

    def restore(self, examples: dict[str, Any]) -> dict[str, Any]:
        """Parts of the newest checkpoint.

        Args:
            examples: A tree of arrays, or of their shapes, for each part that is wanted.

        Raises:
            BrokenCheckpointError: It cannot be read.
        """
        items = {}
        for name, example in examples.items():
            restore = jax.tree.map(_restore_args, example)
            items[name] = ocp.args.PyTreeRestore(item=example, restore_args=restore)
        # Put where new arrays go. Read for a certain device by orbax they would be tied to it: to
        # JAX another kind of array, for which everything would be compiled once more.
        found = self._read(items)
        return {name: jax.tree.map(_placed, examples[name], found[name]) for name in examples}

    def _read(self, items: dict[str, Any]) -> dict[str, Any]:
        step, hook = self._manager.latest_step(), sys.unraisablehook
        sys.unraisablehook = functools.partial(_but_late_reads, hook)
        try:
            found = self._manager.restore(step, args=ocp.args.Composite(**items))
            sys.unraisablehook = hook  # after an error it stays: late reads come later
            return {name: found[name] for name in items}
        except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
            logging.getLogger("asyncio").addFilter(_no_late_reads)
            raise BrokenCheckpointError(
                f"the checkpoint {self._folder / str(step)} cannot be read "
                f"({type(error).__name__}): a part of it is missing or damaged, or it was written "
                "with other settings; put back a copy, move it away, or train in another --folder"
            ) from error

    def close(self) -> None:
        """End."""
        self._manager.close()


def _but_late_reads(hook: Callable[[Any], Any], error: Any) -> None:
    """Pass on what Python cannot raise, apart from reads that end after orbax gave up.

    It does so at the first damaged array; each other read then finds its event loop closed.
    """
    if str(error.exc_value) != "Event loop is closed":
        hook(error)


def _no_late_reads(record: logging.LogRecord) -> bool:
    """The same for asyncio's log, of reads that failed when nobody waited for them any more."""
    return "exception was never retrieved" not in record.getMessage()


def examples_of(tree: Any) -> Any:
    """A tree of arrays without their memory, for :meth:`Checkpoints.restore`."""

    def example(leaf: Any) -> Any:
        if isinstance(leaf, np.ndarray):
            return np.broadcast_to(np.zeros((), leaf.dtype), leaf.shape)  # one number, all over
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)

    return jax.tree.map(example, tree)


def _restore_args(leaf: Any) -> Any:
    """How a leaf is read."""
    return ocp.RestoreArgs(restore_type=np.ndarray, dtype=leaf.dtype)


def _placed(example: Any, leaf: Any) -> Any:
    """A leaf as it is wanted: numpy arrays as such, others on the device."""
    return leaf if isinstance(example, np.ndarray) else jnp.asarray(leaf)
