"""Exact distributions over histories: those of the process, and those that theorem 1 states.

A history is the tuple ``(s_0, z_0, x_0, s_1, z_1, x_1, ..., s_t, z_t)``, the paper's h_t, where x
are the executed actions. It has ``3 t + 2`` entries.
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
"""Maps h_t and the agent's decisions d_0 .. d_{t-1} to the distribution of d_t.

The paper's policies use the history alone. A policy of its own pending decisions needs the second
argument: a decision is not part of the history until it executes.
"""
Semantics = Literal["copy", "resample"]
PathLaw = dict[History, Any]


def effective_times(delays: Sequence[int], max_delay: int) -> list[int]:
    """tau_t = max{t' : t' + z_t' <= t} for each t, or t - M before any arrival (equation 1)."""
    return [effective_time(delays, time, max_delay) for time in range(len(delays))]


def effective_time(delays: Sequence[int], time: int, max_delay: int) -> int:
    """tau_t at one time; the latest decision to arrive is at most M steps old."""
    for earlier in range(time, max(time - max_delay, 0) - 1, -1):
        if earlier + delays[earlier] <= time:
            return earlier
    return time - max_delay


def switch_time(delays: Sequence[int], max_delay: int) -> int:
    """t_z, the first step that executes a decision; the number of delays if there is none."""
    times = effective_times(delays, max_delay)
    return next((time for time, tau in enumerate(times) if tau >= 0), len(times))


def path_law(
    problem: SEDMDP, policy: HistoryPolicy, steps: int, semantics: Semantics = "copy"
) -> PathLaw:
    """The exact distribution of the history h_t, by enumeration.

    Args:
        problem: The SED-MDP.
        policy: A history-dependent policy, which may be randomised.
        steps: t.
        semantics: ``"copy"``: each decision is drawn once, when it is made; executing it again
            repeats the action. ``"resample"``: each executed step draws a new action from the
            policy at its effective decision time, as in the paper's equations. Under
            ``"resample"`` the policy receives no decisions, so it must use the history alone.

    Raises:
        ValueError: Unknown semantics.
        ProblemSizeError: There are too many histories.
    """
    if semantics not in ("copy", "resample"):
        raise ValueError(f"unknown semantics '{semantics}'; choose from copy, resample")
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
    """(executed action, decisions so far, probability) for each draw of the policy."""
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
    """The probability of a history by theorem 1, with the policy at the history of the decision.

    Args:
        problem: The SED-MDP.
        policy: A policy of the history alone.
        history: h_t.
        corrected: Give a repeated decision the factor 1 for the same action and 0 for others, as
            copying implies. The paper has a factor of the policy there.
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
    """The total variation distance: half the sum of absolute differences."""
    return sum(abs(law.get(key, 0) - other.get(key, 0)) for key in {*law, *other}) / 2


def formula_law(
    problem: SEDMDP, policy: HistoryPolicy, histories: PathLaw, corrected: bool = False
) -> PathLaw:
    """The formula's probability of the given histories and of all others that it allows.

    The formula may give weight to impossible histories. Resampling reaches all of those, so the
    result covers the support of the resampling process.
    """
    steps = (len(next(iter(histories))) - 2) // 3
    support = {*histories, *path_law(problem, policy, steps, "resample")}
    return {h: product_formula(problem, policy, h, corrected) for h in support}


def expected_return(problem: SEDMDP, policy: HistoryPolicy) -> Any:
    """The expected return of a history-dependent policy over the horizon, by enumeration.

    Raises:
        ValueError: The problem has no horizon.
    """
    horizon = problem.mdp.horizon
    if horizon is None:
        raise ValueError(
            "the return of a history-dependent policy needs a horizon; set MDP.horizon"
        )
    total: Any = 0
    for history, weight in path_law(problem, policy, horizon).items():
        for time, action in enumerate(history[2::3]):
            reward = problem.mdp.rewards[history[3 * time], action]
            total += weight * problem.mdp.discount**time * reward
    return total


def law_of_decision(law: PathLaw, time: int, max_delay: int) -> dict[tuple[int, int], Any]:
    """The distribution of (s_tau, x_t), which theorem 2 equates, from that of histories.

    Where tau is negative, s_0 takes the place of s_tau.
    """
    result: dict[tuple[int, int], Any] = defaultdict(int)
    for history, weight in law.items():
        tau = effective_time(history[1::3], time, max_delay)
        result[history[3 * max(tau, 0)], history[3 * time + 2]] += weight
    return dict(result)


def markovise(problem: SEDMDP, policy: HistoryPolicy, steps: int) -> HistoryPolicy:
    """The Markov policy that the proof of theorem 2 constructs from a policy.

    pi'_tau(s)(a) = P(x_t = a | s_tau = s), for a constant delay and a fixed initial state. It is
    uniform where s_tau = s is impossible, and for decisions that execute after ``steps``.

    Raises:
        ValueError: The delay is not constant, or the initial state is random.
    """
    starts = np.flatnonzero(problem.delays.first)
    if len(starts) > 1 or problem.delays.kernel[starts[0], starts[0]] != 1:
        raise ValueError("the construction of the proof needs a constant delay")
    if np.count_nonzero(problem.mdp.initial) != 1:
        raise ValueError("the construction of the proof needs a fixed initial state")
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
