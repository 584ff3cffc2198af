"""The problems of the theory: the paper's worked example, and the counterexamples to theorem 2."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from delayzero.delays import make_schedule
from delayzero.tabular.mdp import MDP, SEDMDP
from delayzero.tabular.paths import History

EXAMPLE_DELAYS = (5, 4, 4, 4, 3)
"""z_0 .. z_4 of the paper's worked example, M = 5."""


def worked_example() -> dict[int, list[int]]:
    """The pending queue at t = 5 for each z_5, as the times of the decisions in it."""
    schedule = make_schedule("latest-generated", 5)
    for delay in EXAMPLE_DELAYS:
        schedule.push(delay)
    return {delay: schedule.pending(delay) for delay in range(5, -1, -1)}


def noisy_xor(slip: Fraction, horizon: int) -> SEDMDP:
    """Two states, two actions, delay 1: s' = s xor a but for slips, and r = s xor a."""
    transitions = np.full((2, 2, 2), Fraction(0), dtype=object)
    rewards = np.full((2, 2), Fraction(0), dtype=object)
    for state in range(2):
        for action in range(2):
            transitions[state, action, state ^ action] = 1 - slip
            transitions[state, action, 1 - (state ^ action)] = slip
            rewards[state, action] = Fraction(state ^ action)
    initial = np.array([Fraction(1), Fraction(0)], dtype=object)
    return SEDMDP.make(MDP(transitions, rewards, initial, horizon), "constant:1", 0)


def opposite_of_prediction(history: History, decided: tuple[int, ...]) -> Sequence[Any]:
    """d_t = not (s_t xor x_t), with x_t the pending action: deterministic, of the history.

    Under a delay of 1 the pending action is the last decision, which is itself a function of the
    history: it is worked out from the states alone, the default action being 0.
    """
    pending = 0
    for state in history[0::3]:
        pending = 1 - (state ^ pending)
    return [1 - pending, pending]


def copy_the_first(history: History, decided: tuple[int, ...]) -> Sequence[Any]:
    """d_0 is a coin's, d_1 = d_0, then 0: a policy that looks at its own pending decision."""
    half = Fraction(1, 2)
    if not decided:
        return [half, half]
    return [1 - decided[0], decided[0]] if len(decided) == 1 else [1, 0]
