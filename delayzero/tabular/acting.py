"""Ways of acting under delay, as policies of (state, queue, delay), and their values."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from delayzero.tabular.mdp import SEDMDP, Array, is_exact
from delayzero.tabular.solve import (
    Solution,
    action_values,
    best,
    evaluate,
    solve_augmented,
    solve_undelayed,
)

Policy = Callable[[int], Array]
"""Maps a time to decisions ``[S, A^M, M + 1]`` or their distributions ``[S, A^M, M + 1, A]``."""


def beliefs(problem: SEDMDP) -> Array:
    """The distribution of the state in which the next decision executes, ``[S, A^M, M + 1, S]``.

    It is the current state rolled through the first z actions of the queue.
    """
    mdp, count = problem.mdp, problem.max_delay + 1
    problem.check_size("the beliefs", mdp.states**2 * problem.queues * count)
    rolled = np.zeros((mdp.states, problem.queues, mdp.states), dtype=mdp.transitions.dtype)
    for state in range(mdp.states):
        rolled[state, :, state] += 1
    result = [rolled]
    for slot in range(problem.max_delay):
        step = mdp.transitions[:, problem.queue_slots[:, slot]]  # [S, A^M, S]
        parts = [rolled[:, :, s, None] * step[None, s] for s in range(mdp.states)]
        rolled = np.sum(parts, axis=0)
        result.append(rolled)
    return np.stack(result, axis=2)


def predicted_states(problem: SEDMDP) -> Array:
    """The most likely state in which the next decision executes, ``[S, A^M, M + 1]``."""
    return best(beliefs(problem))


def _by_delay(problem: SEDMDP, of_delay: Callable[[int], Array]) -> Array:
    """The table ``[S, A^M, M + 1, ...]`` whose slice at delay z is ``of_delay(z)``."""
    return np.stack([of_delay(delay) for delay in range(problem.max_delay + 1)], axis=2)


def oblivious(problem: SEDMDP) -> Policy:
    """Ignore the delay: act by the undelayed optimum in the current state."""
    solution = solve_undelayed(problem.mdp)
    shape = (problem.mdp.states, problem.queues, problem.max_delay + 1)
    problem.check_size("the policy", problem.mdp.states * problem.queues * shape[2])
    return lambda time: np.broadcast_to(solution.greedy(time)[:, None, None], shape)


def at_most_likely(problem: SEDMDP) -> Policy:
    """Act by the undelayed optimum in the most likely state after z steps.

    This idealises point predictions, such as those of model-based simulation (MBS). The latent
    state that DEZ predicts can stand for several states.
    """
    solution, predicted = solve_undelayed(problem.mdp), predicted_states(problem)
    return lambda time: _by_delay(
        problem, lambda delay: solution.greedy(time + delay)[predicted[:, :, delay]]
    )


def at_sampled(problem: SEDMDP) -> Policy:
    """Act by the undelayed optimum in a state drawn from the belief."""
    solution, belief = solve_undelayed(problem.mdp), beliefs(problem)
    choices = np.eye(problem.mdp.actions, dtype=int)
    return lambda time: _by_delay(
        problem, lambda delay: np.dot(belief[:, :, delay], choices[solution.greedy(time + delay)])
    )


def averaged(problem: SEDMDP) -> Policy:
    """Take the action that maximises the undelayed Q, averaged over the belief."""
    solution, belief = solve_undelayed(problem.mdp), beliefs(problem)
    return lambda time: _by_delay(
        problem, lambda delay: best(np.dot(belief[:, :, delay], solution.at(time + delay)))
    )


WAYS: dict[str, Callable[[SEDMDP], Policy]] = {
    "oblivious": oblivious,
    "at the most likely state": at_most_likely,
    "at a sampled state": at_sampled,
    "Q averaged over the belief": averaged,
}


def solve_unseen(problem: SEDMDP) -> Any:
    """The optimal value of an agent that decides before it observes z_t.

    It observes the state, the queue and all earlier delays.

    Raises:
        ValueError: The problem has no horizon.
    """
    mdp, delays, count = problem.mdp, problem.delays, problem.max_delay + 1
    if mdp.horizon is None:
        raise ValueError("the optimum without observing z_t needs a horizon; set MDP.horizon")
    problem.check_size("the augmented problem", mdp.states * problem.queues * count * mdp.actions)
    # Indexed by the last observed delay: a decision's delay is observed at the next decision.
    values = np.zeros((mdp.states, problem.queues, count), dtype=mdp.transitions.dtype)
    for _ in range(mdp.horizon - 1):
        q = action_values(problem, values)  # [S, A^M, z_t, A]
        values = np.tensordot(q, delays.kernel, axes=(2, 1)).max(axis=2)
    first = np.tensordot(action_values(problem, values), delays.first, axes=(2, 0)).max(axis=-1)
    return np.dot(mdp.initial, first[:, problem.default_number])


def values_of_acting(problem: SEDMDP) -> dict[str, Any]:
    """The value of each way of acting, of the optima, and of random play, by name."""
    optimum: Solution = solve_augmented(problem)
    values: dict[str, Any] = {
        "undelayed optimum": solve_undelayed(problem.mdp).value,
        "optimum (state, queue, delay)": optimum.value,
    }
    if problem.mdp.horizon is not None:
        values["optimum that does not see z_t"] = solve_unseen(problem)
    for name, way in WAYS.items():
        values[name] = evaluate(problem, way(problem))
    shape = (problem.mdp.states, problem.queues, problem.max_delay + 1, problem.mdp.actions)
    one = Fraction(1) if is_exact(problem.mdp.transitions) else 1.0
    uniform = np.full(shape, one / problem.mdp.actions)
    values["random"] = evaluate(problem, lambda time: uniform)
    return values
