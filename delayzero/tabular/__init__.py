"""Exact solvers for finite stochastic-execution-delay MDPs (SED-MDPs): the paper's theory as code.

Notation, theorems and results are in ``docs/theory.md``. Needs numpy and :mod:`delayzero.delays`.
"""

from delayzero.tabular.acting import WAYS, solve_unseen, values_of_acting
from delayzero.tabular.families import FAMILIES, random_mdp
from delayzero.tabular.mdp import MDP, SEDMDP, DelayProcess, ProblemSizeError, exact
from delayzero.tabular.paths import (
    effective_times,
    expected_return,
    formula_law,
    markovise,
    path_law,
    product_formula,
    total_variation,
)
from delayzero.tabular.restricted import (
    Best,
    View,
    predicted_and_delay,
    solve_restricted,
    state_and_delay,
    state_and_delays,
)
from delayzero.tabular.solve import Solution, evaluate, solve_augmented, solve_undelayed

__all__ = [
    "FAMILIES",
    "MDP",
    "SEDMDP",
    "WAYS",
    "Best",
    "DelayProcess",
    "ProblemSizeError",
    "Solution",
    "View",
    "effective_times",
    "evaluate",
    "exact",
    "expected_return",
    "formula_law",
    "markovise",
    "path_law",
    "predicted_and_delay",
    "product_formula",
    "random_mdp",
    "solve_augmented",
    "solve_restricted",
    "solve_undelayed",
    "solve_unseen",
    "state_and_delay",
    "state_and_delays",
    "total_variation",
    "values_of_acting",
]
