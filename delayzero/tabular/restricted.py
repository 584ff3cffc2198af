"""The best policy of a partial observation, found and certified by branch and bound.

A deterministic policy maps its observation at each time to a decision. Situations with the same
observation share a decision, so dynamic programming does not apply. The search goes forward in time
with the exact distribution of (state, queue, delay). It bounds the remaining return from above by
the optimum of a policy that observes everything.
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
"""State, queue number and delays: z_0 .. z_t if the view keeps them, otherwise z_t alone."""
MAX_NODES = 5_000_000


@dataclass(frozen=True)
class View:
    """What a policy observes besides the time.

    Attributes:
        see: Maps a situation to the observation.
        keeps_delays: Whether the observation includes earlier delays.
    """

    see: Callable[[Situation], Hashable]
    keeps_delays: bool = False


def state_and_delay(problem: SEDMDP) -> View:
    """A policy of (t, s, z_t)."""
    return View(lambda situation: (situation[0], situation[2][-1]))


def state_and_delays(problem: SEDMDP) -> View:
    """A policy of (t, s, z_0 .. z_t)."""
    return View(lambda situation: (situation[0], situation[2]), keeps_delays=True)


def predicted_and_delay(problem: SEDMDP) -> View:
    """A policy of (t, the most likely state in which its decision executes, z_t)."""
    predicted = predicted_states(problem).tolist()

    def see(situation: Situation) -> Hashable:
        state, queue, (*_, delay) = situation
        return predicted[state][queue][delay], delay

    return View(see)


@dataclass
class Best:
    """The best policy of a class.

    Attributes:
        value: Its expected return, the largest in the class (to 1e-12 in floats).
        policy: The decision for each (time, observation).
        nodes: The number of decision points searched.
    """

    value: Any = None
    policy: dict[tuple[int, Hashable], int] = field(default_factory=dict)
    nodes: int = 0


def solve_restricted(
    problem: SEDMDP, view: Callable[[SEDMDP], View], max_nodes: int = MAX_NODES
) -> Best:
    """The best deterministic policy of the time and of a view's observation.

    No randomised policy of the class does better: the return is affine in each decision.

    Args:
        problem: A SED-MDP with a horizon.
        view: What the policy observes, such as :func:`state_and_delay`.
        max_nodes: The largest number of decision points to search.

    Raises:
        ProblemSizeError: The problem has no horizon, or the search reached ``max_nodes``. A result
            of an unfinished search would not be certified, so there is none.
    """
    if problem.mdp.horizon is None:
        raise ProblemSizeError(
            "the search for a restricted policy needs a horizon; set MDP.horizon"
        )
    observed = view(problem)
    kept = problem.mdp.horizon if observed.keeps_delays else 1
    situations = problem.mdp.states * problem.queues * (problem.max_delay + 1) ** kept
    problem.check_size("the situations of the search", situations)
    return _Search(problem, observed, max_nodes).run()


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
        """Search the decisions from a time on, given the distribution of situations then."""
        if time == self.horizon:
            if self.best.value is None or earned > self.best.value:
                self.best.value, self.best.policy = earned, dict(self.policy)
            return
        cells: dict[Hashable, list[Situation]] = defaultdict(list)
        for situation in law:
            cells[self.see(situation)].append(situation)
        scores = {cell: self.scores(time, law, members) for cell, members in cells.items()}
        # Cells where the decision matters most come first, so that bad decisions are pruned early.
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
        """The value of each decision in a cell if the policy observes everything afterwards."""
        q = self.optimum.q[time]
        totals: list[Any] = [0] * self.problem.mdp.actions
        for situation in members:
            state, queue, delays = situation
            values = q[state, queue, delays[-1]]
            for decision in range(len(totals)):
                totals[decision] = totals[decision] + law[situation] * values[decision]
        if all(time + delays[-1] >= self.horizon for _, _, delays in members):
            return totals[:1]  # the decision would execute after the end: all are equal
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
        """The joint decisions that may beat the best so far, most promising first."""

        def extend(place: int, chosen: tuple[int, ...], total: Any) -> Iterator[tuple[int, ...]]:
            self.best.nodes += 1
            if self.best.nodes > self.max_nodes:
                raise ProblemSizeError(
                    f"the search was not finished after {self.max_nodes:,} decision points; "
                    "raise max_nodes or take a smaller problem"
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
        """Take a step: the expected reward, and the distribution of the next situation."""
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
