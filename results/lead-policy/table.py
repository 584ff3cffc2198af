"""Print what ways of acting are worth in random problems, exactly.

    python results/lead-policy/table.py constant:7 --problems 40 > table.jsonl

The ways are those of ``delayzero theory``, and the *vote*: the action that is most likely to be the
best one in the state that comes. A policy that was trained on searches from real states says this
of an uncertain forecast. The initial queue is planned by each way, from the first state, as the
agents plan theirs; the optimum has the best queue.
"""

import argparse
import json
from dataclasses import replace

import numpy as np
from mdps import ACTIONS, STEPS, problem

from delayzero.tabular import acting
from delayzero.tabular.mdp import SEDMDP
from delayzero.tabular.solve import best, evaluate, solve_augmented, solve_undelayed

WAYS = ("at the most likely state", "Q averaged over the belief")


def vote(problem):
    """Take the action that is most often the best one in the states of the belief."""
    votes = acting.at_sampled(problem)
    return lambda time: best(votes(time))


def planned(problem, first, state):
    """Return the queue that a policy plans from a state; ``first`` are its decisions at time 0."""
    queue = [0] * problem.max_delay
    for slot in range(problem.max_delay):
        number = replace(problem, default=tuple(queue)).default_number
        queue[slot] = int(first[state, number, slot])
    return tuple(queue)


def value(problem, policy):
    """Return the value of a policy that plans its initial queue."""
    states, first = problem.mdp.states, policy(0)
    values = []
    for state in range(states):
        mdp = replace(problem.mdp, initial=np.eye(states)[state])
        alone = replace(problem, mdp=mdp, default=planned(problem, first, state))
        values.append(evaluate(alone, policy))
    return float(np.dot(problem.mdp.initial, values))


def values(problem):
    """Return the value of each way of acting, of the optimum, and of random play, by name."""
    optimum = solve_augmented(problem).at(0).max(axis=-1)  # [S, A^M, M + 1]
    expected = np.tensordot(optimum, problem.delays.first, axes=(2, 0))
    still = SEDMDP.make(problem.mdp, "constant:0")
    uniform = np.full((problem.mdp.states, 1, 1, ACTIONS), 1 / ACTIONS)
    ways = {way: value(problem, acting.WAYS[way](problem)) for way in WAYS}
    return {
        "undelayed": float(solve_undelayed(problem.mdp).value),
        "optimum": float(np.dot(problem.mdp.initial, expected.max(axis=1))),
        **ways,
        "vote": value(problem, vote(problem)),
        "random": float(evaluate(still, lambda time: uniform)),
    }


def main():
    """Print a line for each problem."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("law")
    parser.add_argument("--families", nargs="+", default=["slip", "sticky", "sparse", "dense"])
    parser.add_argument("--problems", type=int, default=40)
    options = parser.parse_args()
    for family in options.families:
        for seed in range(options.problems):
            name = f"{family}_{seed}"
            found = values(SEDMDP.make(problem(name), options.law))
            rounded = {way: round(worth, 4) for way, worth in found.items()}
            print(
                json.dumps({"problem": name, "law": options.law, "steps": STEPS, **rounded}),
                flush=True,
            )


if __name__ == "__main__":
    main()
