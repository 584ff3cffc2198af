"""Our scores beside the paper's, cell by cell, and human-normalised over games."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from delayzero.evaluation.over_seeds import Score
from delayzero.evaluation.paper.tables import (
    ALGORITHMS,
    KINDS,
    PaperScore,
    games,
    longest,
    paper_score,
    reference,
)
from delayzero.evaluation.statistics import iqm
from delayzero.report.groups import Group, best_groups, final_score

DELAYS = (5, 15, 25)
"""The largest delays M of the paper's tables."""
BUDGET = 130_000
"""Interactions of the paper's runs."""
NEAR = 0.01
"""Share of the budget by which a run may miss it: rounds end together."""
AGENTS = tuple(ALGORITHMS)
"""Agents with a column in the paper's tables."""


@dataclass(frozen=True)
class Cell:
    """A cell of the paper's tables, and ours.

    Attributes:
        kind: ``walk`` or ``constant``.
        game: The game.
        largest: M.
        agent: The agent.
        paper: The paper's score; None beyond its tables.
        ours: Our score; None if no run of it has finished.
        means: The mean score of each of our seeds.
        interactions: The fewest interactions of our seeds.
    """

    kind: str
    game: str
    largest: int
    agent: str
    paper: PaperScore | None
    ours: Score | None = None
    means: Sequence[float] = ()
    interactions: int = BUDGET

    @property
    def whole(self) -> bool:
        """Whether our runs have as many interactions as the paper's."""
        return abs(self.interactions - BUDGET) <= NEAR * BUDGET

    @property
    def law(self) -> str:
        """The delay law."""
        return f"{self.kind}:{self.largest}"

    @property
    def verdict(self) -> str:
        """``above`` or ``below`` the paper's mean; empty if one of both is missing."""
        if self.paper is None or self.ours is None:
            return ""
        return "above" if self.ours.mean > self.paper.mean else "below"


@dataclass(frozen=True)
class Normalised:
    """Human-normalised scores over the games that have been played: 0 is random play, 1 a human.

    Attributes:
        kind: ``walk`` or ``constant``.
        largest: M.
        agent: The agent.
        games: The games.
        mean: The mean over games of ours.
        iqm: The interquartile mean over games and seeds of ours.
        paper_mean: The paper's mean over the same games; None if it has not played them all.
        paper_iqm: The interquartile mean of its means in the same games.
    """

    kind: str
    largest: int
    agent: str
    games: Sequence[str]
    mean: float
    iqm: float
    paper_mean: float | None
    paper_iqm: float | None


def our_cells(groups: Sequence[Group]) -> list[Cell]:
    """Our finished groups in games of the paper, under its kinds of law with any M.

    Where an agent has several groups with different settings, the one with the most seeds counts.
    """
    cells = []
    for (game, law, agent), group in best_groups(groups).items():
        kind, largest = law.partition(":")[0], longest(law)
        if game in games() and kind in KINDS and largest is not None:
            paper, means = paper_score(game, law, agent), [float(np.mean(s)) for s in group.scores]
            fewest = min(run.interactions for run in group.runs if run.scores)
            score = final_score(group)
            cells.append(Cell(kind, game, largest, agent, paper, score, means, fewest))
    return cells


def paper_table(ours: Sequence[Cell], kind: str, agents: Sequence[str]) -> list[list[Cell]]:
    """The paper's table of a kind of law: a row per game and M, a cell per agent."""
    known = {(cell.kind, cell.game, cell.largest, cell.agent): cell for cell in ours}
    return [
        [
            known.get((kind, game, largest, agent))
            or Cell(kind, game, largest, agent, paper_score(game, f"{kind}:{largest}", agent))
            for agent in agents
        ]
        for game in games()
        for largest in DELAYS
    ]


def normalised(ours: Sequence[Cell]) -> list[Normalised]:
    """Human-normalised scores by kind, M and agent."""
    keys = dict.fromkeys((cell.kind, cell.largest, cell.agent) for cell in ours)
    found = []
    for kind, largest, agent in sorted(keys):
        same = [c for c in ours if (c.kind, c.largest, c.agent) == (kind, largest, agent)]
        per_game = [[human_share(cell.game, mean) for mean in cell.means] for cell in same]
        paper = [human_share(cell.game, cell.paper.mean) for cell in same if cell.paper]
        whole = len(paper) == len(same)
        found.append(
            Normalised(
                kind=kind,
                largest=largest,
                agent=agent,
                games=[cell.game for cell in same],
                mean=float(np.mean([np.mean(shares) for shares in per_game])),
                iqm=iqm(np.concatenate(per_game)),
                paper_mean=float(np.mean(paper)) if whole else None,
                paper_iqm=iqm(paper) if whole else None,
            )
        )
    return found


def human_share(game: str, score: float) -> float:
    """A score from 0 (random play) to 1 (a human), and beyond."""
    scores = reference(game)
    assert scores is not None
    return (score - scores.random) / (scores.human - scores.random)
