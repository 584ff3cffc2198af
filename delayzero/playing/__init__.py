"""Playing with an agent: environments under their delays, one who plays them, an audit."""

from delayzero.playing.environments import Delayed, Environments, delayed
from delayzero.playing.player import Ending, Player
from delayzero.playing.system import System, build_system

__all__ = [
    "Delayed",
    "Ending",
    "Environments",
    "Player",
    "System",
    "build_system",
    "delayed",
]
