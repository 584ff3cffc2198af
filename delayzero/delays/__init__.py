"""Delays for any Gymnasium environment: laws, schedules and wrappers.

The package needs only numpy and gymnasium. ``docs/delays.md`` is its reference.
"""

from delayzero.delays.callback import Callback
from delayzero.delays.channel import Channel
from delayzero.delays.execution import DelayedExecution
from delayzero.delays.independent import Categorical, Constant, PerEpisode, Uniform
from delayzero.delays.latency import (
    MM1,
    Exponential,
    Gamma,
    HyperExponential,
    InSteps,
    Jitter,
    LogNormal,
    Outage,
)
from delayzero.delays.law import Context, DelayError, Law
from delayzero.delays.markov import GilbertElliott, MarkovChain, Walk
from delayzero.delays.observation import DelayedObservation, DelayedObservationVector
from delayzero.delays.schedule import RULES, Rule, Schedule, make_schedule
from delayzero.delays.stream import DelayStream
from delayzero.delays.sums import Sum
from delayzero.delays.text import parse
from delayzero.delays.trace import Trace
from delayzero.delays.vector import DelayedExecutionVector

__all__ = [
    "MM1",
    "RULES",
    "Callback",
    "Categorical",
    "Channel",
    "Constant",
    "Context",
    "DelayError",
    "DelayStream",
    "DelayedExecution",
    "DelayedExecutionVector",
    "DelayedObservation",
    "DelayedObservationVector",
    "Exponential",
    "Gamma",
    "GilbertElliott",
    "HyperExponential",
    "InSteps",
    "Jitter",
    "Law",
    "LogNormal",
    "MarkovChain",
    "Outage",
    "PerEpisode",
    "Rule",
    "Schedule",
    "Sum",
    "Trace",
    "Uniform",
    "Walk",
    "make_schedule",
    "parse",
]
