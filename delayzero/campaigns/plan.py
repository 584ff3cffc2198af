"""The plan of a campaign, read from a TOML file: environments x laws x agents x seeds."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

from delayzero.arguments import UsageError
from delayzero.campaigns.run import Run, checked_agents, planned
from delayzero.delays import parse
from delayzero.settings import AGENTS, compose
from delayzero.settings.keywords import flattened
from delayzero.words import meant

PLANS = files("delayzero.campaigns") / "plans"
LISTS = ("presets", "envs", "laws", "agents", "seeds")
"""Keys of a plan and of its parts whose values are lists."""
PART_KEYS = (*LISTS, "settings")
PLAN_KEYS = (*PART_KEYS, "parts", "gpus", "cores")
GIVEN = {"env": "envs", "delay": "laws", "agent": "agents", "seed": "seeds"}
"""Settings that a plan has lists for."""
EXAMPLES = {
    "presets": '["atari"]',
    "laws": '["walk:15"]',
    "agents": '["dez", "oblivious"]',
    "seeds": "[0, 1, 2]",
}
MOST_RUNS = 10_000
"""Of a plan: to check more of them takes minutes."""
DEEPEST = 8
"""Lists and tables within each other; no plan needs as many."""
TOO_DEEP = "lists or tables are nested too deeply; write settings as NAME or GROUP.NAME"


@dataclass(frozen=True)
class Part:
    """Part of a campaign: every environment with every law, agent and seed."""

    presets: tuple[str, ...]
    envs: tuple[str, ...]
    laws: tuple[str, ...]
    agents: tuple[str, ...]
    seeds: tuple[int, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Further settings of every run, by name."""

    @property
    def count(self) -> int:
        """The number of its runs; those of agents without delay count for every law."""
        return len(self.envs) * len(self.laws) * len(self.agents) * len(self.seeds)

    def settings_of(self, env: str, law: str, agent: str, seed: int) -> dict[str, Any]:
        """The settings of a run, without its folder. An agent without delay has no law."""
        delay = {"delay": law} if AGENTS[checked_agents([agent])[0]].delayed else {}
        return {"env": env, "agent": agent, **delay, "seed": seed, **self.settings}


@dataclass(frozen=True)
class Campaign:
    """A campaign: its parts, and what each of its runs takes of a machine."""

    name: str
    parts: tuple[Part, ...]
    gpus: float | None = None
    """The share of a GPU that a run takes."""
    cores: int | None = None
    """The cores that a run takes."""

    def runs(self, root: Path) -> list[Run]:
        """All runs, seed by seed, so that every environment, law and agent has one early.

        Each has its own folder in the root, with the name that ``delayzero train`` would choose.

        Raises:
            UsageError: A setting is invalid, or two parts have the same run with different
                settings.
            DelayError: A law is invalid.
        """
        runs: dict[str, Run] = {}
        cells = [
            (part, *cell)
            for part in self.parts
            for cell in product(part.seeds, part.envs, part.laws, part.agents)
        ]
        for part, seed, env, law, agent in sorted(cells, key=lambda cell: cell[1]):
            run = planned(part.presets, part.settings_of(env, law, agent, seed), root)
            if runs.setdefault(run.name, run).config != run.config:
                raise UsageError(
                    f"two parts of the plan have a run {run.name} with different settings; give "
                    'one of them a label: settings.label = "other"'
                )
        return list(runs.values())

    def narrowed(
        self,
        games: Sequence[str] | None = None,
        laws: Sequence[str] | None = None,
        agents: Sequence[str] | None = None,
        seeds: Sequence[int] | None = None,
    ) -> Campaign:
        """The same campaign with some of its games, laws, agents and seeds; None: with all.

        Args:
            games: Environments, or what follows the colon in them; case does not matter.
            laws: Delay laws, as the plan writes them.
            agents: Names of agents.
            seeds: Seeds.

        Raises:
            UsageError: The plan does not have one of them, or nothing remains.
        """
        parts = self.parts
        wanted_by_key: dict[str, tuple[Sequence[Any] | None, str, Callable[[Any], str]]] = {
            "envs": (games, "--games", _game),
            "laws": (laws, "--laws", str),
            "agents": (agents, "--agents", str),
            "seeds": (seeds, "--seeds", str),
        }
        for key, (wanted, typed, spelt) in wanted_by_key.items():
            if wanted is not None:
                _check_known(self.parts, key, wanted, typed, spelt)
                parts = _narrowed(parts, key, {spelt(entry) for entry in wanted}, spelt)
        if not parts:
            raise UsageError(f"no part of the plan {self.name} has all of what you typed")
        return replace(self, parts=parts)


def read_plan(name: str) -> Campaign:
    """Read a plan.

    Args:
        name: A file that ends with .toml, or the name of a plan in the package.

    Raises:
        UsageError: There is no such plan, or it is invalid; the message says what to write.
        DelayError: A law is unknown or invalid.
    """
    path = Path(name)
    if path.suffix != ".toml":
        known = packaged()
        if name not in known:
            guess = meant(name, known)
            hint = f"; did you mean '{guess}'?" if guess else ";"
            raise UsageError(
                f"unknown plan '{name}'{hint} type the path of a file that ends with .toml, or one "
                f"of: {', '.join(known)}"
            )
        content = (PLANS / f"{name}.toml").read_bytes()
    else:
        content = path.read_bytes()
    try:
        values = tomllib.loads(content.decode())
    except ValueError as error:  # not TOML, or not UTF-8
        raise UsageError(f"{name} is not a TOML file: {error}") from None
    except RecursionError:
        raise UsageError(f"{name}: {TOO_DEEP}") from None
    if _deep(values):
        raise UsageError(f"{name}: {TOO_DEEP}")
    return plan_of(path.stem, values, name)


def _deep(values: Any) -> bool:
    """Whether lists and tables are nested more deeply than ``DEEPEST``."""
    level = [values]
    for _ in range(DEEPEST):
        inner = [one.values() if isinstance(one, dict) else one for one in level]
        level = [v for one in inner for v in one if isinstance(v, (dict, list))]
    return bool(level)


def packaged() -> list[str]:
    """The names of the plans in the package."""
    return sorted(Path(entry.name).stem for entry in PLANS.iterdir())


def plan_of(name: str, values: Mapping[str, Any], where: str) -> Campaign:
    """Make a plan of its TOML values.

    Args:
        name: The plan's name.
        values: What the file holds.
        where: The file, for messages.

    Raises:
        UsageError: A key is unknown or missing, or a value is invalid.
        DelayError: A law is unknown or invalid.
    """
    _check_keys(values, PLAN_KEYS, where)
    parts = values.get("parts", [{}])
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise UsageError(f"{where}: write each part under a line [[parts]]")
    made, runs = [], 0
    for i, part in enumerate(parts):
        here = f"{where}, part {i + 1}" if "parts" in values else where
        _check_keys(part, PART_KEYS, here)
        made.append(_part({**values, **part}, values.get("settings", {}), part, here))
        runs += made[-1].count
        if runs > MOST_RUNS:
            raise UsageError(
                f"{here}: these are {runs} runs (environments x laws x agents x seeds), and a plan "
                f"has at most {MOST_RUNS}; write several plans"
            )
    if not made:
        raise UsageError(f"{where}: the plan has no runs; leave out `parts`, or write one")
    return Campaign(
        name,
        tuple(made),
        _number(values, "gpus", where, lambda v: 0 < v <= 1, "a number above 0, at most 1"),
        _number(
            values,
            "cores",
            where,
            lambda v: type(v) is int and v >= 1,
            "a whole number, at least 1",
        ),
    )


def _part(values: Mapping[str, Any], common: Any, part: Mapping[str, Any], where: str) -> Part:
    """Make a part of a plan, with the plan's values where it has none of its own."""
    settings = {**_settings(common, where), **_settings(part.get("settings", {}), where)}
    presets = _texts(values, "presets", where)
    envs = _texts(values, "envs", where) if "envs" in values else (compose(presets).env,)
    laws, seeds = _texts(values, "laws", where), _seeds(values, where)
    for law in laws:
        parse(law)
    agents = checked_agents(_texts(values, "agents", where))
    return Part(presets, envs, laws, agents, seeds, settings)


def _settings(values: Any, where: str) -> dict[str, Any]:
    """Settings by dotted name; the text "None" stands for None, which TOML does not have."""
    if not isinstance(values, dict):
        raise UsageError(f"{where}: write settings under a line [settings]")
    flat = {name: None if value == "None" else value for name, value in flattened(values)}
    for name in flat:
        if name in GIVEN:
            raise UsageError(
                f"{where}: {name} cannot be a setting of all runs; write the list {GIVEN[name]}"
            )
        if name == "folder":
            raise UsageError(f"{where}: runs have folders of their own; type --folder ROOT")
    return flat


def _check_keys(values: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for key in values:
        if key not in known:
            guess = meant(key, known)
            hint = f"; did you mean '{guess}'?" if guess else "; settings go under [settings];"
            raise UsageError(f"{where}: unknown key '{key}'{hint} Keys are {', '.join(known)}")


def _list(values: Mapping[str, Any], key: str, where: str) -> list[Any]:
    """A list that is not empty, without repetitions."""
    value = values.get(key)
    if not isinstance(value, list) or not value:
        example = EXAMPLES.get(key, '["atari:Pong"]')
        what = f"{key} is {value!r}" if key in values else f"{key} is missing"
        raise UsageError(f"{where}: {what}; write a list, such as {key} = {example}")
    return list(dict.fromkeys(value)) if all(isinstance(v, (str, int)) for v in value) else value


def _texts(values: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    entries = _list(values, key, where)
    for entry in entries:
        if not isinstance(entry, str):
            raise UsageError(f"{where}: {key} has {entry!r}; it should be a text")
    return tuple(entries)


def _seeds(values: Mapping[str, Any], where: str) -> tuple[int, ...]:
    entries = _list(values, "seeds", where)
    for entry in entries:
        if type(entry) is not int or entry < 0:
            raise UsageError(f"{where}: seeds has {entry!r}; it should be a whole number from 0")
    return tuple(entries)


def _number(
    values: Mapping[str, Any], key: str, where: str, valid: Callable[[Any], bool], expected: str
) -> Any:
    """A number, or None if the plan does not have it."""
    value = values.get(key)
    if value is None:
        return None
    if type(value) not in (int, float) or not valid(value):
        raise UsageError(f"{where}: {key} is {value!r}; it should be {expected}")
    return value


def _game(env: str) -> str:
    """An environment's name without its kind, in small letters."""
    return env.rpartition(":")[2].lower().replace("_", "")


def _check_known(
    parts: Sequence[Part],
    key: str,
    wanted: Sequence[Any],
    typed: str,
    spelt: Callable[[Any], str],
) -> None:
    """Check that a list of some part has each wanted entry.

    Raises:
        UsageError: None has; the message suggests the nearest one.
    """
    have = {spelt(entry): str(entry) for part in parts for entry in getattr(part, key)}
    for entry in wanted:
        if spelt(entry) not in have:
            guess = meant(spelt(entry), have)
            hint = f"; did you mean '{have[guess]}'?" if guess else "."
            raise UsageError(
                f"{typed} {entry}: the plan does not have it{hint} It has "
                f"{', '.join(have.values())}"
            )


def _narrowed(
    parts: Sequence[Part], key: str, wanted: set[str], spelt: Callable[[Any], str]
) -> tuple[Part, ...]:
    """The parts with only the wanted entries of a list; parts without any are left out."""
    kept = []
    for part in parts:
        entries: Any = tuple(e for e in getattr(part, key) if spelt(e) in wanted)
        kept += [replace(part, **{key: entries})] if entries else []
    return tuple(kept)
