from fractions import Fraction as F

import numpy as np
import pytest

from delayzero.tabular.acting import (
    WAYS,
    at_most_likely,
    at_sampled,
    averaged,
    beliefs,
    oblivious,
    predicted_states,
    solve_unseen,
    values_of_acting,
)
from delayzero.tabular.solve import evaluate, solve_augmented, solve_undelayed

from . import oracle
from .oracle import LAWS, action_at, in_floats, random_problem

PREDICTING = (at_most_likely, at_sampled, averaged)


def belief_of(problem, states, delays, decisions):
    """The law of the state that the coming decision meets."""
    law = np.array([F(state == states[-1]) for state in range(problem.mdp.states)])
    for later in range(len(decisions), len(decisions) + delays[-1]):
        law = law @ problem.mdp.transitions[:, action_at(problem, delays, decisions, later)]
    return law


def rules(problem):
    """Each way of acting as a distribution over decisions, from whole histories."""
    solution, actions = solve_undelayed(problem.mdp), range(problem.mdp.actions)

    def certain(q):
        q = list(q)
        return [int(a == q.index(max(q))) for a in actions]

    def undelayed(state, time):
        return certain(solution.q[min(time, problem.mdp.horizon - 1)][state])

    def most_likely(s, z, d):
        predicted, _ = oracle.see_predicted_and_delay(problem, s, z, d)
        return undelayed(predicted, len(d) + z[-1])

    def sampled(s, z, d):
        chances = enumerate(belief_of(problem, s, z, d))
        parts = [p * np.array(undelayed(state, len(d) + z[-1])) for state, p in chances]
        return sum(parts)

    def mean_q(s, z, d):
        q = solution.q[min(len(d) + z[-1], problem.mdp.horizon - 1)]
        return certain(belief_of(problem, s, z, d) @ q)

    return {
        oblivious: lambda s, z, d: undelayed(s[-1], len(d)),
        at_most_likely: most_likely,
        at_sampled: sampled,
        averaged: mean_q,
    }


@pytest.mark.parametrize("law", [*LAWS, 1])
def test_ways_of_acting_do_what_they_say(law):
    problem = random_problem(np.random.default_rng(0), law, states=3, horizon=3, discount=F(3, 4))
    for way, rule in rules(problem).items():
        assert evaluate(problem, way(problem)) == oracle.tree_value(
            problem,
            lambda s, z, d, worth, rule=rule: sum(
                p * worth(a) for a, p in enumerate(rule(s, z, d)) if p
            ),
        ), way


def test_beliefs_roll_the_state_through_the_pending_actions():
    problem = random_problem(np.random.default_rng(1), "uniform:0-2", states=3)
    table, predicted = beliefs(problem), predicted_states(problem)
    for number, queue in enumerate(problem.queue_slots.tolist()):
        for state in range(3):
            law = np.array([F(s == state) for s in range(3)])
            for delay in range(3):
                assert table[state, number, delay].tolist() == law.tolist()
                assert predicted[state, number, delay] == law.tolist().index(max(law))
                if delay < 2:
                    law = law @ problem.mdp.transitions[:, queue[delay]]


@pytest.mark.parametrize("law", ["constant:0", "constant:1", "constant:2"])
def test_predicting_is_optimal_without_noise_for_a_constant_delay(law):
    worse = 0
    for seed in range(10):
        problem = random_problem(
            np.random.default_rng(seed), law, states=3, horizon=5, deterministic=True
        )
        optimum = solve_augmented(problem).value
        for way in PREDICTING:
            assert evaluate(problem, way(problem)) == optimum
            assert evaluate(in_floats(problem), way(in_floats(problem))) == pytest.approx(
                float(optimum), abs=1e-12
            )
        worse += evaluate(problem, oblivious(problem)) < optimum
    assert worse == 0 if law == "constant:0" else worse >= 3


def test_predicting_ways_are_one_without_noise():
    for seed, law in enumerate(LAWS):
        problem = random_problem(np.random.default_rng(seed), law, states=3, deterministic=True)
        first, *others = (evaluate(problem, way(problem)) for way in PREDICTING)
        assert all(other == first for other in others)


def test_planning_without_delays_in_mind_loses_even_without_noise():
    losses = 0
    for seed in range(20):
        problem = random_problem(
            np.random.default_rng(seed), "walk:2", states=3, horizon=6, deterministic=True
        )
        losses += evaluate(problem, at_most_likely(problem)) < solve_augmented(problem).value
    assert losses > 0


@pytest.mark.parametrize("law", [*LAWS, 2])
def test_nothing_is_better_than_the_optimum(law):
    for seed in range(4):
        problem = random_problem(np.random.default_rng(seed), law, states=3)
        values = values_of_acting(problem)
        optimum = values["optimum (state, queue, delay)"]
        assert optimum == solve_augmented(problem).value
        assert values["optimum that does not see z_t"] == solve_unseen(problem)
        assert values.pop("undelayed optimum") == solve_undelayed(problem.mdp).value >= optimum
        assert set(WAYS) < set(values)
        assert all(value <= optimum for value in values.values())


@pytest.mark.parametrize("law", LAWS)
def test_random_acting_draws_evenly(law):
    problem = random_problem(np.random.default_rng(0), law, horizon=3)
    assert values_of_acting(problem)["random"] == oracle.tree_value(
        problem, lambda s, z, d, worth: (worth(0) + worth(1)) / 2
    )


def test_values_in_floats_agree_with_fractions():
    problem = random_problem(np.random.default_rng(3), "walk:2", states=3)
    floats = values_of_acting(in_floats(problem))
    assert floats == {
        name: pytest.approx(float(value), abs=1e-12)
        for name, value in values_of_acting(problem).items()
    }


def test_values_of_an_endless_problem_have_no_unseen_optimum():
    problem = in_floats(
        random_problem(np.random.default_rng(4), "uniform:0-1", horizon=None, discount=F(4, 5))
    )
    values = values_of_acting(problem)
    assert "optimum that does not see z_t" not in values
    assert all(values[name] <= values["optimum (state, queue, delay)"] + 1e-9 for name in WAYS)
    with pytest.raises(ValueError, match="horizon"):
        solve_unseen(problem)


@pytest.mark.parametrize("law", [*LAWS, 1, 2])
def test_unseen_optimum_is_that_of_deciding_before_the_delay_is_known(law):
    for seed in range(2):
        rng = np.random.default_rng(seed)
        problem = random_problem(rng, law, horizon=4, discount=F(seed + 1, 2))
        value = solve_unseen(problem)
        assert value == oracle.optimum_unseen(problem)
        optimum = solve_augmented(problem).value
        assert value <= optimum
        if str(law).startswith("constant"):
            assert value == optimum


def test_not_seeing_the_delay_costs():
    costs = 0
    for seed in range(10):
        problem = random_problem(np.random.default_rng(seed), "uniform:0-2")
        costs += solve_unseen(problem) < solve_augmented(problem).value
    assert costs >= 3
