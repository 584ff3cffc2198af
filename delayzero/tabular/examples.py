"""The paper's worked example, and counterexamples to theorem 2."""

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
    """For each z_5, the pending queue at t = 5 as a list of decision times."""
    schedule = make_schedule("latest-generated", 5)
    for delay in EXAMPLE_DELAYS:
        schedule.push(delay)
    return {delay: schedule.pending(delay) for delay in range(5, -1, -1)}


def noisy_xor(slip: Fraction, horizon: int) -> SEDMDP:
    """Two states, two actions, delay 1, r = s xor a, s' = s xor a.

    With probability ``slip`` the next state is the other one.
    """
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
    """Decide d_t = not (s_t xor x_t), where x_t is the pending action.

    Under a delay of 1 the pending action is the previous decision. It follows from the states
    alone, since the default action is 0, so this is a deterministic policy of the history.
    """
    pending = 0
    for state in history[0::3]:
        pending = 1 - (state ^ pending)
    return [1 - pending, pending]


def copy_the_first(history: History, decided: tuple[int, ...]) -> Sequence[Any]:
    """Toss a coin for d_0, repeat it as d_1, then decide 0.

    This is a policy of its own pending decision.
    """
    half = Fraction(1, 2)
    if not decided:
        return [half, half]
    return [1 - decided[0], decided[0]] if len(decided) == 1 else [1, 0]
