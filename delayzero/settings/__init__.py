"""Settings of a run: frozen dataclasses, presets, and command-line options.

Nothing here imports JAX, so the command line's help and the planning of runs work without it.
"""

from delayzero.settings.agents import AGENTS, AgentKind, AgentName, agent_kind
from delayzero.settings.delays import DelaySettings, FirstQueue
from delayzero.settings.learning import LearnerConfig, QConfig, ReanalysisConfig
from delayzero.settings.model import ActionCode, ModelConfig
from delayzero.settings.presets import PRESETS, changed, compose
from delayzero.settings.replay import ReplayConfig, WeightKind
from delayzero.settings.run import (
    DelayedConfig,
    DelayedQConfig,
    LearningConfig,
    PlanningConfig,
    RandomConfig,
    SearchingConfig,
    TrainConfig,
    UndelayedConfig,
)
from delayzero.settings.search import Method, SearchConfig

__all__ = [
    "AGENTS",
    "PRESETS",
    "ActionCode",
    "AgentKind",
    "AgentName",
    "DelaySettings",
    "DelayedConfig",
    "DelayedQConfig",
    "FirstQueue",
    "LearnerConfig",
    "LearningConfig",
    "Method",
    "ModelConfig",
    "PlanningConfig",
    "QConfig",
    "RandomConfig",
    "ReanalysisConfig",
    "ReplayConfig",
    "SearchConfig",
    "SearchingConfig",
    "TrainConfig",
    "UndelayedConfig",
    "WeightKind",
    "agent_kind",
    "changed",
    "compose",
]
