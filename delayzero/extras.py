"""Optional dependencies: import them here, and a missing one says what to type."""

from __future__ import annotations

import importlib
from types import ModuleType


class MissingExtraError(ImportError):
    """A feature needs a package that an extra of delayzero installs."""


def require(module: str, extra: str) -> ModuleType:
    """Import ``module``, or say which extra of delayzero brings it.

    Args:
        module: The dotted name of the module to import, such as ``"matplotlib.figure"``.
        extra: The extra of delayzero that installs it, such as ``"cli"``.

    Raises:
        MissingExtraError: The module is not installed; the message is the line to type.
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
    """Import what training and evaluation need, or say what to type; each before its users."""
    for module in (
        *("jax", "chex", "optax", "orbax.checkpoint", "flax.linen", "mctx"),
        "tensorboard.summary.writer.event_file_writer",
    ):
        require(module, "train")
