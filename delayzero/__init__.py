"""delayzero: reinforcement learning when actions take effect late."""

__version__ = "0.1.0.dev0"
