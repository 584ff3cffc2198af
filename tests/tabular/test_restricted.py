from fractions import Fraction as F

import numpy as np
import pytest

from delayzero.tabular.examples import noisy_xor
from delayzero.tabular.mdp import MDP, SEDMDP, ProblemSizeError
from delayzero.tabular.restricted import (
    View,
    predicted_and_delay,
    solve_restricted,
    state_and_delay,
    state_and_delays,
)
from delayzero.tabular.solve import solve_augmented

from . import oracle
from .oracle import in_floats, random_problem

SEES = {
    state_and_delay: oracle.see_state_and_delay,
    state_and_delays: oracle.see_state_and_delays,
    predicted_and_delay: oracle.see_predicted_and_delay,
}
MARKOV_CASES = [  # law, horizon, states, actions
    ("constant:1", 4, 2, 2),
    ("constant:1", 4, 3, 2),
    ("constant:1", 4, 2, 3),
    ("constant:2", 5, 2, 2),
    ("uniform:0-1", 4, 2, 2),
    ("uniform:0-1", 5, 2, 2),
    ("walk:1", 4, 2, 2),
    ("walk:2", 4, 2, 2),
    ("uniform:0-2", 3, 2, 2),
    ("markov:0-1=1,1-0=0.5,1-1=0.5", 4, 2, 2),
    (1, 4, 2, 2),
]
DELAYS_CASES = [
    ("constant:1", 4, 2, 2),
    ("constant:1", 4, 3, 2),
    ("uniform:0-1", 3, 2, 2),
    ("walk:1", 3, 2, 2),
    ("walk:2", 4, 2, 2),
    ("categorical:0=0.25,2=0.75", 3, 2, 2),
    (1, 3, 2, 2),
]
CASES = (
    [(state_and_delay, *case) for case in MARKOV_CASES]
    + [(predicted_and_delay, *case) for case in MARKOV_CASES]
    + [(state_and_delays, *case) for case in DELAYS_CASES]
)


def case_name(value):
    return getattr(value, "__name__", str(value))


def follow(problem, view, policy):
    """The best policy found, as one of whole histories, by the oracle's own reading of the view."""

    def decide(states, delays, decisions):
        return policy[len(decisions), SEES[view](problem, states, delays, decisions)]

    return decide


@pytest.mark.parametrize(("view", "law", "horizon", "states", "actions"), CASES, ids=case_name)
def test_search_finds_the_best_of_all_policies(view, law, horizon, states, actions):
    for seed in range(4):
        problem = random_problem(
            np.random.default_rng(seed),
            law,
            horizon=horizon,
            states=states,
            actions=actions,
            discount=F(1, 2) if seed == 3 else 1,
            fixed_start=horizon == 5,
        )
        found = solve_restricted(problem, view)
        assert found.value == oracle.best_of_all(problem, SEES[view])
        assert found.value <= solve_augmented(problem).value
        assert oracle.policy_value(problem, follow(problem, view, found.policy)) == found.value


@pytest.mark.parametrize("view", SEES, ids=case_name)
def test_views_lose_in_a_good_part_of_the_random_problems(view):
    """Else the tests above would compare the search with dynamic programming only."""
    losses = 0
    for seed in range(20):
        problem = random_problem(np.random.default_rng(seed), 1, horizon=4)
        losses += solve_restricted(problem, view).value < solve_augmented(problem).value
    assert losses >= 4


@pytest.mark.parametrize("view", SEES, ids=case_name)
def test_search_in_floats_agrees_with_fractions(view):
    for seed in range(10):
        problem = random_problem(np.random.default_rng(seed), "uniform:0-1", states=3)
        value = solve_restricted(in_floats(problem), view).value
        assert value == pytest.approx(float(solve_restricted(problem, view).value), abs=1e-11)


def test_ties_are_no_trouble():
    problem = random_problem(np.random.default_rng(0), "uniform:0-1", horizon=4)
    mdp = problem.mdp
    constant = MDP(mdp.transitions, mdp.rewards * 0 + F(1, 3), mdp.initial, 4)
    for view in SEES:
        found = solve_restricted(SEDMDP(constant, problem.delays, problem.default), view)
        assert found.value == F(4, 3)


def test_policy_that_sees_everything_is_optimal_and_one_that_sees_nothing_is_open_loop():
    everything = View(lambda situation: situation)
    nothing = View(lambda situation: ())
    losses = 0
    for seed in range(10):
        problem = random_problem(np.random.default_rng(seed), "uniform:0-1", horizon=4)
        optimum = solve_augmented(problem).value
        assert solve_restricted(problem, lambda _: everything).value == optimum
        blind = solve_restricted(problem, lambda _: nothing).value
        assert blind == oracle.best_of_all(problem, lambda *seen: ())
        losses += blind < optimum
    assert losses >= 5


def test_search_gives_up_at_its_limit():
    problem = random_problem(np.random.default_rng(0), "uniform:0-1", states=3, horizon=5)
    nodes = solve_restricted(problem, state_and_delay).nodes
    assert nodes > 20
    assert solve_restricted(problem, state_and_delay, max_nodes=nodes).nodes == nodes
    with pytest.raises(ProblemSizeError, match=rf"not finished after {nodes - 1:,}.*max_nodes"):
        solve_restricted(problem, state_and_delay, max_nodes=nodes - 1)


def test_search_needs_a_horizon():
    problem = random_problem(np.random.default_rng(1), 1, horizon=None, discount=F(1, 2))
    with pytest.raises(ProblemSizeError, match="horizon"):
        solve_restricted(problem, state_and_delay)


DETERMINISTIC_CASES = [
    ("constant:1", 4),
    ("constant:2", 5),
    ("uniform:0-1", 4),
    ("uniform:0-2", 3),
    ("categorical:0=0.25,2=0.75", 4),
    ("walk:1", 4),
    ("walk:2", 5),
    ("walk:2,up=0.5,down=0.25,start=0", 4),
    (1, 4),
    (2, 3),
]


@pytest.mark.parametrize(("law", "horizon"), DETERMINISTIC_CASES)
@pytest.mark.parametrize("states", [2, 3])
def test_prediction_and_delay_suffice_without_noise(law, horizon, states):
    for seed in range(4):
        rng = np.random.default_rng([seed, states])
        problem = random_problem(rng, law, states=states, horizon=horizon, deterministic=True)
        assert (
            solve_restricted(problem, predicted_and_delay).value == solve_augmented(problem).value
        )


@pytest.mark.parametrize(("law", "horizon"), DETERMINISTIC_CASES)
@pytest.mark.parametrize("states", [2, 3])
def test_state_and_all_delays_suffice_without_noise_from_one_state(law, horizon, states):
    for seed in range(4):
        rng = np.random.default_rng([seed, states])
        problem = random_problem(
            rng, law, states=states, horizon=horizon, deterministic=True, fixed_start=True
        )
        assert solve_restricted(problem, state_and_delays).value == solve_augmented(problem).value


@pytest.mark.parametrize(("law", "horizon"), [("constant:1", 5), ("constant:2", 6)])
def test_state_suffices_without_noise_for_a_constant_delay_from_any_start(law, horizon):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        problem = random_problem(rng, law, states=3, horizon=horizon, deterministic=True)
        assert solve_restricted(problem, state_and_delay).value == solve_augmented(problem).value


@pytest.mark.parametrize(
    ("law", "optimum", "markov"),
    [("uniform:0-1", F(49, 16), F(3)), ("walk:1", F(74, 25), F(366, 125))],
)
def test_state_and_delay_do_not_suffice_for_random_delays(law, optimum, markov):
    """XOR without noise, horizon 4: what is pending depends on delays that are not seen."""
    problem = SEDMDP.make(noisy_xor(F(0), 4).mdp, law, 0)
    assert solve_augmented(problem).value == oracle.optimum(problem) == optimum
    assert solve_restricted(problem, state_and_delay).value == markov
    assert oracle.best_of_all(problem, oracle.see_state_and_delay) == markov
    assert solve_restricted(problem, state_and_delays).value == optimum
    assert solve_restricted(problem, predicted_and_delay).value == optimum


def test_state_and_all_delays_do_not_suffice_without_noise_from_random_states():
    """Two first states may lead to one second, with the decision of the first still running."""
    gaps = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        problem = random_problem(rng, "uniform:0-1", states=3, horizon=4, deterministic=True)
        gaps += solve_restricted(problem, state_and_delays).value < solve_augmented(problem).value
    assert gaps > 0


def test_prediction_does_not_suffice_with_noise():
    gaps = 0
    for seed in range(30):
        problem = random_problem(np.random.default_rng(seed), "uniform:0-1", horizon=4, states=3)
        gaps += (
            solve_restricted(problem, predicted_and_delay).value < solve_augmented(problem).value
        )
    assert gaps > 0


@pytest.mark.parametrize("slip", [F(0), F(1, 10), F(1, 4), F(2, 5), F(1, 2)])
def test_gap_of_the_noisy_xor_in_closed_form(slip):
    problem = noisy_xor(slip, 4)
    optimum, gap = 3 * (1 - slip), slip * (1 - 2 * slip)
    assert solve_augmented(problem).value == oracle.optimum(problem) == optimum
    for view in (state_and_delay, state_and_delays):
        assert solve_restricted(problem, view).value == optimum - gap
        assert oracle.best_of_all(problem, SEES[view]) == optimum - gap


@pytest.mark.parametrize(("law", "horizon"), [("constant:1", 3), ("constant:2", 4)])
def test_no_gap_before_horizon_m_plus_3(law, horizon):
    for seed in range(20):
        problem = random_problem(
            np.random.default_rng(seed), law, horizon=horizon, states=3, fixed_start=True
        )
        assert solve_restricted(problem, state_and_delay).value == solve_augmented(problem).value
