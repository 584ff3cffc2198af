"""Finite MDPs, finite delay processes, and their combination: SED-MDPs."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delayzero.delays import (
    Categorical,
    Constant,
    DelayError,
    GilbertElliott,
    Law,
    MarkovChain,
    Uniform,
    Walk,
    parse,
)

Array = NDArray[Any]
"""Floats, or an object array of Fractions; every function here accepts both."""

LIMIT = 20_000_000
"""The largest number of entries in any array of a solver; larger problems raise an error."""


class ProblemSizeError(ValueError):
    """A finite problem is inconsistent or too large."""


def exact(values: Any) -> Array:
    """Convert numbers to an array of Fractions; a float becomes the decimal that it prints as."""
    fractions: Array = np.vectorize(_fraction, otypes=[object])(np.asarray(values, dtype=object))
    return fractions


def _fraction(value: Any) -> Fraction:
    return (
        Fraction(repr(float(value))) if isinstance(value, (float, np.floating)) else Fraction(value)
    )


def is_exact(array: Array) -> bool:
    """Whether an array holds Fractions."""
    return array.dtype == object


@dataclass(frozen=True, eq=False)
class MDP:
    """A finite MDP with a horizon or a discount.

    Attributes:
        transitions: P, the probability of each next state, ``[S, A, S]``.
        rewards: r, the expected reward, ``[S, A]``.
        initial: mu, the distribution of the first state, ``[S]``.
        horizon: Steps per episode; None for a discounted problem with an infinite horizon.
        discount: gamma; 1 needs a finite horizon.
    """

    transitions: Array
    rewards: Array
    initial: Array
    horizon: int | None = None
    discount: Any = 1

    def __post_init__(self) -> None:
        fields = ("transitions", "rewards", "initial")
        arrays = {name: np.asarray(getattr(self, name)) for name in fields}
        fractions = any(is_exact(array) for array in arrays.values())
        for name, array in arrays.items():  # all Fractions or all floats
            number = exact(array) if fractions else array.astype(float)
            object.__setattr__(self, name, number)
        if fractions:
            object.__setattr__(self, "discount", _fraction(self.discount))
        if self.rewards.ndim != 2:
            raise ProblemSizeError(f"rewards should be [S, A], not {self.rewards.shape}")
        if not fractions and not np.isfinite(self.rewards).all():
            raise ProblemSizeError("rewards should be finite")
        states, actions = np.shape(self.rewards)
        if np.shape(self.transitions) != (states, actions, states):
            raise ProblemSizeError(
                f"transitions have shape {np.shape(self.transitions)}; with rewards of shape "
                f"{(states, actions)} they should have {(states, actions, states)}"
            )
        if np.shape(self.initial) != (states,):
            raise ProblemSizeError(f"the initial distribution should have {states} entries")
        check_distributions("transitions", self.transitions)
        check_distributions("the initial distribution", self.initial)
        if self.horizon is None and not 0 <= self.discount < 1:
            raise ProblemSizeError(
                "without a horizon the discount should be at least 0 and below 1, "
                f"not {self.discount}"
            )
        if not 0 <= self.discount <= 1:
            raise ProblemSizeError(f"the discount should be between 0 and 1, not {self.discount}")
        if self.horizon is not None and (self.horizon < 1 or not isinstance(self.horizon, int)):
            raise ProblemSizeError(
                f"the horizon should be a whole number, at least 1, not {self.horizon}"
            )

    @property
    def states(self) -> int:
        """The number of states, S."""
        return int(np.shape(self.rewards)[0])

    @property
    def actions(self) -> int:
        """The number of actions, A."""
        return int(np.shape(self.rewards)[1])

    def exact(self) -> MDP:
        """The same problem in Fractions.

        Raises:
            ProblemSizeError: The probabilities, read as decimals, do not sum to exactly 1.
        """
        return MDP(
            exact(self.transitions),
            exact(self.rewards),
            exact(self.initial),
            self.horizon,
            _fraction(self.discount),
        )


@dataclass(frozen=True, eq=False)
class DelayProcess:
    """A finite Markov process of delays in 0 .. M.

    Attributes:
        first: The distribution of z_0, ``[M + 1]``.
        kernel: K, the distribution of z_t given z_{t-1}, ``[M + 1, M + 1]``.
    """

    first: Array
    kernel: Array

    def __post_init__(self) -> None:
        count = len(self.first)
        if np.shape(self.kernel) != (count, count):
            raise ProblemSizeError(f"the kernel should be {count} x {count}")
        check_distributions("the first delay", self.first)
        check_distributions("the kernel of the delays", self.kernel)

    @property
    def max_delay(self) -> int:
        """The largest delay, M."""
        return len(self.first) - 1

    @classmethod
    def from_law(cls, law: Law | str) -> DelayProcess:
        """The process of a delay law of :mod:`delayzero.delays`, in Fractions.

        Args:
            law: A law or its text, such as ``"walk:5"``.

        Raises:
            DelayError: The law's delays are not a finite Markov process.
        """
        law = parse(law) if isinstance(law, str) else law
        match law:
            case Constant():
                return _independent({law.delay: 1})
            case Uniform():
                values = range(law.low, law.high + 1)
                return _independent(dict.fromkeys(values, Fraction(1, len(values))))
            case Categorical():
                weights = [_fraction(p) for p in law.probabilities]
                shares = [weight / sum(weights) for weight in weights]
                return _independent(dict(zip(law.delays, shares, strict=True)))
            case Walk():
                return _walk(law)
            case MarkovChain():
                matrix = [[_fraction(p) for p in row] for row in law.matrix]
                begin = law.delays[0] if law.start is None else law.start
                return _chain(law.delays, matrix, begin)
            case GilbertElliott() if law.lost is None and law.good == law.bad:
                return _independent({law.good: 1})
            case GilbertElliott() if law.lost is None:
                p, r = _fraction(law.p), _fraction(law.r)
                return _chain((law.good, law.bad), [[1 - p, p], [r, 1 - r]], law.good)
        raise DelayError(
            f"the delays of '{law}' are not a finite Markov process; choose from constant, "
            "uniform, categorical, walk, markov, and gilbert-elliott without losses"
        )

    def as_float(self) -> DelayProcess:
        """The same process in floats."""
        return DelayProcess(self.first.astype(float), self.kernel.astype(float))


def _independent(weights: dict[int, Any]) -> DelayProcess:
    first = np.full(max(weights) + 1, Fraction(0), dtype=object)
    for delay, weight in weights.items():
        first[delay] = Fraction(weight)
    return DelayProcess(first, np.array([first] * len(first), dtype=object))


def _chain(delays: tuple[int, ...], matrix: list[list[Fraction]], begin: int) -> DelayProcess:
    count = max(delays) + 1
    kernel = np.full((count, count), Fraction(0), dtype=object)
    for delay in range(count):  # a delay that never occurs leads to itself
        kernel[delay, delay] = Fraction(1)
    for delay, row in zip(delays, matrix, strict=True):
        kernel[delay] = Fraction(0)
        for other, weight in zip(delays, row, strict=True):
            kernel[delay, other] = weight / sum(row)
    first = np.full(count, Fraction(0), dtype=object)
    first[begin] = Fraction(1)
    return DelayProcess(first, kernel)


def _walk(law: Walk) -> DelayProcess:
    up, down, top = _fraction(law.up), _fraction(law.down), law.limit
    kernel = np.full((top + 1, top + 1), Fraction(0), dtype=object)
    for delay in range(top + 1):
        kernel[delay, min(delay + law.step, top)] += up
        kernel[delay, max(delay - law.step, 0)] += down
        kernel[delay, delay] += 1 - up - down
    first = np.full(top + 1, Fraction(0), dtype=object)
    first[top if law.start is None else law.start] = Fraction(1)
    return DelayProcess(first, kernel)


@dataclass(frozen=True, eq=False)
class SEDMDP:
    """A stochastic-execution-delay MDP: an MDP whose actions take effect late.

    Attributes:
        mdp: The undelayed problem.
        delays: The delay process, independent of the MDP.
        default: The default queue, a-bar: the M actions that execute before any decision
            arrives.
    """

    mdp: MDP
    delays: DelayProcess
    default: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.default) != self.delays.max_delay:
            raise ProblemSizeError(
                f"the default queue has {len(self.default)} actions; it should have "
                f"M = {self.delays.max_delay}"
            )
        if not all(action in range(self.mdp.actions) for action in self.default):
            raise ProblemSizeError(
                f"the default queue {self.default} has an unknown action; actions are "
                f"0 to {self.mdp.actions - 1}"
            )
        if is_exact(self.mdp.transitions) != is_exact(self.delays.kernel):
            raise ProblemSizeError(
                "the MDP and the delays should both be in fractions or both in floats"
            )

    @classmethod
    def make(cls, mdp: MDP, law: Law | str | DelayProcess, default: Any = 0) -> SEDMDP:
        """Combine an MDP with a delay law.

        Args:
            mdp: The undelayed problem. The delays are Fractions if the MDP's arrays are.
            law: A delay law, its text, or a process.
            default: One default action, or M of them.
        """
        delays = law if isinstance(law, DelayProcess) else DelayProcess.from_law(law)
        if not is_exact(mdp.transitions):
            delays = delays.as_float()
        queue = (default,) * delays.max_delay if np.ndim(default) == 0 else tuple(default)
        return cls(mdp, delays, queue)

    @property
    def max_delay(self) -> int:
        """The largest delay, M."""
        return self.delays.max_delay

    @property
    def queues(self) -> int:
        """The number of possible queues, A^M."""
        return int(self.mdp.actions**self.max_delay)

    @cached_property
    def moves(self) -> tuple[Array, Array]:
        """The action that executes and the queue that remains, for each (delay, queue, decision).

        Both arrays have the shape ``[M + 1, A^M, A]``. Queues are numbered in base A, slot 0 first.
        """
        self.check_size(
            "the moves of the queue", (self.max_delay + 1) * self.queues * self.mdp.actions
        )
        actions, length = self.mdp.actions, self.max_delay
        slots = self.queue_slots
        executed = np.zeros((length + 1, self.queues, actions), dtype=np.int64)
        left = np.zeros_like(executed)
        for delay in range(length + 1):
            for decision in range(actions):
                # The decision fills slots z .. M; slot 0 executes.
                written = np.full((self.queues, length + 1), decision)
                written[:, :delay] = slots[:, :delay]
                executed[delay, :, decision] = written[:, 0]
                left[delay, :, decision] = self._number(written[:, 1:])
        return executed, left

    @cached_property
    def queue_slots(self) -> Array:
        """The actions in each queue, ``[A^M, M]``."""
        self.check_size("the table of queues", self.queues * max(self.max_delay, 1))
        numbers = np.arange(self.queues)
        powers = self.mdp.actions ** np.arange(self.max_delay - 1, -1, -1)
        return (numbers[:, None] // powers) % self.mdp.actions

    @property
    def default_number(self) -> int:
        """The number of the default queue."""
        number = 0
        for action in self.default:
            number = number * self.mdp.actions + int(action)
        return number

    def _number(self, slots: Array) -> Array:
        powers = self.mdp.actions ** np.arange(self.max_delay - 1, -1, -1)
        return np.asarray((slots * powers).sum(axis=1), dtype=np.int64)

    def check_size(self, what: str, numbers: int) -> None:
        """Check the size of an array before allocating it.

        Raises:
            ProblemSizeError: It would have more than ``LIMIT`` entries.
        """
        if numbers > LIMIT:
            raise ProblemSizeError(
                f"{what} would have {numbers:,} numbers ({self.mdp.states} states, "
                f"{self.mdp.actions} actions, M = {self.max_delay}); the limit is {LIMIT:,}"
            )


def check_distributions(what: str, array: Array) -> None:
    """Check that the last axis holds distributions: exactly for Fractions, to 1e-9 for floats.

    Raises:
        ProblemSizeError: An entry is negative, or a sum is not 1.
    """
    sums = array.sum(axis=-1)
    negative = (np.asarray(array) < 0).any()
    if negative or not (
        np.all(sums == 1) if is_exact(array) else np.allclose(sums.astype(float), 1, atol=1e-9)
    ):
        raise ProblemSizeError(f"{what} should be probabilities that sum to 1")
