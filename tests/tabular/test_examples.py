from fractions import Fraction as F

import pytest

from delayzero.tabular.examples import (
    EXAMPLE_DELAYS,
    copy_the_first,
    noisy_xor,
    opposite_of_prediction,
    worked_example,
)
from delayzero.tabular.paths import (
    effective_times,
    expected_return,
    law_of_decision,
    markovise,
    path_law,
)
from delayzero.tabular.restricted import solve_restricted, state_and_delay
from delayzero.tabular.solve import solve_augmented, solve_undelayed

from . import oracle


def chance(law, event):
    return sum(weight for history, weight in law.items() if event(history))


def test_worked_example():
    assert [t + z for t, z in enumerate(EXAMPLE_DELAYS)] == [5, 5, 6, 7, 7]
    assert worked_example() == {
        5: [1, 2, 4, 4, 4],
        4: [1, 2, 4, 4],
        3: [1, 2, 4],
        2: [1, 2],
        1: [1],
        0: [],
    }
    for delay in range(6):
        taus = effective_times((*EXAMPLE_DELAYS, delay), 5)
        assert taus == [-5, -4, -3, -2, -1, 1 if delay else 5]


def test_noisy_xor_is_the_table():
    mdp = noisy_xor(F(1, 4), 4).mdp
    low, high = F(1, 4), F(3, 4)
    assert mdp.transitions.tolist() == [[[high, low], [low, high]], [[low, high], [high, low]]]
    assert mdp.rewards.tolist() == [[0, 1], [1, 0]]
    assert mdp.initial.tolist() == [1, 0]
    problem = noisy_xor(F(1, 4), 4)
    assert (problem.default, problem.max_delay, problem.delays.first.tolist()) == ((0,), 1, [0, 1])


def test_executed_action_depends_on_the_present_state():
    law = path_law(noisy_xor(F(1, 4), 4), opposite_of_prediction, 4)
    assert law == oracle.history_law(noisy_xor(F(1, 4), 4), opposite_of_prediction, 4)
    runs_1 = chance(law, lambda h: h[11] == 1)
    assert runs_1 == F(1, 4)
    for state, wanted in ((1, F(1, 10)), (0, F(1, 2))):
        both = chance(law, lambda h, s=state: h[9] == s and h[11] == 1)
        assert both / chance(law, lambda h, s=state: h[9] == s) == wanted


def test_opposite_of_prediction_looks_at_the_pending_action():
    problem = noisy_xor(F(1, 4), 5)

    def decide(states, delays, decisions):
        pending = oracle.action_at(problem, delays, decisions, len(decisions))
        return 1 - (states[-1] ^ pending)

    assert oracle.policy_value(problem, decide) == expected_return(problem, opposite_of_prediction)


def test_laws_of_state_and_action_part_at_5():
    problem = noisy_xor(F(1, 4), 6)
    markov = markovise(problem, opposite_of_prediction, 6)
    law, markov_law = (path_law(problem, pi, 6) for pi in (opposite_of_prediction, markov))
    for time in range(5):
        assert law_of_decision(law, time, 1) == law_of_decision(markov_law, time, 1)
    assert law_of_decision(law, 5, 1) == {
        (0, 0): F(3, 16),
        (0, 1): F(3, 16),
        (1, 0): F(9, 16),
        (1, 1): F(1, 16),
    }
    assert law_of_decision(markov_law, 5, 1) == {
        (0, 0): F(9, 40),
        (0, 1): F(9, 40),
        (1, 0): F(99, 200),
        (1, 1): F(11, 200),
    }
    assert chance(law, lambda h: h[12] == 1) == F(5, 8)
    assert chance(markov_law, lambda h: h[12] == 1) == F(11, 20)


def test_values_of_the_noisy_xor():
    problem = noisy_xor(F(1, 4), 4)
    markov = markovise(problem, opposite_of_prediction, 4)
    assert solve_augmented(problem).value == F(9, 4)
    assert expected_return(problem, opposite_of_prediction) == F(9, 4)
    assert solve_restricted(problem, state_and_delay).value == F(17, 8)
    assert F(9, 4) - F(17, 8) == F(1, 8)
    assert expected_return(problem, markov) == F(21, 10)


def test_markov_policy_of_the_proof_sees_only_time_and_state():
    problem = noisy_xor(F(1, 4), 4)
    markov = markovise(problem, opposite_of_prediction, 4)
    assert markov((0, 1, 0, 1, 1), (0,)) == markov((1, 1, 1, 1, 1), (1,))
    assert markov((0, 1), ()) == [0, 1]  # d_0 = not (0 xor 0)
    for history in ((0, 1), (1, 1), (0, 1, 0, 0, 1), (0, 1, 0, 1, 1)):
        assert sum(markov(history, ())) == 1
    assert markov((1, 1), ()) == [F(1, 2), F(1, 2)]  # never there: uniform


def test_coin_that_is_copied_has_no_markov_policy():
    problem = noisy_xor(F(0), 5)
    markov = markovise(problem, copy_the_first, 5)
    half = [F(1, 2), F(1, 2)]
    assert markov((0, 1), ()) == half
    assert markov((0, 1, 0, 0, 1), ()) == half
    law, markov_law = (path_law(problem, pi, 5) for pi in (copy_the_first, markov))
    for time in range(4):
        assert law_of_decision(law, time, 1) == law_of_decision(markov_law, time, 1)
    assert law_of_decision(law, 4, 1) != law_of_decision(markov_law, 4, 1)
    assert chance(law, lambda h: h[9] == 0) == 1
    assert chance(markov_law, lambda h: h[9] == 0) == F(1, 2)
    assert law == oracle.history_law(problem, copy_the_first, 5)


@pytest.mark.parametrize("slip", [F(0), F(1, 4)])
def test_undelayed_xor_always_earns(slip):
    assert solve_undelayed(noisy_xor(slip, 4).mdp).value == 4
