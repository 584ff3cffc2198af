"""Random finite MDPs, in families that differ in how noisy their transitions are."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from delayzero.tabular.mdp import MDP, Array, exact

Make = Callable[[np.random.Generator, int, int], Array]


def dense(rng: np.random.Generator, states: int, actions: int) -> Array:
    """Any state can follow: each row is drawn from a flat Dirichlet distribution."""
    return rng.dirichlet(np.ones(states), (states, actions))


def sparse(rng: np.random.Generator, states: int, actions: int) -> Array:
    """Two states can follow each state and action (one, if there is only one)."""
    result = np.zeros((states, actions, states))
    for state in range(states):
        for action in range(actions):
            targets = rng.choice(states, min(2, states), replace=False)
            result[state, action, targets] = rng.dirichlet(np.ones(len(targets)))
    return result


def deterministic(rng: np.random.Generator, states: int, actions: int) -> Array:
    """Each state and action has a single successor."""
    return np.eye(states)[rng.integers(states, size=(states, actions))]


def slip(rng: np.random.Generator, states: int, actions: int) -> Array:
    """Deterministic, except that with probability 0.1 the next state is uniformly random."""
    return 0.9 * deterministic(rng, states, actions) + 0.1 / states


def sticky(rng: np.random.Generator, states: int, actions: int) -> Array:
    """Deterministic, except that with probability 0.25 the state does not change."""
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
    """A random MDP with rewards uniform on 0, 0.01, ..., 1 and a uniform initial state.

    Args:
        family: One of ``FAMILIES``.
        states: Number of states, S.
        actions: Number of actions, A.
        horizon: Steps per episode.
        seed: Equal seeds give equal MDPs.
        rational: Use Fractions. The family's probabilities must be rational: deterministic, slip
            or sticky.

    Raises:
        ValueError: The family is unknown, or has no rational probabilities.
    """
    if family not in FAMILIES:
        raise ValueError(f"unknown family of MDPs '{family}'; choose from {', '.join(FAMILIES)}")
    key = (list(FAMILIES).index(family),)
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
    transitions = FAMILIES[family](rng, states, actions)
    rewards = rng.integers(0, 101, (states, actions)) / 100
    initial = np.full(states, 1 / states)
    if not rational:
        return MDP(transitions, rewards, initial, horizon)
    if family not in ("deterministic", "slip", "sticky"):
        raise ValueError(
            f"the probabilities of the family '{family}' are not rational; "
            "choose deterministic, slip or sticky"
        )
    rounded = exact(np.round(transitions * 20 * states))
    shares = rounded / rounded.sum(axis=-1, keepdims=True)
    start = np.full(states, Fraction(1, states), dtype=object)
    return MDP(shares, exact(rewards), start, horizon)
