"""Learning from the replay: targets, losses, updates and reanalysis."""

from delayzero.learning.learner import AnyLearner, LearnerState
from delayzero.learning.none import NoLearner
from delayzero.learning.q_learning import QLearner
from delayzero.learning.update import Learner

__all__ = [
    "AnyLearner",
    "Learner",
    "LearnerState",
    "NoLearner",
    "QLearner",
]
