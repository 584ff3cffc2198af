"""Exact laws of paths: what really happens, and what the paper's first theorem says.

A history is the tuple ``(s_0, z_0, x_0, s_1, z_1, x_1, ..., s_t, z_t)`` with the executed actions
x; the paper's h_t. It has ``3 t + 2`` entries.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from delayzero.tabular.mdp import SEDMDP

History = tuple[int, ...]
HistoryPolicy = Callable[[History, tuple[int, ...]], Sequence[Any]]
"""The law of the decision at t, given h_t and the agent's own decisions d_0 .. d_{t-1}.

A policy of the paper's class looks at the history alone. One that looks at its own pending
decisions needs the second argument: they are no part of h_t until they run.
"""
Semantics = Literal["copy", "resample"]
PathLaw = dict[History, Any]


def effective_times(delays: Sequence[int], max_delay: int) -> list[int]:
    """tau_t = max{t' : t' + z_t' <= t} for each t; t - M while nothing has arrived (equation 1)."""
    return [effective_time(delays, time, max_delay) for time in range(len(delays))]


def effective_time(delays: Sequence[int], time: int, max_delay: int) -> int:
    """tau_t at one time; nothing older than M steps can be the latest to have arrived."""
    for earlier in range(time, max(time - max_delay, 0) - 1, -1):
        if earlier + delays[earlier] <= time:
            return earlier
    return time - max_delay


def switch_time(delays: Sequence[int], max_delay: int) -> int:
    """t_z, the first step that runs a decision; the number of delays if none does yet."""
    times = effective_times(delays, max_delay)
    return next((time for time, tau in enumerate(times) if tau >= 0), len(times))


def path_law(
    problem: SEDMDP, policy: HistoryPolicy, steps: int, semantics: Semantics = "copy"
) -> PathLaw:
    """The exact law of the history h_t after some steps, by enumeration.

    Args:
        problem: The SED-MDP.
        policy: Any history-dependent, randomised policy.
        steps: t.
        semantics: ``"copy"``: each decision is drawn once, when it is made, and a repeated one is
            the same action again. ``"resample"``: each executed step draws anew from the decision
            rule of its effective decision time, as the paper's equations read. It is for policies
            of the history alone: they are given no decisions.
    """
    if semantics not in ("copy", "resample"):
        raise ValueError(f"semantics '{semantics}' should be 'copy' or 'resample'")
    mdp, delays = problem.mdp, problem.delays
    problem.check_size(
        "the histories",
        mdp.states * (mdp.states * mdp.actions) ** steps * (problem.max_delay + 1) ** (steps + 1),
    )
    law: dict[tuple[History, tuple[int, ...]], Any] = {
        ((state, delay), ()): chance * share
        for state, chance in enumerate(mdp.initial)
        for delay, share in enumerate(delays.first)
        if chance and share
    }
    for _ in range(steps):
        following: dict[tuple[History, tuple[int, ...]], Any] = defaultdict(int)
        for (history, decided), weight in law.items():
            for action, now_decided, chance in _executed(
                problem, policy, history, decided, semantics
            ):
                for state, p in enumerate(mdp.transitions[history[-2], action]):
                    if not p:
                        continue
                    for delay, share in enumerate(delays.kernel[history[-1]]):
                        if share:
                            key = ((*history, action, state, delay), now_decided)
                            following[key] += weight * chance * p * share
        law = following
    total: PathLaw = defaultdict(int)
    for (history, _), weight in law.items():
        total[history] += weight
    return dict(total)


def _executed(
    problem: SEDMDP,
    policy: HistoryPolicy,
    history: History,
    decided: tuple[int, ...],
    semantics: Semantics,
) -> list[tuple[int, tuple[int, ...], Any]]:
    """The executed action, the decisions so far and the chance, for each draw of the policy."""
    time = len(history) // 3
    tau = effective_time(history[1::3], time, problem.max_delay)
    if semantics == "resample":
        if tau < 0:
            return [(problem.default[time], (), 1)]
        rule = policy(history[: 3 * tau + 2], ())
        return [(action, (), chance) for action, chance in enumerate(rule) if chance]
    return [
        (problem.default[time] if tau < 0 else (*decided, decision)[tau], (*decided, decision), p)
        for decision, p in enumerate(policy(history, decided))
        if p
    ]


def product_formula(
    problem: SEDMDP, policy: HistoryPolicy, history: History, corrected: bool = False
) -> Any:
    """The probability that theorem 1 gives a history, read with h at the decision's own time.

    Args:
        problem: The SED-MDP.
        policy: A policy of the history alone.
        history: h_t.
        corrected: Whether a repeated decision counts as what it is under copying: the same action
            again, with certainty. The paper has a factor of the policy there.
    """
    mdp, delays = problem.mdp, problem.delays
    states, lags, actions = history[0::3], history[1::3], history[2::3]
    taus = effective_times(lags, problem.max_delay)
    weight = mdp.initial[states[0]] * delays.first[lags[0]]
    for last, lag in pairwise(lags):
        weight = weight * delays.kernel[last, lag]
    for time, action in enumerate(actions):
        tau = taus[time]
        if tau < 0:
            factor: Any = int(action == problem.default[time])
        elif corrected and time and tau == taus[time - 1]:
            factor = int(action == actions[time - 1])
        else:
            factor = policy(history[: 3 * tau + 2], ())[action]
        weight = weight * factor * mdp.transitions[states[time], action, states[time + 1]]
    return weight


def total_variation(law: PathLaw, other: PathLaw) -> Any:
    """Half the sum of absolute differences."""
    return sum(abs(law.get(key, 0) - other.get(key, 0)) for key in {*law, *other}) / 2


def formula_law(
    problem: SEDMDP, policy: HistoryPolicy, histories: PathLaw, corrected: bool = False
) -> PathLaw:
    """The formula's probability of each of the given histories and of all others that it allows.

    The formula may give weight to histories that can't happen; they are those reached by drawing
    anew at each step, so that it is summed over the support of the resampling process.
    """
    steps = (len(next(iter(histories))) - 2) // 3
    support = {*histories, *path_law(problem, policy, steps, "resample")}
    return {h: product_formula(problem, policy, h, corrected) for h in support}


def expected_return(problem: SEDMDP, policy: HistoryPolicy) -> Any:
    """The expected return of a history-dependent policy over the horizon, by enumeration."""
    horizon = problem.mdp.horizon
    if horizon is None:
        raise ValueError("the return of a history-dependent policy needs a horizon")
    total: Any = 0
    for history, weight in path_law(problem, policy, horizon).items():
        for time, action in enumerate(history[2::3]):
            reward = problem.mdp.rewards[history[3 * time], action]
            total += weight * problem.mdp.discount**time * reward
    return total


def law_of_decision(law: PathLaw, time: int, max_delay: int) -> dict[tuple[int, int], Any]:
    """The law of (s_tau, x_t), which theorem 2 equates, from a law of histories.

    Where tau is negative, s_0 stands for s_tau.
    """
    result: dict[tuple[int, int], Any] = defaultdict(int)
    for history, weight in law.items():
        tau = effective_time(history[1::3], time, max_delay)
        result[history[3 * max(tau, 0)], history[3 * time + 2]] += weight
    return dict(result)


def markovise(problem: SEDMDP, policy: HistoryPolicy, steps: int) -> HistoryPolicy:
    """The Markov policy that the proof of theorem 2 builds from a policy.

    pi'_tau(s)(a) = P(x_t = a | s_tau = s), for a constant delay and one first state; uniform where
    s_tau = s can't be, and for decisions that run after ``steps``.
    """
    starts = np.flatnonzero(problem.delays.first)
    if len(starts) > 1 or problem.delays.kernel[starts[0], starts[0]] != 1:
        raise ValueError("the proof's policy is built for one path of delays: a constant delay")
    if np.count_nonzero(problem.mdp.initial) != 1:
        raise ValueError("the proof's policy is built for one first state")
    law = path_law(problem, policy, steps)
    tables: dict[tuple[int, int], dict[int, Any]] = defaultdict(lambda: defaultdict(int))
    for history, weight in law.items():
        taus = effective_times(history[1::3], problem.max_delay)
        for time, action in enumerate(history[2::3]):
            if taus[time] >= 0:
                tables[taus[time], history[3 * taus[time]]][action] += weight
    actions = range(problem.mdp.actions)

    def markov(history: History, decided: tuple[int, ...]) -> Sequence[Any]:
        table = tables.get((len(history) // 3, history[-2]))
        if table is None:
            return [problem.mdp.initial.sum() / problem.mdp.actions for _ in actions]
        return [table.get(action, 0) / sum(table.values()) for action in actions]

    return markov
