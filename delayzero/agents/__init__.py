"""How agents act: what each sees, what it decides, what it logs."""

from delayzero.agents.acting import Agent, act, first_stack, plan_first_queue
from delayzero.agents.delayed_q import DelayedQAgent
from delayzero.agents.kinds import AGENTS, AgentKind, AgentName
from delayzero.agents.planning import PlanningAgent
from delayzero.agents.player import Ending, Player, Step
from delayzero.agents.random import RandomAgent

__all__ = [
    "AGENTS",
    "Agent",
    "AgentKind",
    "AgentName",
    "DelayedQAgent",
    "Ending",
    "PlanningAgent",
    "Player",
    "RandomAgent",
    "Step",
    "act",
    "first_stack",
    "plan_first_queue",
]
