"""How agents act: what each observes, what it decides, what it logs."""

from delayzero.agents.acting import (
    Carry,
    Foreseen,
    act,
    begin_acting,
    plan_first_queue,
    uniform_actions,
)
from delayzero.agents.agent import Agent, Decision, Logs, Observed, obstacle
from delayzero.agents.build import Built, build_agent
from delayzero.agents.delayed_q import DelayedQAgent
from delayzero.agents.planning import PlanningAgent
from delayzero.agents.random import RandomAgent

__all__ = [
    "Agent",
    "Built",
    "Carry",
    "Decision",
    "DelayedQAgent",
    "Foreseen",
    "Logs",
    "Observed",
    "PlanningAgent",
    "RandomAgent",
    "act",
    "begin_acting",
    "build_agent",
    "obstacle",
    "plan_first_queue",
    "uniform_actions",
]
