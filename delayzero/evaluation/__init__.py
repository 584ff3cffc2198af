"""Playing whole episodes to judge an agent."""

from delayzero.extras import require

require("jax", "train")

from delayzero.evaluation.episodes import Episode, Evaluator, summary  # noqa: E402

__all__ = ["Episode", "Evaluator", "summary"]
