"""The loss of each way of acting, averaged over random problems."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from delayzero.tabular.acting import values_of_acting
from delayzero.tabular.families import random_mdp
from delayzero.tabular.mdp import SEDMDP

OPTIMUM = "optimum (state, queue, delay)"


@dataclass(frozen=True)
class Loss:
    """The loss of a way of acting in one family of problems under one delay law.

    Attributes:
        family: The family of MDPs.
        law: The delay law.
        way: The way of acting.
        mean: The mean over problems of (V_optimum - V) / (V_optimum - V_random).
        error: The standard error of the mean.
        problems: The number of problems.
    """

    family: str
    law: str
    way: str
    mean: float
    error: float
    problems: int


def sweep(
    families: Iterable[str],
    laws: Iterable[str],
    *,
    states: int = 4,
    actions: int = 2,
    horizon: int = 20,
    problems: int = 20,
    seed: int = 0,
    advance: Callable[[int], None] = lambda units: None,
) -> list[Loss]:
    """The loss of every way of acting in every family under every delay law.

    Args:
        families: Names from ``FAMILIES``.
        laws: Delay laws, such as ``"walk:3"``.
        states: Number of states, S.
        actions: Number of actions, A.
        horizon: Steps per episode.
        problems: Random problems per family. All laws share them.
        seed: The seed of the first problem; the next ones count up from it.
        advance: Called with 1 after each problem.
    """
    losses = []
    for family in families:
        for law in laws:
            lost: dict[str, list[float]] = {}
            for problem in range(problems):
                mdp = random_mdp(family, states, actions, horizon, seed + problem)
                values = values_of_acting(SEDMDP.make(mdp, law))
                scale = values[OPTIMUM] - values["random"]
                for way, value in values.items():
                    if way not in (OPTIMUM, "undelayed optimum", "random") and scale > 1e-9:
                        share = (values[OPTIMUM] - value) / scale
                        lost.setdefault(way, []).append(0.0 if abs(share) < 1e-9 else share)
                advance(1)
            for way, shares in lost.items():
                error = float(np.std(shares, ddof=1) / np.sqrt(len(shares)))
                losses.append(Loss(family, law, way, float(np.mean(shares)), error, len(shares)))
    return losses
