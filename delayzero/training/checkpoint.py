"""Checkpoints: everything a run needs to go on exactly, written by orbax, whole or not at all."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

logging.getLogger("absl").setLevel(logging.WARNING)  # orbax reports every file


class Checkpoints:
    """The checkpoints of a run; the newest is kept.

    One has the parts ``learner`` (weights, optimiser, counters), ``replay``, ``collector`` (the
    acting agent and the log of actions) and ``progress`` (plain numbers). Each part is a tree of
    arrays, restored into the form of an example.
    """

    def __init__(self, folder: Path) -> None:
        options = ocp.CheckpointManagerOptions(
            max_to_keep=1,
            create=True,
            cleanup_tmp_directories=True,
            enable_async_checkpointing=False,
        )
        self._manager = ocp.CheckpointManager(folder.absolute(), options=options)

    def latest(self) -> int | None:
        """The number of the newest checkpoint, or None."""
        step: int | None = self._manager.latest_step()
        return step

    def save(self, step: int, parts: dict[str, Any], progress: dict[str, Any]) -> None:
        """Write a checkpoint; the one before goes when this one is complete."""
        items = {name: ocp.args.PyTreeSave(part) for name, part in parts.items()}
        self._manager.save(
            step, args=ocp.args.Composite(progress=ocp.args.JsonSave(progress), **items)
        )

    def progress(self) -> dict[str, Any]:
        """The plain numbers of the newest checkpoint."""
        args = ocp.args.Composite(progress=ocp.args.JsonRestore())
        found = self._manager.restore(self._manager.latest_step(), args=args)
        progress: dict[str, Any] = found["progress"]
        return progress

    def restore(self, examples: dict[str, Any]) -> dict[str, Any]:
        """Parts of the newest checkpoint.

        Args:
            examples: A tree of arrays, or of their shapes, for each part that is wanted.
        """
        items = {}
        for name, example in examples.items():
            restore = jax.tree.map(_restore_args, example)
            items[name] = ocp.args.PyTreeRestore(item=example, restore_args=restore)
        found = self._manager.restore(self._manager.latest_step(), args=ocp.args.Composite(**items))
        return {name: found[name] for name in examples}

    def close(self) -> None:
        """End."""
        self._manager.close()


def _restore_args(leaf: Any) -> Any:
    """How a leaf comes back: numpy arrays as such, others on the device."""
    if isinstance(leaf, np.ndarray):
        return ocp.RestoreArgs(restore_type=np.ndarray, dtype=leaf.dtype)
    sharding = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
    return ocp.ArrayRestoreArgs(sharding=sharding, global_shape=leaf.shape, dtype=leaf.dtype)
