"""The best policy that sees only part of the state, by a branch and bound that certifies it.

A deterministic policy maps what it sees at each time to a decision. Two situations that look alike
get the same decision, which makes this a problem of a different kind from dynamic programming. The
search goes forward in time with the exact law of (state, queue, delay); what remains is bounded
from above by the optimum that sees everything.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any

from delayzero.tabular.acting import predicted_states
from delayzero.tabular.mdp import SEDMDP, ProblemSizeError
from delayzero.tabular.solve import TOLERANCE, Solution, solve_augmented

Situation = tuple[int, int, tuple[int, ...]]
"""State, number of the queue, and the delays: all so far where the view keeps them, else z_t."""
MAX_NODES = 5_000_000


@dataclass(frozen=True)
class View:
    """What a policy sees, besides the time.

    Attributes:
        see: What it sees of a situation.
        keeps_delays: Whether it sees delays before the present one.
    """

    see: Callable[[Situation], Hashable]
    keeps_delays: bool = False


def state_and_delay(problem: SEDMDP) -> View:
    """The policy sees (t, s, z_t)."""
    return View(lambda situation: (situation[0], situation[2][-1]))


def state_and_delays(problem: SEDMDP) -> View:
    """The policy sees (t, s, z_0 .. z_t)."""
    return View(lambda situation: (situation[0], situation[2]), keeps_delays=True)


def predicted_and_delay(problem: SEDMDP) -> View:
    """The policy sees (t, the most likely state that its decision meets, z_t)."""
    predicted = predicted_states(problem).tolist()

    def see(situation: Situation) -> Hashable:
        state, queue, (*_, delay) = situation
        return predicted[state][queue][delay], delay

    return View(see)


@dataclass
class Best:
    """The best policy of a class.

    Attributes:
        value: Its expected return; no policy of the class has more (to 1e-12 in floats).
        policy: The decision for each (time, what is seen).
        nodes: How many decision points the search looked at.
    """

    value: Any = None
    policy: dict[tuple[int, Hashable], int] = field(default_factory=dict)
    nodes: int = 0


def solve_restricted(
    problem: SEDMDP, view: Callable[[SEDMDP], View], max_nodes: int = MAX_NODES
) -> Best:
    """The best deterministic policy of the time and of what a view shows it.

    Randomised policies of the class have no more: the return is affine in each decision.

    Args:
        problem: A SED-MDP with a horizon.
        view: What the policy sees, such as :func:`state_and_delay`.
        max_nodes: After so many decision points the search gives up.

    Raises:
        ProblemSizeError: No horizon, or the search gave up; nothing is returned then, since it
            would not be certified.
    """
    if problem.mdp.horizon is None:
        raise ProblemSizeError("restricted policies are searched over a horizon: give one")
    seen = view(problem)
    kept = problem.mdp.horizon if seen.keeps_delays else 1
    situations = problem.mdp.states * problem.queues * (problem.max_delay + 1) ** kept
    problem.check_size("the situations of the search", situations)
    return _Search(problem, seen, max_nodes).run()


class _Search:
    def __init__(self, problem: SEDMDP, view: View, max_nodes: int) -> None:
        self.problem, self.see, self.max_nodes = problem, view.see, max_nodes
        self.keeps_delays = view.keeps_delays
        self.horizon = problem.mdp.horizon or 0
        self.optimum: Solution = solve_augmented(problem)
        self.slack = TOLERANCE if problem.mdp.transitions.dtype != object else 0
        self.best = Best()
        self.policy: dict[tuple[int, Hashable], int] = {}
        executed, left = problem.moves
        self.executed, self.left = executed.tolist(), left.tolist()

    def run(self) -> Best:
        law: dict[Situation, Any] = {}
        mdp, delays = self.problem.mdp, self.problem.delays
        for state, chance in enumerate(mdp.initial):
            for delay, share in enumerate(delays.first):
                if chance and share:
                    law[state, self.problem.default_number, (delay,)] = chance * share
        self.descend(0, law, 0)
        return self.best

    def descend(self, time: int, law: dict[Situation, Any], earned: Any) -> None:
        """Search the decisions from a time on, given the law of situations that led there."""
        if time == self.horizon:
            if self.best.value is None or earned > self.best.value:
                self.best.value, self.best.policy = earned, dict(self.policy)
            return
        cells: dict[Hashable, list[Situation]] = defaultdict(list)
        for situation in law:
            cells[self.see(situation)].append(situation)
        scores = {cell: self.scores(time, law, members) for cell, members in cells.items()}
        # Cells where the choice matters most come first, so that bad ones are cut off early.
        order = sorted(cells, key=lambda cell: max(scores[cell]) - min(scores[cell]), reverse=True)
        rest = [0] * (len(order) + 1)
        for place in range(len(order) - 1, -1, -1):
            rest[place] = rest[place + 1] + max(scores[order[place]])
        weight = self.problem.mdp.discount**time
        for choice in self.choices(order, scores, rest, time, earned, weight):
            for cell, decision in zip(order, choice, strict=True):
                self.policy[time, cell] = decision
            reward, following = self.step(law, dict(zip(order, choice, strict=True)), weight)
            self.descend(time + 1, following, earned + reward)
            for cell in order:
                del self.policy[time, cell]

    def scores(self, time: int, law: dict[Situation, Any], members: list[Situation]) -> list[Any]:
        """For each decision in a cell: what it is worth if all is seen afterwards."""
        q = self.optimum.q[time]
        totals: list[Any] = [0] * self.problem.mdp.actions
        for situation in members:
            state, queue, delays = situation
            values = q[state, queue, delays[-1]]
            for decision in range(len(totals)):
                totals[decision] = totals[decision] + law[situation] * values[decision]
        if all(time + delays[-1] >= self.horizon for _, _, delays in members):
            return totals[:1]  # it would run after the end: any decision will do
        return totals

    def choices(
        self,
        order: list[Hashable],
        scores: dict[Hashable, list[Any]],
        rest: list[Any],
        time: int,
        earned: Any,
        weight: Any,
    ) -> Iterator[tuple[int, ...]]:
        """The joint decisions that may still beat the best so far, promising ones first."""

        def extend(place: int, chosen: tuple[int, ...], total: Any) -> Iterator[tuple[int, ...]]:
            self.best.nodes += 1
            if self.best.nodes > self.max_nodes:
                raise ProblemSizeError(
                    f"the search was not finished after {self.max_nodes:,} decision points; "
                    "the limit is max_nodes"
                )
            if place == len(order):
                yield chosen
                return
            values = scores[order[place]]
            for decision in sorted(range(len(values)), key=lambda d: values[d], reverse=True):
                bound = earned + weight * (total + values[decision] + rest[place + 1])
                if self.best.value is not None and bound <= self.best.value + self.slack:
                    return
                yield from extend(place + 1, (*chosen, decision), total + values[decision])

        yield from extend(0, (), 0)

    def step(
        self, law: dict[Situation, Any], decisions: dict[Hashable, int], weight: Any
    ) -> tuple[Any, dict[Situation, Any]]:
        """One step with given decisions: the expected reward, and the law of what follows."""
        mdp, kernel = self.problem.mdp, self.problem.delays.kernel
        reward: Any = 0
        following: dict[Situation, Any] = defaultdict(int)
        for situation, chance in law.items():
            state, queue, delays = situation
            decision = decisions[self.see(situation)]
            action = self.executed[delays[-1]][queue][decision]
            left = self.left[delays[-1]][queue][decision]
            reward += weight * chance * mdp.rewards[state, action]
            for other, p in enumerate(mdp.transitions[state, action]):
                if p:
                    for delay, share in enumerate(kernel[delays[-1]]):
                        if share:
                            kept = (*delays, delay) if self.keeps_delays else (delay,)
                            following[other, left, kept] += chance * p * share
        return reward, following
