"""Playing with an agent: environments under their delay, one who plays them, an audit."""

from delayzero.playing.player import Ending, Player
from delayzero.playing.system import System, build_system

__all__ = ["Ending", "Player", "System", "build_system"]
