"""How agents act: what each sees, what it decides, what it logs."""

from delayzero.agents.acting import Agent, act, first_stack, plan_first_queue
from delayzero.agents.delayed_q import DelayedQAgent
from delayzero.agents.planning import PlanningAgent
from delayzero.agents.random import RandomAgent

__all__ = [
    "Agent",
    "DelayedQAgent",
    "PlanningAgent",
    "RandomAgent",
    "act",
    "first_stack",
    "plan_first_queue",
]
