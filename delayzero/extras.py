"""Importing optional dependencies; the error for a missing one says what to type."""

from __future__ import annotations

import importlib.util
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
        raise _missing(package, extra) from None


def check_installed(package: str, extra: str) -> None:
    """Check that an optional dependency is installed, without importing it.

    Raises:
        MissingExtraError: It is not. The message has the line to type.
    """
    if importlib.util.find_spec(package) is None:
        raise _missing(package, extra)


def _missing(package: str, extra: str) -> MissingExtraError:
    return MissingExtraError(
        f"{package} is not installed; type: pip install 'delayzero[{extra}]'", name=package
    )


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
