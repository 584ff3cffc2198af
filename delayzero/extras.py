"""Importing optional dependencies; the error for a missing one says what to type."""

from __future__ import annotations

import importlib
from types import ModuleType


class MissingExtraError(ImportError):
    """A package is missing that one of delayzero's extras installs."""


def require(module: str, extra: str) -> ModuleType:
    """Import an optional dependency.

    Args:
        module: The module's dotted name, such as ``"matplotlib.figure"``.
        extra: The extra that installs it, such as ``"cli"``.

    Raises:
        MissingExtraError: The module is not installed. The message has the line to type.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if (error.name or "").partition(".")[0] != package:
            raise
        raise MissingExtraError(
            f"{package} is not installed; type: pip install 'delayzero[{extra}]'", name=package
        ) from None


def require_training() -> None:
    """Import the packages that training and evaluation need, each before those that import it.

    Raises:
        MissingExtraError: One is not installed. The message has the line to type.
    """
    for module in (
        *("jax", "chex", "optax", "orbax.checkpoint", "flax.linen", "mctx"),
        "tensorboard.summary.writer.event_file_writer",
    ):
        require(module, "train")
