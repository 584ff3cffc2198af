"""What can be set about a run: frozen dataclasses, presets, and the words of the command line.

Nothing here imports JAX: the command line's help, and whatever plans runs, works without it.
"""

from delayzero.settings.agents import AGENTS, AgentKind, AgentName
from delayzero.settings.learning import LearnerConfig, QConfig, ReanalysisConfig
from delayzero.settings.model import ActionCode, ModelConfig
from delayzero.settings.presets import PRESETS, compose
from delayzero.settings.replay import ReplayConfig, WeightKind
from delayzero.settings.run import TrainConfig
from delayzero.settings.search import Method, SearchConfig

__all__ = [
    "AGENTS",
    "PRESETS",
    "ActionCode",
    "AgentKind",
    "AgentName",
    "LearnerConfig",
    "Method",
    "ModelConfig",
    "QConfig",
    "ReanalysisConfig",
    "ReplayConfig",
    "SearchConfig",
    "TrainConfig",
    "WeightKind",
    "compose",
]
