"""Playing with an agent: environments under their delay, one who plays them, an audit."""

from delayzero.playing.player import Ending, Player, Step
from delayzero.playing.system import System, build_system

__all__ = ["Ending", "Player", "Step", "System", "build_system"]
