"""Random finite MDPs of several kinds."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from delayzero.tabular.mdp import MDP, Array, exact

Make = Callable[[np.random.Generator, int, int], Array]


def dense(rng: np.random.Generator, states: int, actions: int) -> Array:
    """Every state can follow every other: rows from a flat Dirichlet law."""
    return rng.dirichlet(np.ones(states), (states, actions))


def sparse(rng: np.random.Generator, states: int, actions: int) -> Array:
    """Two states can follow each state and action (one, if there is no more)."""
    result = np.zeros((states, actions, states))
    for state in range(states):
        for action in range(actions):
            targets = rng.choice(states, min(2, states), replace=False)
            result[state, action, targets] = rng.dirichlet(np.ones(len(targets)))
    return result


def deterministic(rng: np.random.Generator, states: int, actions: int) -> Array:
    """One state follows each state and action."""
    return np.eye(states)[rng.integers(states, size=(states, actions))]


def slip(rng: np.random.Generator, states: int, actions: int) -> Array:
    """Deterministic, but with probability 0.1 any state follows."""
    return 0.9 * deterministic(rng, states, actions) + 0.1 / states


def sticky(rng: np.random.Generator, states: int, actions: int) -> Array:
    """Deterministic, but with probability 0.25 the state stays."""
    stay = np.eye(states)[:, None, :]
    return 0.75 * deterministic(rng, states, actions) + 0.25 * stay


FAMILIES: dict[str, Make] = {
    "deterministic": deterministic,
    "slip": slip,
    "sticky": sticky,
    "sparse": sparse,
    "dense": dense,
}


def random_mdp(
    family: str, states: int, actions: int, horizon: int, seed: int, *, rational: bool = False
) -> MDP:
    """A random MDP with rewards that are uniform on 0, 0.01 .. 1 and a uniform first state.

    Args:
        family: One of ``FAMILIES``.
        states: S.
        actions: A.
        horizon: The length of an episode.
        seed: Equal seeds give equal problems.
        rational: In Fractions; only for families whose probabilities are rational (deterministic,
            slip, sticky).
    """
    if family not in FAMILIES:
        raise ValueError(f"'{family}' is no family of MDPs; valid: {', '.join(FAMILIES)}")
    key = (list(FAMILIES).index(family),)
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
    transitions = FAMILIES[family](rng, states, actions)
    rewards = rng.integers(0, 101, (states, actions)) / 100
    initial = np.full(states, 1 / states)
    if not rational:
        return MDP(transitions, rewards, initial, horizon)
    if family not in ("deterministic", "slip", "sticky"):
        raise ValueError(f"the probabilities of the family '{family}' are not rational")
    rounded = exact(np.round(transitions * 20 * states))
    shares = rounded / rounded.sum(axis=-1, keepdims=True)
    start = np.full(states, Fraction(1, states), dtype=object)
    return MDP(shares, exact(rewards), start, horizon)
