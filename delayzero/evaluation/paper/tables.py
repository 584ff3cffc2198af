"""The scores in the paper's two tables, and the scores of random play and of people.

``scores.csv`` has every cell of the tables (*Tree Search-Based Policy Optimization under Stochastic
Execution Delay*, ICLR 2024): the walk ("stochastic") and constant delays, with a largest delay M of
5, 15 and 25. ``reference_scores.csv`` has random and human scores of the same fifteen games and,
where known, the scores of EfficientZero and EfficientZero V2 without delay.
"""

from __future__ import annotations

import csv
import re
from functools import cache
from importlib.resources import files
from typing import NamedTuple

ALGORITHMS = {
    "dez": "dez",
    "oblivious": "oblivious",
    "oblivious-executed": "oblivious",
    "delayed-q": "delayed_q",
}
"""The paper's name of each agent's counterpart. It has a single oblivious baseline."""
KINDS = {"walk": "stochastic", "constant": "constant"}
"""The paper's name of each kind of delay law."""


class PaperScore(NamedTuple):
    """A cell of the paper's tables."""

    mean: float
    std: float


class Reference(NamedTuple):
    """Scores of random play, of people and of EfficientZero in a game."""

    random: float
    human: float
    efficientzero: float | None
    """Published, without delay, after 100 000 interactions; None if it was not published."""


def paper_score(game: str, delay: str, agent: str) -> PaperScore | None:
    """The paper's score for a game, law and agent; None if its tables have no such cell."""
    kind, _, largest = delay.partition(":")
    return _scores().get((KINDS.get(kind, ""), game, largest, ALGORITHMS.get(agent, "")))


def reference(game: str) -> Reference | None:
    """The reference scores of a game; None for games that the paper does not play."""
    return _references().get(game)


def efficientzero_score(game: str, delay: str) -> float | None:
    """EfficientZero's published score, for a cell without delay; None if there is no such score."""
    scores = reference(game)
    if scores is None or not (delay == "none" or longest(delay) == 0):
        return None
    return scores.efficientzero


def paper_game(name: str) -> str | None:
    """The paper's spelling of a game, ``"MsPacman"`` for ``"ms_pacman"``; None if unknown."""
    spellings = {game.lower(): game for game in _references()}
    return spellings.get(re.sub(r"[_\- ]", "", name.lower()))


def longest(law: str) -> int | None:
    """The longest delay of ``walk:M`` or ``constant:M``; None for other laws."""
    kind, _, rest = law.partition(":")
    return int(rest) if kind in ("walk", "constant") and rest.isdecimal() else None


def games() -> list[str]:
    """The fifteen games of the paper, in alphabetical order."""
    return sorted(_references())


def _rows(name: str) -> list[dict[str, str]]:
    text = files(__package__).joinpath(name).read_text()
    return list(csv.DictReader(text.splitlines()))


@cache
def _scores() -> dict[tuple[str, str, str, str], PaperScore]:
    return {
        (row["delay"], row["game"], row["max_delay"], row["algorithm"]): PaperScore(
            float(row["mean"]), float(row["std"])
        )
        for row in _rows("scores.csv")
    }


@cache
def _references() -> dict[str, Reference]:
    return {
        row["game"]: Reference(
            float(row["random"]),
            float(row["human"]),
            float(undelayed) if (undelayed := row["efficientzero_undelayed_100k"]) else None,
        )
        for row in _rows("reference_scores.csv")
    }
