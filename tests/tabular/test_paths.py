from fractions import Fraction as F
from itertools import product

import numpy as np
import pytest

from delayzero.delays import make_schedule
from delayzero.tabular.mdp import MDP, SEDMDP, DelayProcess, exact
from delayzero.tabular.paths import (
    effective_times,
    expected_return,
    formula_law,
    law_of_decision,
    path_law,
    product_formula,
    switch_time,
    total_variation,
)

from . import oracle
from .oracle import LAWS, random_distribution, random_problem

SIZES = [(2, 1, 4), (2, 1, 5), (2, 2, 3), (2, 2, 4), (3, 1, 4), (3, 2, 3)]
KINDS = {"constant": "constant:{}", "iid": "uniform:0-{}", "walk": "walk:{}"}


def float_problem(rng, states, max_delay, kind, horizon):
    mdp = MDP(
        rng.dirichlet(np.ones(states), (states, 2)),
        rng.random((states, 2)),
        rng.dirichlet(np.ones(states)),
        horizon,
    )
    return SEDMDP.make(mdp, KINDS[kind].format(max_delay), rng.integers(0, 2, max_delay))


def history_policy(draw):
    """A policy of the whole history: its decision rule at each one is drawn once."""
    rules = {}

    def policy(history, decided):
        if history not in rules:
            rules[history] = draw()
        return rules[history]

    return policy


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("states", "max_delay", "steps"), SIZES)
def test_product_formula_for_randomised_policies(states, max_delay, steps, kind):
    rng = np.random.default_rng([states, max_delay, steps])
    problem = float_problem(rng, states, max_delay, kind, steps)
    policy = history_policy(lambda: (p := rng.random(), 1 - p))
    copied, drawn = path_law(problem, policy, steps), path_law(problem, policy, steps, "resample")
    histories = {*copied, *drawn}
    paper = {h: product_formula(problem, policy, h) for h in histories}
    corrected = {h: product_formula(problem, policy, h, corrected=True) for h in histories}
    for law in (copied, drawn, paper, corrected):
        assert sum(law.values()) == pytest.approx(1, abs=1e-12)
    assert total_variation(drawn, paper) <= 1e-12
    assert total_variation(copied, corrected) <= 1e-12
    # Constant delays repeat no decision; walk:2 begins at 2 and repeats none in 3 steps.
    if kind == "constant" or (kind, max_delay, steps) == ("walk", 2, 3):
        assert total_variation(copied, paper) <= 1e-12
    else:
        assert total_variation(copied, paper) > 0.01


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("states", "max_delay", "steps"), SIZES)
def test_product_formula_for_deterministic_policies(states, max_delay, steps, kind):
    rng = np.random.default_rng([states, max_delay, steps])
    problem = float_problem(rng, states, max_delay, kind, steps)
    policy = history_policy(lambda: np.eye(2)[rng.integers(2)])
    copied, drawn = path_law(problem, policy, steps), path_law(problem, policy, steps, "resample")
    for corrected in (False, True):
        formula = formula_law(problem, policy, copied, corrected)
        assert total_variation(copied, formula) <= 1e-12
        assert total_variation(drawn, formula) <= 1e-12


@pytest.mark.parametrize("law", [*LAWS, 2])
def test_path_law_under_copying_follows_the_definition(law):
    rng = np.random.default_rng(0)
    problem = random_problem(rng, law)
    rules = {}

    def policy(history, decided):  # looks at its own decisions too
        return rules.setdefault((history, decided), random_distribution(rng, 2))

    law = path_law(problem, policy, 3)
    assert sum(law.values()) == 1
    assert law == oracle.history_law(problem, policy, 3)


def test_corrected_formula_is_exact_in_fractions():
    rng = np.random.default_rng(1)
    problem = random_problem(rng, "uniform:0-2")
    policy = history_policy(lambda: random_distribution(rng, 2))
    law = oracle.history_law(problem, policy, 3)
    assert sum(law.values()) == 1
    assert total_variation(law, formula_law(problem, policy, law, corrected=True)) == 0
    paper = formula_law(problem, policy, law)
    assert sum(paper.values()) == 1  # some of it on histories that can't happen
    assert set(paper) > set(law)
    assert total_variation(law, paper) > F(1, 100)


def test_formula_gives_nothing_to_histories_that_contradict_the_default_queue():
    problem = random_problem(np.random.default_rng(2), "constant:1", states=1)
    wrong = 1 - problem.default[0]
    assert product_formula(problem, lambda history, decided: [1, 0], (0, 1, wrong, 0, 1)) == 0


def test_history_of_no_steps_is_the_first_state_and_delay():
    problem = random_problem(np.random.default_rng(3), "categorical:0=0.25,1=0.75", states=3)
    law = path_law(problem, lambda history, decided: [1, 0], 0)
    mdp, first = problem.mdp, problem.delays.first
    assert law == {
        (s, z): mdp.initial[s] * first[z] for s in range(3) for z in range(2) if mdp.initial[s]
    }


def test_total_variation_counts_what_only_one_law_has():
    assert total_variation({(0,): F(1)}, {(1,): F(1)}) == 1
    assert total_variation({(0,): F(1, 2), (1,): F(1, 2)}, {(0,): F(1)}) == F(1, 2)


@pytest.mark.parametrize("max_delay", range(4))
def test_effective_times_are_those_of_the_schedule(max_delay):
    for delays in product(range(max_delay + 1), repeat=6):
        schedule = make_schedule("latest-generated", max_delay)
        assert effective_times(delays, max_delay) == [schedule.push(delay) for delay in delays]


@pytest.mark.parametrize("max_delay", range(4))
def test_switch_time_is_the_first_landing(max_delay):
    for delays in product(range(max_delay + 1), repeat=5):
        first = switch_time(delays, max_delay)
        assert first == min(5, *(time + delay for time, delay in enumerate(delays)))
        taus = effective_times(delays, max_delay)
        assert taus[:first] == [time - max_delay for time in range(first)]
        assert all(tau >= 0 for tau in taus[first:])


def repeat_problem():
    """z = (0, 1); a reward iff x_0 = 1 and x_1 = 0."""
    transitions = exact([[[1, 0], [0, 1]]] * 2)  # the state is the last action
    mdp = MDP(transitions, exact([[0, 0], [1, 0]]), exact([1, 0]), 2)
    return SEDMDP.make(mdp, DelayProcess(exact([1, 0]), exact([[0, 1], [0, 1]])), 0)


def value_of_law(problem, law):
    return sum(
        weight * problem.mdp.rewards[history[3 * time], action]
        for history, weight in law.items()
        for time, action in enumerate(history[2::3])
    )


def test_drawing_anew_rewards_randomness_and_copying_does_not():
    problem = repeat_problem()
    for one in (F(0), F(1, 3), F(1, 2), F(1)):
        policy = [1 - one, one]
        copied = path_law(problem, lambda history, decided, p=policy: p, 2)
        drawn = path_law(problem, lambda history, decided, p=policy: p, 2, "resample")
        assert value_of_law(problem, copied) == 0
        assert value_of_law(problem, drawn) == one * (1 - one)  # 1/4 for a coin
        assert sum(copied.values()) == sum(drawn.values()) == 1


def test_expected_return_is_that_of_the_oracle():
    for seed, law in enumerate(LAWS):
        rng = np.random.default_rng(seed)
        problem = random_problem(rng, law, horizon=3, discount=F(1, 3))
        rules = {}

        def policy(history, decided, rng=rng, rules=rules):
            return rules.setdefault(history, np.eye(2, dtype=int)[rng.integers(2)])

        value = expected_return(problem, policy)

        def decide(states, delays, decisions, problem=problem, rules=rules):
            history = [states[0], delays[0]]
            for time in range(len(decisions)):
                action = oracle.action_at(problem, delays, decisions[: time + 1], time)
                history += [action, states[time + 1], delays[time + 1]]
            return int(np.argmax(rules[tuple(history)]))

        assert value == oracle.policy_value(problem, decide)


def test_expected_return_needs_a_horizon():
    problem = random_problem(np.random.default_rng(0), 1, horizon=None, discount=F(1, 2))
    with pytest.raises(ValueError, match="horizon"):
        expected_return(problem, lambda history, decided: [1, 0])


def test_law_of_the_state_at_the_decision_and_the_action():
    law = {
        (0, 1, 0, 1, 0, 1, 0, 1): F(1, 4),  # tau_1 = 1
        (1, 0, 1, 0, 1, 1, 1, 0): F(3, 4),  # tau_1 = 0
    }
    assert law_of_decision(law, 1, 1) == {(1, 1): F(1)}
    assert law_of_decision(law, 0, 1) == {(0, 0): F(1, 4), (1, 1): F(3, 4)}
