"""Search from a latent state with a learned model, and rolling it through actions under way."""

from delayzero.planning.rolling import plan_queue, roll
from delayzero.planning.search import Planner, SearchResult

__all__ = ["Planner", "SearchResult", "plan_queue", "roll"]
