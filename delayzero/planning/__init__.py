"""Tree search with a learned model, and rolling states through the pending actions."""

from delayzero.planning.rolling import plan_queue, roll
from delayzero.planning.search import Planner, SearchResult

__all__ = ["Planner", "SearchResult", "plan_queue", "roll"]
