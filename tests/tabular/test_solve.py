from fractions import Fraction as F
from itertools import product

import gymnasium as gym
import numpy as np
import pytest

from delayzero.delays import DelayedExecution
from delayzero.tabular.mdp import MDP, SEDMDP, ProblemSizeError, exact
from delayzero.tabular.paths import expected_return
from delayzero.tabular.solve import best, evaluate, solve_augmented, solve_undelayed

from . import oracle
from .oracle import LAWS, action_at, in_floats, random_mdp, random_problem

SMALL_LAWS = [law for law in LAWS if not law.endswith("2")]


@pytest.mark.parametrize("law", [*LAWS, 1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_augmented_optimum_is_that_over_all_histories(law, seed):
    rng = np.random.default_rng(seed)
    discount = (1, F(1, 2), F(9, 10))[seed]
    problem = random_problem(rng, law, horizon=5 - (law != "constant:1"), discount=discount)
    solution = solve_augmented(problem)
    assert isinstance(solution.value, F)
    assert solution.value == oracle.optimum(problem)
    assert solve_augmented(in_floats(problem)).value == pytest.approx(
        float(solution.value), abs=1e-12
    )


def test_augmented_optimum_with_three_states_and_actions():
    for law in ("uniform:0-1", "walk:1", "constant:2"):
        problem = random_problem(np.random.default_rng(5), law, states=3, actions=3, horizon=3)
        assert solve_augmented(problem).value == oracle.optimum(problem)


def test_default_queue_matters_and_only_as_far_as_it_runs():
    mdp = random_mdp(np.random.default_rng(2), horizon=3)
    values = {}
    for default in product(range(2), repeat=2):
        problem = SEDMDP.make(mdp, "constant:2", default)
        values[default] = solve_augmented(problem).value
        assert values[default] == oracle.optimum(problem)
    assert len(set(values.values())) == 4
    early = [SEDMDP.make(mdp, "markov:0-0=0.5,0-2=0.5,2-0=1", d) for d in values]
    assert len({solve_augmented(problem).value for problem in early}) == 1  # z_0 = 0: never runs


@pytest.mark.parametrize("seed", range(5))
def test_no_delay_is_the_undelayed_problem(seed):
    mdp = random_mdp(np.random.default_rng(seed), states=3, actions=2, horizon=4)
    problem = SEDMDP.make(mdp, "constant:0")
    assert solve_augmented(problem).value == solve_undelayed(mdp).value == oracle.optimum(problem)
    for time in range(4):
        undelayed, augmented = solve_undelayed(mdp).at(time), solve_augmented(problem).at(time)
        assert (augmented[:, 0, 0] == undelayed).all()


@pytest.mark.parametrize("law", ["constant:1", "uniform:0-2", "walk:2"])
def test_delay_never_helps(law):
    losses = 0
    for seed in range(10):
        problem = random_problem(np.random.default_rng(seed), law)
        undelayed = solve_undelayed(problem.mdp).value
        assert solve_augmented(problem).value <= undelayed
        losses += solve_augmented(problem).value < undelayed
    assert losses >= 5


def endless_bellman(problem, values):
    """Q of (state, queue, delay, decision), with queues as tuples, from values without decision."""
    mdp, kernel, most = problem.mdp, problem.delays.kernel, problem.max_delay
    result = {}
    for state, queue, delay in values:
        for decision in range(mdp.actions):
            written = queue[:delay] + (decision,) * (most + 1 - delay)
            after = sum(
                p * share * values[other, written[1:], later]
                for other, p in enumerate(mdp.transitions[state, written[0]])
                for later, share in enumerate(kernel[delay])
            )
            result[state, queue, delay, decision] = (
                mdp.rewards[state, written[0]] + mdp.discount * after
            )
    return result


@pytest.mark.parametrize("law", ["constant:2", "uniform:0-1", "walk:2", 2])
def test_endless_solution_solves_the_linear_equations_of_its_policy(law):
    problem = in_floats(
        random_problem(np.random.default_rng(3), law, horizon=None, discount=F(9, 10))
    )
    solution = solve_augmented(problem)
    assert len(solution.q) == 1
    assert evaluate(problem, solution.greedy) == pytest.approx(solution.value, abs=1e-10)
    queues = [tuple(slots) for slots in problem.queue_slots.tolist()]
    greedy = solution.greedy(0)
    keys = list(product(range(2), queues, range(problem.max_delay + 1)))
    chosen = {k: int(greedy[k[0], queues.index(k[1]), k[2]]) for k in keys}
    rewards = endless_bellman(problem, dict.fromkeys(keys, 0.0))
    system = np.eye(len(keys))
    for column, unit in enumerate(keys):  # the columns of I - gamma P
        reached = endless_bellman(problem, {k: float(k == unit) for k in keys})
        for row, k in enumerate(keys):
            system[row, column] -= reached[*k, chosen[k]] - rewards[*k, chosen[k]]
    solved = np.linalg.solve(system, [rewards[*k, chosen[k]] for k in keys])
    values = dict(zip(keys, solved, strict=True))
    q = endless_bellman(problem, values)
    for k, value in values.items():
        assert max(q[*k, a] for a in range(2)) == pytest.approx(value, abs=1e-9)
        assert solution.q[0][k[0], queues.index(k[1]), k[2]] == pytest.approx(
            [q[*k, a] for a in range(2)], abs=1e-9
        )
    assert solution.value == pytest.approx(
        sum(
            problem.mdp.initial[s] * problem.delays.first[z] * values[s, problem.default, z]
            for s in range(2)
            for z in range(problem.max_delay + 1)
        ),
        abs=1e-9,
    )


@pytest.mark.parametrize("law", ["constant:1", "uniform:0-2", "walk:2"])
def test_endless_value_is_the_limit_of_long_horizons(law):
    problem = in_floats(
        random_problem(np.random.default_rng(4), law, horizon=None, discount=F(4, 5))
    )
    mdp = problem.mdp
    long = MDP(mdp.transitions, mdp.rewards, mdp.initial, 150, 0.8)
    limit = solve_augmented(SEDMDP(long, problem.delays, problem.default)).value
    assert solve_augmented(problem).value == pytest.approx(limit, abs=1e-11)
    assert solve_undelayed(mdp).value == pytest.approx(solve_undelayed(long).value, abs=1e-11)


def test_endless_undelayed_problem_by_hand():
    # Stay for 1 each step, or leave for 2 once.
    transitions = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]])
    rewards = np.array([[1.0, 2.0], [0.0, 0.0]])
    mdp = MDP(transitions, rewards, np.array([1.0, 0.0]), discount=0.75)
    solution = solve_undelayed(mdp)
    assert solution.value == pytest.approx(4, abs=1e-11)
    assert solution.greedy(7).tolist() == [0, 0]


def test_transitions_in_whole_numbers_are_the_same_problem():
    mdp = random_mdp(np.random.default_rng(0), deterministic=True, fixed_start=True)
    whole = MDP(mdp.transitions.astype(int), mdp.rewards.astype(float), mdp.initial.astype(int), 4)
    wanted = solve_augmented(SEDMDP.make(mdp, "uniform:0-1")).value
    assert wanted.denominator > 1
    assert solve_undelayed(whole).value == pytest.approx(float(solve_undelayed(mdp).value))
    assert solve_augmented(SEDMDP.make(whole, "uniform:0-1")).value == pytest.approx(float(wanted))


def test_best_is_the_first_of_equal_values():
    assert best(np.array([[0.0, 1.0, 1.0 + 1e-14], [2.0, 1.0, 2.0]])).tolist() == [1, 0]
    assert best(exact([F(1, 3), F(1, 3) + F(1, 10**20)])).item() == 1


def test_times_after_the_horizon_have_the_last_values():
    mdp = random_mdp(np.random.default_rng(0), horizon=3)
    solution = solve_undelayed(mdp)
    assert (solution.at(9) == mdp.rewards).all()
    assert (solution.at(2) == mdp.rewards).all()


def queue_number(problem, delays, decisions):
    time, number = len(decisions), 0
    for later in range(time, time + problem.max_delay):
        number = number * problem.mdp.actions + action_at(problem, delays, decisions, later)
    return number


@pytest.mark.parametrize("law", SMALL_LAWS)
def test_value_of_decision_tables(law):
    rng = np.random.default_rng(6)
    problem = random_problem(rng, law, discount=F(3, 4))
    shape = (problem.mdp.states, problem.queues, problem.max_delay + 1)
    tables = rng.integers(0, 2, (4, *shape))

    def decide(states, delays, decisions):
        queue = queue_number(problem, delays, decisions)
        return tables[len(decisions)][states[-1], queue, delays[-1]]

    value = evaluate(problem, lambda time: tables[time])
    assert value == oracle.policy_value(problem, decide)
    assert value <= solve_augmented(problem).value


@pytest.mark.parametrize("law", [*SMALL_LAWS, "uniform:0-2"])
def test_value_of_random_tables_is_the_expected_return_over_paths(law):
    rng = np.random.default_rng(7)
    problem = random_problem(rng, law, horizon=3, discount=F(3, 4))
    shape = (3, problem.mdp.states, problem.queues, problem.max_delay + 1)
    zeros = exact(rng.integers(1, 4, shape)) / 4
    tables = np.stack([zeros, 1 - zeros], axis=-1)

    def policy(history, decided):
        queue = queue_number(problem, history[1::3], decided)
        return tables[len(decided)][history[-2], queue, history[-1]]

    value = evaluate(problem, lambda time: tables[time])
    assert value == expected_return(problem, policy)
    assert value == oracle.tree_value(
        problem,
        lambda s, z, d, worth: sum(
            p * worth(a)
            for a, p in enumerate(tables[len(d)][s[-1], queue_number(problem, z, d), z[-1]])
        ),
    )


@pytest.mark.parametrize("law", ["walk:2", "uniform:0-2"])
def test_greedy_policy_has_the_optimal_value(law):
    problem = random_problem(np.random.default_rng(8), law, horizon=6)
    solution = solve_augmented(problem)
    assert evaluate(problem, solution.greedy) == solution.value


class TabularEnv(gym.Env):
    def __init__(self, mdp):
        self.mdp = mdp
        self.observation_space = gym.spaces.Discrete(mdp.states)
        self.action_space = gym.spaces.Discrete(mdp.actions)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        self.state = int(self.np_random.choice(self.mdp.states, p=self.mdp.initial))
        return self.state, {}

    def step(self, action):
        reward = float(self.mdp.rewards[self.state, action])
        law = self.mdp.transitions[self.state, action]
        self.state = int(np.searchsorted(np.cumsum(law)[:-1], self.np_random.random(), "right"))
        self.time += 1
        return self.state, reward, False, self.time == self.mdp.horizon, {}


@pytest.mark.parametrize("law", ["uniform:0-2", "walk:2", "constant:2"])
def test_optimal_policy_earns_its_value_in_the_delayed_environment(law):
    problem = in_floats(random_problem(np.random.default_rng(9), law, states=3, horizon=6))
    solution = solve_augmented(problem)
    tables = [solution.greedy(time) for time in range(6)]
    env = DelayedExecution(TabularEnv(problem.mdp), law, initial_actions=list(problem.default))
    returns = []
    for episode in range(3000):
        state, info = env.reset(seed=episode)
        total, ended = 0.0, False
        while not ended:
            queue = 0
            for slot in range(2):  # slots beyond the delay do not matter
                known = slot < info["delay"]
                queue = 2 * queue + (int(info["pending"][slot]) if known else 0)
            decision = int(tables[env.unwrapped.time][state, queue, info["delay"]])
            state, reward, _, ended, info = env.step(decision)
            total += reward
        returns.append(total)
    error = np.std(returns) / np.sqrt(len(returns))
    assert error < 0.05
    assert abs(np.mean(returns) - solution.value) < 4 * error
    # It would not do to play something else: the test can tell.
    lazy = evaluate(problem, lambda time: np.zeros_like(tables[0]))
    assert abs(lazy - solution.value) > 8 * error


def test_wrong_policies_and_endless_fractions_are_refused():
    problem = random_problem(np.random.default_rng(0), "uniform:0-1")
    with pytest.raises(ProblemSizeError, match="the policy gives a table of shape"):
        evaluate(problem, lambda time: np.zeros((2, 1, 1), int))
    shape = (2, 2, 2, 2)
    with pytest.raises(ProblemSizeError, match="sum to 1"):
        evaluate(problem, lambda time: np.full(shape, 0.4))
    rng = np.random.default_rng(0)
    endless = random_problem(rng, "uniform:0-1", horizon=None, discount=F(1, 2))
    with pytest.raises(ProblemSizeError, match="fractions need a horizon"):
        solve_augmented(endless)
