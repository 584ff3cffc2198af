"""Runs grouped over seeds: which differ in nothing else, their curves, their scores."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from delayzero.arguments import UsageError
from delayzero.evaluation.over_seeds import Score, score_of
from delayzero.evaluation.paper.tables import longest
from delayzero.report.runs import Run
from delayzero.settings import AGENTS
from delayzero.settings.stored import FREE_FIELDS, code_named, flat, from_json

WATCHING = ("evaluate_every", "evaluate_episodes", "evaluate_max_steps", "prediction_rows", "audit")
"""Settings of what is measured during training."""
APART = ("seed", "env", "agent", "delay", *WATCHING, *FREE_FIELDS)
"""Settings that have columns of their own, or no effect on what is learned."""
MOST_NAMED = 2
"""Settings that the label of a group names."""


@dataclass(frozen=True)
class Group:
    """Runs that differ only in their seed; if their settings are unknown, those of one place.

    Attributes:
        cell: The environment and the law.
        agent: The agent's name.
        label: The agent, and what distinguishes this group from others of the same agent.
        place: The number of the group among those of the same cell and agent.
        runs: The runs, by seed.
    """

    cell: tuple[str, str]
    agent: str
    label: str
    place: int
    runs: Sequence[Run]

    @property
    def scores(self) -> list[Sequence[float]]:
        """The scores of each finished run's final episodes."""
        return [run.scores for run in self.runs if run.scores]


def group_runs(runs: Sequence[Run]) -> list[Group]:
    """Group runs over seeds, in the order of environment, law (by its longest delay) and agent."""
    ordered = sorted(
        runs, key=lambda run: (run.game, law_order(run.delay), rank(run.agent), run.seed)
    )
    by_agent: dict[tuple[str, str, str], dict[str, list[Run]]] = {}
    for run in ordered:
        key = (run.game, run.delay, run.agent)
        by_agent.setdefault(key, {}).setdefault(_variant(run), []).append(run)
    groups = []
    for (game, delay, agent), variants in by_agent.items():
        labels = _labels(agent, [same[0] for same in variants.values()])
        for place, (label, same) in enumerate(zip(labels, variants.values(), strict=True)):
            groups.append(Group((game, delay), agent, label, place, same))
    return groups


def cells(groups: Sequence[Group]) -> dict[tuple[str, str], list[Group]]:
    """The groups of each environment and law."""
    found: dict[tuple[str, str], list[Group]] = {}
    for group in groups:
        found.setdefault(group.cell, []).append(group)
    return found


def best_groups(groups: Sequence[Group]) -> dict[tuple[str, str, str], Group]:
    """For each environment, law and agent, the group with the most finished seeds."""
    best: dict[tuple[str, str, str], Group] = {}
    for group in groups:
        key = (*group.cell, group.agent)
        if group.scores and (key not in best or len(group.scores) > len(best[key].scores)):
            best[key] = group
    return best


def comparable(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that distinguish groups, on one level; those of older versions as today's."""
    return dict(_comparable(json.dumps(config, default=str)))


@lru_cache(maxsize=4096)
def _comparable(stored: str) -> Mapping[str, Any]:
    config = values = json.loads(stored)
    try:
        if config and not code_named(config, with_env=False):  # reading them would run it
            values = asdict(from_json(config))
    except (UsageError, ValueError, TypeError):
        pass  # of another version, or damaged: compared as they are
    return {name: value for name, value in flat(values).items() if name not in APART}


def law_order(law: str) -> tuple[str, float, str]:
    """Sorts laws by kind, then by their first number."""
    kind, _, rest = law.partition(":")
    return kind, longest(law) or 0, rest


def final_score(group: Group) -> Score | None:
    """The final score of a group; None if no run of it has finished."""
    return score_of(group.scores) if group.scores else None


def _variant(run: Run) -> str:
    """A text that is the same for runs that differ only in their seed."""
    if not run.config:
        return str(run.path.parent)
    return json.dumps(comparable(run.config), sort_keys=True, default=str)


def rank(agent: str) -> int:
    """The place of an agent in the list of agents; after all others if it is unknown."""
    names = list(AGENTS)
    return names.index(agent) if agent in AGENTS else len(names)


def _labels(agent: str, variants: Sequence[Run]) -> list[str]:
    """Labels of an agent's groups, from a run of each: what differs between them, or their places.

    Settings are named if there are few of them; places if all are different.
    """
    if len(variants) == 1:
        return [agent]
    settings = [comparable(run.config) for run in variants]
    places = [run.path.parent.name for run in variants]
    differ = differing(settings) if all(settings) else []
    if not 0 < len(differ) <= MOST_NAMED and len(set(places)) == len(places):
        return [f"{agent} in {place}" for place in places]
    labels = []
    for number, own in enumerate(settings, 1):
        named = [f"{name} {own[name]}" for name in differ if name in own]
        more = ", ..." if len(named) > MOST_NAMED else ""
        what = ", ".join(named[:MOST_NAMED]) + more
        labels.append(f"{agent} {number}: {what or 'settings unknown'}")
    return labels


def differing(variants: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names of settings that are not the same everywhere, sorted."""
    names = sorted({name for settings in variants for name in settings})
    return [
        name
        for name in names
        if len({json.dumps(s.get(name, "-"), default=str) for s in variants}) > 1
    ]
