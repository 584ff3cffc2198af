"""Tree search with a learned model, and rolling states through the pending actions."""

from delayzero.planning.rolling import foresee, plan_queue, roll
from delayzero.planning.search import Planner, SearchResult

__all__ = ["Planner", "SearchResult", "foresee", "plan_queue", "roll"]
