from fractions import Fraction as F

import numpy as np
import pytest

from delayzero.delays import DelayError, DelayStream, parse
from delayzero.tabular import acting, paths, restricted, solve
from delayzero.tabular.mdp import (
    LIMIT,
    MDP,
    SEDMDP,
    DelayProcess,
    ProblemSizeError,
    check_distributions,
    exact,
    is_exact,
)

from .oracle import action_at, random_mdp, random_problem


def make_mdp(**changes):
    fields = dict(
        transitions=np.full((2, 3, 2), 0.5),
        rewards=np.zeros((2, 3)),
        initial=np.array([0.25, 0.75]),
        horizon=4,
    )
    return MDP(**{**fields, **changes})


def test_exact_takes_floats_for_the_decimals_that_they_print_as():
    assert exact([0.1, 1, F(1, 3), np.float64(0.2), np.int64(7)]).tolist() == [
        F(1, 10),
        F(1),
        F(1, 3),
        F(1, 5),
        F(7),
    ]
    assert is_exact(exact([[0.5]]))
    assert not is_exact(np.zeros(2))


def test_exact_mdp_is_the_same_problem_in_fractions():
    mdp = make_mdp(discount=0.9).exact()
    assert mdp.initial.tolist() == [F(1, 4), F(3, 4)]
    assert (mdp.horizon, mdp.discount) == (4, F(9, 10))
    assert (mdp.states, mdp.actions) == (2, 3)
    assert all(is_exact(array) for array in (mdp.transitions, mdp.rewards, mdp.initial))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"transitions": np.full((3, 2, 2), 0.5)}, r"\(3, 2, 2\).*\(2, 3, 2\)"),
        ({"initial": np.array([0.5, 0.25, 0.25])}, "2 entries"),
        ({"initial": np.array([0.5, 0.25])}, "initial distribution.*sum to 1"),
        ({"initial": np.array([1.5, -0.5])}, "initial distribution.*sum to 1"),
        ({"initial": np.array([np.nan, 1.0])}, "initial distribution.*sum to 1"),
        ({"transitions": np.full((2, 3, 2), 0.4)}, "transitions.*sum to 1"),
        ({"horizon": 0}, "at least 1, not 0"),
        ({"horizon": None}, "at least 0 and below 1, not 1"),
        ({"horizon": None, "discount": -0.5}, r"below 1, not -0\.5"),
    ],
)
def test_inconsistent_mdps_are_refused(changes, message):
    with pytest.raises(ProblemSizeError, match=message):
        make_mdp(**changes)


def test_endless_mdp_with_a_discount_is_accepted():
    assert make_mdp(horizon=None, discount=0.9).horizon is None


def test_distributions_are_checked_exactly_in_fractions_and_loosely_in_floats():
    almost = 1e-12
    check_distributions("p", np.array([0.5, 0.5 + almost]))
    with pytest.raises(ProblemSizeError, match="p should be probabilities"):
        check_distributions("p", np.array([F(1, 2), F(1, 2) + F(1, 10**12)], dtype=object))


def test_process_with_a_wrong_kernel_is_refused():
    with pytest.raises(ProblemSizeError, match="2 x 2"):
        DelayProcess(np.array([0.5, 0.5]), np.eye(3))
    with pytest.raises(ProblemSizeError, match="kernel"):
        DelayProcess(np.array([0.5, 0.5]), np.eye(2) / 2)
    with pytest.raises(ProblemSizeError, match="first delay"):
        DelayProcess(np.array([0.5, 0.4]), np.eye(2))


HALF, FIFTH = F(1, 2), F(1, 5)


@pytest.mark.parametrize(
    ("text", "first", "kernel"),
    [
        ("constant:0", [1], [[1]]),
        ("constant:2", [0, 0, 1], [[0, 0, 1]] * 3),
        ("uniform:1-2", [0, HALF, HALF], [[0, HALF, HALF]] * 3),
        ("categorical:0=0.3,2=0.7", [F(3, 10), 0, F(7, 10)], [[F(3, 10), 0, F(7, 10)]] * 3),
        (
            "walk:2",
            [0, 0, 1],
            [[4 * FIFTH, FIFTH, 0], [FIFTH, 3 * FIFTH, FIFTH], [0, FIFTH, 4 * FIFTH]],
        ),
        (
            "walk:2,up=0.5,down=0.1,step=2,start=1",
            [0, 1, 0],
            [
                [HALF, 0, HALF],
                [F(1, 10), F(4, 10), HALF],
                [F(1, 10), 0, F(9, 10)],
            ],
        ),
        (
            "markov:2-0=0.25,2-2=0.75,0-0=0.5,0-2=0.5",
            [0, 0, 1],
            [[HALF, 0, HALF], [0, 1, 0], [F(1, 4), 0, F(3, 4)]],
        ),
        ("markov:0-0=0,0-1=1,1-0=1,1-1=0,start=1", [0, 1], [[0, 1], [1, 0]]),
        (
            "gilbert-elliott:good=1,bad=2,p=0.02,r=0.1",
            [0, 1, 0],
            [[1, 0, 0], [0, F(49, 50), F(1, 50)], [0, F(1, 10), F(9, 10)]],
        ),
    ],
)
def test_processes_of_laws(text, first, kernel):
    for law in (text, parse(text)):
        process = DelayProcess.from_law(law)
        assert process.first.tolist() == first
        assert process.kernel.tolist() == kernel
        assert is_exact(process.first)
        assert is_exact(process.kernel)


@pytest.mark.parametrize(
    "text",
    [
        "uniform:0-2",
        "categorical:0=0.3,2=0.7",
        "walk:2",
        "walk:3,up=0.5,down=0.1,step=2,start=1",
        "markov:2-0=0.25,2-2=0.75,0-0=0.5,0-2=0.5",
        "gilbert-elliott:good=0,bad=2,p=0.3,r=0.4",
    ],
)
def test_processes_agree_with_draws_of_their_laws(text):
    process = DelayProcess.from_law(text).as_float()
    stream = DelayStream(parse(text), 0)
    delays = np.array([stream.next() for _ in range(40_000)])
    assert process.first[delays[0]] > 0
    counts = np.zeros_like(process.kernel)
    np.add.at(counts, (delays[:-1], delays[1:]), 1)
    visits = counts.sum(axis=1, keepdims=True)
    seen = visits[:, 0] > 0
    error = np.abs(counts / np.maximum(visits, 1) - process.kernel)[seen]
    assert (error <= 4.5 * np.sqrt(0.25 / visits[seen])).all()


def test_law_with_rounded_probabilities_becomes_a_distribution():
    law = parse("categorical:0=0.3333333,1=0.3333333,2=0.3333333")
    assert DelayProcess.from_law(law).first.tolist() == [F(1, 3)] * 3


@pytest.mark.parametrize(
    "text",
    [
        "4g",
        "per-episode:uniform:0-2",
        "constant:1+uniform:0-1",
        "exponential:mean=10@20ms,max=5",
        "gilbert-elliott:good=0,bad=1,p=0.1,r=0.1,loss_bad=0.5,lost=3",
        "callback:builtins.id,max=2",
    ],
)
def test_laws_that_are_no_finite_markov_process_are_refused(text):
    with pytest.raises(
        DelayError, match=r"not a finite Markov process; choose from constant, uniform"
    ):
        DelayProcess.from_law(text)


def test_gilbert_elliott_with_equal_delays_is_constant():
    process = DelayProcess.from_law("gilbert-elliott:good=1,bad=1,p=0.1,r=0.2")
    assert process.first.tolist() == [0, 1]
    assert process.kernel[1].tolist() == [0, 1]


def test_default_queue_is_one_action_or_m_of_them():
    mdp = make_mdp()
    assert SEDMDP.make(mdp, "walk:3", 2).default == (2, 2, 2)
    assert SEDMDP.make(mdp, "walk:3", [0, 1, 2]).default == (0, 1, 2)
    assert SEDMDP.make(mdp, "constant:0").default == ()
    with pytest.raises(ProblemSizeError, match="has 2 actions; it should have M = 3"):
        SEDMDP.make(mdp, "walk:3", [0, 1])
    for wrong in ([0, 1, 3], [-1, 0, 0]):
        with pytest.raises(ProblemSizeError, match="unknown action"):
            SEDMDP.make(mdp, "walk:3", wrong)


def test_delays_are_exact_if_the_mdp_is():
    assert is_exact(SEDMDP.make(make_mdp().exact(), "walk:1").delays.kernel)
    assert not is_exact(SEDMDP.make(make_mdp(), "walk:1").delays.kernel)


@pytest.mark.parametrize(("actions", "law"), [(2, "uniform:0-3"), (3, "uniform:0-2")])
def test_moves_write_the_decision_from_its_landing_on(actions, law):
    problem = random_problem(np.random.default_rng(0), law, actions=actions)
    executed, left = problem.moves
    length = problem.max_delay
    numbers = {tuple(slots): number for number, slots in enumerate(problem.queue_slots.tolist())}
    assert len(numbers) == problem.queues == actions**length
    for slots, number in numbers.items():
        for delay in range(length + 1):
            for decision in range(actions):
                written = slots[:delay] + (decision,) * (length + 1 - delay)
                assert executed[delay, number, decision] == written[0]
                assert left[delay, number, decision] == numbers[written[1:]]
    assert problem.queue_slots[problem.default_number].tolist() == list(problem.default)


def test_moves_follow_the_definition_of_tau_for_random_delays():
    rng = np.random.default_rng(1)
    for _ in range(30):
        problem = random_problem(rng, int(rng.integers(0, 4)), actions=3)
        executed, left = problem.moves
        delays = rng.integers(0, problem.max_delay + 1, 12).tolist()
        decisions = rng.integers(0, 3, 12).tolist()
        queue = problem.default_number
        for t in range(12):
            place = delays[t], queue, decisions[t]
            wanted = action_at(problem, delays[: t + 1], decisions[: t + 1], t)
            assert executed[place] == wanted
            queue = left[place]


def large_problem():
    mdp = random_mdp(np.random.default_rng(0), states=2, actions=10)
    return SEDMDP.make(mdp, "constant:25")


@pytest.mark.parametrize(
    "solver",
    [
        solve.solve_augmented,
        acting.solve_unseen,
        acting.values_of_acting,
        acting.beliefs,
        acting.at_most_likely,
        acting.at_sampled,
        acting.averaged,
        lambda problem: solve.evaluate(problem, lambda time: np.zeros(1)),
        lambda problem: problem.moves,
        lambda problem: restricted.solve_restricted(problem, restricted.state_and_delay),
        lambda problem: restricted.solve_restricted(problem, restricted.predicted_and_delay),
        lambda problem: restricted.solve_restricted(problem, restricted.state_and_delays),
        lambda problem: paths.path_law(problem, lambda history, decided: [1] * 10, 30),
    ],
)
def test_problems_that_are_too_large_are_refused(solver):
    problem = large_problem()
    message = rf"would have [\d,]+ numbers \(2 states, 10 actions, M = 25\); the limit is {LIMIT:,}"
    with pytest.raises(ProblemSizeError, match=message):
        solver(problem)


def test_size_that_is_refused_is_named():
    problem = large_problem()
    size = 2 * 10**25 * 26 * 10 * problem.mdp.horizon  # a table for each time
    with pytest.raises(ProblemSizeError, match=f" {size:,} numbers"):
        solve.solve_augmented(problem)


def test_size_limit_is_inclusive():
    problem = large_problem()
    problem.check_size("it", LIMIT)
    with pytest.raises(ProblemSizeError, match=f"it would have {LIMIT + 1:,} numbers"):
        problem.check_size("it", LIMIT + 1)


def test_inconsistent_problems_are_refused_early():
    good = {
        "transitions": np.eye(2)[[[0, 1], [1, 0]]],
        "rewards": np.zeros((2, 2)),
        "initial": np.array([1.0, 0.0]),
        "horizon": 3,
    }
    for wrong, message in (
        ({"rewards": np.zeros(2)}, r"rewards should be \[S, A\]"),
        ({"rewards": np.full((2, 2), np.nan)}, "finite"),
        ({"horizon": 2.5}, "whole number"),
        ({"discount": -1}, "between 0 and 1"),
    ):
        with pytest.raises(ProblemSizeError, match=message):
            MDP(**{**good, **wrong})
    mdp = MDP(**good)
    with pytest.raises(ProblemSizeError, match="unknown action"):
        SEDMDP.make(mdp, "constant:1", 0.7)
    with pytest.raises(ProblemSizeError, match="both be in fractions"):
        SEDMDP(mdp, DelayProcess.from_law("constant:1"), (0,))
