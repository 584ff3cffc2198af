"""Execution delay straight from the definition of tau: slow, obvious, and by other means.

Nothing here uses queues, dynamic programming or the package's solvers; a problem is only read.
"""

from collections import defaultdict
from fractions import Fraction
from math import lcm

import numpy as np

from delayzero.tabular.mdp import MDP, SEDMDP, DelayProcess, exact

LAWS = (
    "constant:1",
    "constant:2",
    "uniform:0-1",
    "uniform:0-2",
    "categorical:0=0.25,2=0.75",
    "walk:1",
    "walk:2,up=0.5,down=0.25",
    "markov:0-1=1,1-0=0.5,1-1=0.5",
)


def action_at(problem, delays, decisions, time):
    """x_time = d_tau, tau = max{t' in [time - M, time] : t' + z_t' <= time}.

    Decisions before 0 are the default queue and take M steps. Those that have not been made are
    not considered, so that a later time gives what will run if nothing more is decided.
    """
    most = problem.max_delay
    made = {place - most: (most, action) for place, action in enumerate(problem.default)}
    made |= dict(enumerate(zip(delays, decisions, strict=False)))
    window = range(time - most, time + 1)
    tau = max(t for t in window if t in made and t + made[t][0] <= time)
    return made[tau][1]


def tree_value(problem, choose):
    """The expected return when ``choose(states, delays, decisions, worth)`` values each history.

    ``worth(d)`` is the expected return from this step on if d is decided now.
    """
    mdp, kernel = problem.mdp, problem.delays.kernel

    def arrive(states, delays, decisions):
        if len(decisions) == mdp.horizon:
            return 0

        def worth(decision):
            made = (*decisions, decision)
            action = action_at(problem, delays, made, len(decisions))
            later = 0
            for state, p in enumerate(mdp.transitions[states[-1], action]):
                for delay, share in enumerate(kernel[delays[-1]]):
                    if p and share and len(made) < mdp.horizon:
                        later += p * share * arrive((*states, state), (*delays, delay), made)
            return mdp.rewards[states[-1], action] + mdp.discount * later

        return choose(states, delays, decisions, worth)

    return sum(
        p * share * arrive((state,), (delay,), ())
        for state, p in enumerate(mdp.initial)
        for delay, share in enumerate(problem.delays.first)
        if p and share
    )


def policy_value(problem, decide):
    """The value of a deterministic policy of (s_0 .. s_t, z_0 .. z_t, d_0 .. d_{t-1})."""
    return tree_value(problem, lambda s, z, d, worth: worth(decide(s, z, d)))


def optimum(problem):
    """The optimum over all history-dependent policies."""
    actions = range(problem.mdp.actions)
    return tree_value(problem, lambda s, z, d, worth: max(worth(a) for a in actions))


def optimum_unseen(problem):
    """The optimum of an agent that decides at t knowing all but z_t."""
    mdp = problem.mdp

    def arrive(states, delays, decisions):
        if len(decisions) == mdp.horizon:
            return 0
        law = problem.delays.kernel[delays[-1]] if delays else problem.delays.first
        return max(
            sum(
                share * run(states, (*delays, delay), (*decisions, decision))
                for delay, share in enumerate(law)
                if share
            )
            for decision in range(mdp.actions)
        )

    def run(states, delays, decisions):
        action = action_at(problem, delays, decisions, len(delays) - 1)
        later = sum(
            p * arrive((*states, state), delays, decisions)
            for state, p in enumerate(mdp.transitions[states[-1], action])
            if p
        )
        return mdp.rewards[states[-1], action] + mdp.discount * later

    return sum(p * arrive((state,), (), ()) for state, p in enumerate(mdp.initial) if p)


def history_law(problem, policy, steps):
    """The law of (s_0, z_0, x_0, ..., s_t, z_t) when each decision is drawn once."""
    mdp, kernel, law = problem.mdp, problem.delays.kernel, defaultdict(Fraction)

    def visit(history, decided, weight):
        states, delays = history[0::3], history[1::3]
        if len(decided) == steps:
            law[history] += weight
            return
        for decision, chance in enumerate(policy(history, decided)):
            made = (*decided, decision)
            action = action_at(problem, delays, made, len(decided))
            for state, p in enumerate(mdp.transitions[states[-1], action]):
                for delay, share in enumerate(kernel[delays[-1]]):
                    if chance and p and share:
                        visit((*history, action, state, delay), made, weight * chance * p * share)

    for state, p in enumerate(mdp.initial):
        for delay, share in enumerate(problem.delays.first):
            if p and share:
                visit((state, delay), (), p * share)
    return dict(law)


def see_state_and_delay(problem, states, delays, decisions):
    return states[-1], delays[-1]


def see_state_and_delays(problem, states, delays, decisions):
    return states[-1], delays


def see_predicted_and_delay(problem, states, delays, decisions):
    """The most likely state after the pending actions, the first of several; and z_t."""
    mdp, time = problem.mdp, len(decisions)
    law = {states[-1]: Fraction(1)}
    for later in range(time, time + delays[-1]):
        action, after = action_at(problem, delays, decisions, later), defaultdict(Fraction)
        for state, weight in law.items():
            for other, p in enumerate(mdp.transitions[state, action]):
                after[other] += weight * p
        law = after
    return min(state for state in law if law[state] == max(law.values())), delays[-1]


def best_of_all(problem, see):
    """The best deterministic policy of (t, what it sees), by trying every one.

    A policy follows a path of states, delays and decisions if it decides so wherever the path
    leads. So each path adds its part of the return to all policies that follow it: to a slice of a
    table with one axis for each (t, what is seen). Sums are of whole numbers, so exact.
    """
    cells, parts = {}, []
    for states, delays, decisions, part in _paths(problem):
        follow = {}
        for time, decision in enumerate(decisions):
            if time + delays[time] < problem.mdp.horizon:  # else it never runs
                seen = see(problem, states[: time + 1], delays[: time + 1], decisions[:time])
                follow[cells.setdefault((time, seen), len(cells))] = decision
        parts.append((follow, part))
    policies = problem.mdp.actions ** len(cells)
    assert policies <= 5_000_000, policies
    scale = lcm(*(part.denominator for _, part in parts))
    table = np.zeros((problem.mdp.actions,) * len(cells), np.int64)
    for follow, part in parts:
        table[tuple(follow.get(cell, slice(None)) for cell in range(len(cells)))] += int(
            part * scale
        )
    return Fraction(int(table.max()), scale)


def _paths(problem):
    """All (states, delays, decisions) of an episode, with probability times return."""
    mdp, kernel = problem.mdp, problem.delays.kernel

    def extend(states, delays, decisions, weight, gain):
        time = len(decisions)
        matters = time + delays[-1] < mdp.horizon
        for decision in range(mdp.actions if matters else 1):
            made = (*decisions, decision)
            action = action_at(problem, delays, made, time)
            total = gain + mdp.discount**time * mdp.rewards[states[-1], action]
            if len(made) == mdp.horizon:
                yield states, delays, made, Fraction(weight * total)
                continue
            for state, p in enumerate(mdp.transitions[states[-1], action]):
                for delay, share in enumerate(kernel[delays[-1]]):
                    if p and share:
                        yield from extend(
                            (*states, state), (*delays, delay), made, weight * p * share, total
                        )

    for state, p in enumerate(mdp.initial):
        for delay, share in enumerate(problem.delays.first):
            if p and share:
                yield from extend((state,), (delay,), (), p * share, 0)


# Random problems, in Fractions with small denominators so that ties happen.


def random_distribution(rng, size, parts=4):
    """A random distribution in multiples of 1 / parts."""
    return exact(np.bincount(rng.integers(0, size, parts), minlength=size)) / parts


def random_mdp(
    rng, states=2, actions=2, horizon=4, discount=1, deterministic=False, fixed_start=False
):
    """The best action depends on the state and actions lead apart, so that knowing matters."""
    transitions = []
    for _ in range(states):
        targets = rng.permutation(max(states, actions))[:actions] % states
        sure = exact(np.eye(states, dtype=int)[targets])
        noise = [random_distribution(rng, states) for _ in range(actions)]
        share = 0 if deterministic else Fraction(1, 2) + Fraction(int(rng.integers(3)), 4)
        transitions.append((1 - share) * sure + share * np.array(noise, dtype=object))
    scales = 2 ** rng.integers(0, 3, states)
    rewards = [np.roll(np.arange(actions), s) * scale for s, scale in enumerate(scales)]
    return MDP(
        np.array(transitions, dtype=object),
        exact(np.array(rewards)) / 2 - 1,
        random_distribution(rng, states, 1 if fixed_start else 4),
        horizon,
        discount,
    )


def random_process(rng, max_delay):
    """A random Markov process of delays."""
    rows = [random_distribution(rng, max_delay + 1) for _ in range(max_delay + 2)]
    return DelayProcess(rows[0], np.array(rows[1:], dtype=object))


def random_problem(rng, law, **of_mdp):
    """With a law, or a number M for a random Markov process; the default queue is random."""
    mdp = random_mdp(rng, **of_mdp)
    delays = random_process(rng, law) if isinstance(law, int) else DelayProcess.from_law(law)
    return SEDMDP.make(mdp, delays, rng.integers(0, mdp.actions, delays.max_delay))


def in_floats(problem):
    """The same problem in floats."""
    mdp = problem.mdp
    arrays = (mdp.transitions, mdp.rewards, mdp.initial)
    return SEDMDP.make(
        MDP(*(array.astype(float) for array in arrays), mdp.horizon, float(mdp.discount)),
        problem.delays,
        problem.default,
    )
