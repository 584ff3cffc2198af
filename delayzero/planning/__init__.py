"""Search from a latent state with a learned model."""

from delayzero.planning.search import Planner, SearchConfig, SearchResult

__all__ = ["Planner", "SearchConfig", "SearchResult"]
