"""Playing whole episodes to judge an agent."""

from delayzero.evaluation.episodes import Episode, Evaluator, summary

__all__ = ["Episode", "Evaluator", "summary"]
