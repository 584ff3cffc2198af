"""Learning from the replay: targets, loss, update, reanalysis."""

from delayzero.learning.config import LearnerConfig, ReanalysisConfig
from delayzero.learning.update import Learner, LearnerState

__all__ = ["Learner", "LearnerConfig", "LearnerState", "ReanalysisConfig"]
