"""Dynamic programming for the undelayed MDP and for the MDP augmented by queue and delay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from delayzero.tabular.mdp import (
    MDP,
    SEDMDP,
    Array,
    ProblemSizeError,
    check_distributions,
    is_exact,
)

TOLERANCE = 1e-12


@dataclass(frozen=True, eq=False)
class Solution:
    """Action values of the optimum or of a policy.

    Attributes:
        q: Action values, with actions on the last axis. One array per time step, or a single
            array for all times if the horizon is infinite.
        value: The expected return from the start.
    """

    q: list[Array]
    value: Any

    def at(self, time: int) -> Array:
        """The action values at a time; after the horizon, those of the last step."""
        return self.q[min(time, len(self.q) - 1)]

    def greedy(self, time: int) -> Array:
        """The best action at a time; ties go to the first."""
        return best(self.at(time))


def best(q: Array) -> Array:
    """The index of the maximum on the last axis; ties, to 1e-12 for floats, go to the first."""
    top = q.max(axis=-1, keepdims=True)
    ties = q >= top - TOLERANCE if q.dtype != object else q == top
    return np.asarray(ties.argmax(axis=-1))


def solve_undelayed(mdp: MDP) -> Solution:
    """Solve the undelayed problem; action values are ``[S, A]`` at each time."""

    def backup(values: Array) -> Array:
        return np.asarray(mdp.rewards + mdp.discount * np.dot(mdp.transitions, values))

    tables = _iterate(mdp, backup, lambda time, q: q.max(axis=-1), np.zeros_like(mdp.initial))
    return Solution(tables, np.dot(mdp.initial, tables[0].max(axis=-1)))


def solve_augmented(problem: SEDMDP) -> Solution:
    """Solve the augmented problem, whose states are (state, queue, delay).

    Its value is the optimum over all policies. Action values are ``[S, A^M, M + 1, A]`` at each
    time.

    Raises:
        ProblemSizeError: The problem is too large, or has Fractions and no horizon.
    """
    return _augmented(problem, lambda time, q: q.max(axis=-1))


def evaluate(problem: SEDMDP, policy: Any) -> Any:
    """The expected return of a policy of (state, queue, delay).

    Args:
        problem: The SED-MDP.
        policy: Maps a time to decisions ``[S, A^M, M + 1]`` (whole numbers) or distributions over
            them ``[S, A^M, M + 1, A]``. If the horizon is infinite, its table for time 0 applies
            at all times.

    Raises:
        ProblemSizeError: The problem is too large, or the policy's table has the wrong shape.
    """

    def follow(time: int, q: Array) -> Array:
        table = np.asarray(policy(time))
        if table.shape not in (q.shape, q.shape[:-1]):
            raise ProblemSizeError(
                f"the policy gives a table of shape {table.shape} at time {time}; decisions "
                f"should have {q.shape[:-1]}, distributions {q.shape}"
            )
        if table.ndim == q.ndim:
            check_distributions("the policy", table)
            return np.asarray((table * q).sum(axis=-1))
        return np.take_along_axis(q, table[..., None], axis=-1)[..., 0]

    return _augmented(problem, follow).value


def _augmented(problem: SEDMDP, choose: Any) -> Solution:
    mdp, delays = problem.mdp, problem.delays
    count = problem.max_delay + 1
    table = mdp.states * problem.queues * count * mdp.actions
    problem.check_size("the augmented problem", table * (mdp.horizon or 1))

    def backup(values: Array) -> Array:
        return action_values(problem, np.dot(values, delays.kernel.T))  # over the next delay

    begin = np.zeros((mdp.states, problem.queues, count), dtype=mdp.transitions.dtype)
    tables = _iterate(mdp, backup, choose, begin)
    values = choose(0, tables[0])[:, problem.default_number]
    return Solution(tables, np.dot(mdp.initial, np.dot(values, delays.first)))


def action_values(problem: SEDMDP, following: Array) -> Array:
    """The value of each decision, ``[S, A^M, M + 1, A]``.

    Args:
        problem: The SED-MDP.
        following: The value of the next state and queue, given the current delay,
            ``[S, A^M, M + 1]``.
    """
    mdp = problem.mdp
    executed, left = problem.moves
    q = np.empty((*following.shape, mdp.actions), dtype=following.dtype)
    for delay in range(problem.max_delay + 1):
        # [S, A, A^M]: the value of executing an action and keeping a queue.
        after = mdp.rewards[:, :, None] + mdp.discount * np.tensordot(
            mdp.transitions, following[:, :, delay], axes=(2, 0)
        )
        q[:, :, delay] = after[:, executed[delay], left[delay]]
    return q


def _iterate(mdp: MDP, backup: Any, choose: Any, values: Array) -> list[Array]:
    """Iterate backward over the horizon or, without one, until the values converge."""
    tables: list[Array] = []
    if mdp.horizon is not None:
        for time in range(mdp.horizon - 1, -1, -1):
            tables.append(backup(values))
            values = choose(time, tables[-1])
        return tables[::-1]
    if is_exact(mdp.transitions):
        raise ProblemSizeError(
            "without a horizon the problem is solved in floats; fractions need a horizon"
        )
    while True:
        table = backup(values)
        new = choose(0, table)
        if np.max(np.abs(new - values)) <= 1e-13 * max(1.0, float(np.max(np.abs(new)))):
            return [table]
        values = new
