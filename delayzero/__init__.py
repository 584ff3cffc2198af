"""delayzero: reinforcement learning when actions take effect late.

``delayzero.delays`` puts delays on Gymnasium environments, with numpy and gymnasium alone.
:func:`train` and :func:`load` train an agent under delay and load what it has learned; they need
the extra ``train``, and import JAX when they are first used.
"""

from typing import TYPE_CHECKING, Any

from delayzero.arguments import UsageError

__version__ = "0.1.0.dev0"
__all__ = ["Policy", "Run", "UsageError", "__version__", "load", "train"]

if TYPE_CHECKING:
    from delayzero.api import Policy, Run, load, train


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    """Import the Python API when it is used."""
    if name in __all__:
        import delayzero.api

        return getattr(delayzero.api, name)
    raise AttributeError(f"module 'delayzero' has no attribute '{name}'")
