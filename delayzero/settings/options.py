"""Arguments of ``delayzero train``: presets first, then options with their values."""

from __future__ import annotations

import dataclasses
import reprlib
import typing
from collections.abc import Iterator, Sequence
from functools import cache

from delayzero.arguments import UsageError
from delayzero.bounds import option
from delayzero.extras import require
from delayzero.settings.agents import AGENTS, agent_kind
from delayzero.settings.presets import PRESETS, compose
from delayzero.settings.run import TrainConfig
from delayzero.words import meant

HELP = ("-h", "--help")
LONGEST_NAME = 80
"""Characters: longer names of settings are cut in messages."""


def split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split arguments into presets and options.

    Raises:
        UsageError: An option is unknown, or a word belongs to no option; the message suggests what
            to type.
    """
    count = next((i for i, word in enumerate(words) if word.startswith("-")), len(words))
    presets, rest = list(words[:count]), list(words[count:])
    agent = agent_of(rest)
    for i in _places(rest):
        if not rest[i].startswith("-"):
            _refuse_word(rest[i], presets, [*rest[:i], *rest[i + 1 :]])
        check_option(rest[i].partition("=")[0], agent)
    return presets, rest


def agent_of(words: Sequence[str]) -> str:
    """Return the value of ``--agent``, or dez without one.

    Raises:
        UsageError: The agent is unknown.
    """
    agent = "dez"
    for i in _places(words):
        name, equals, value = words[i].partition("=")
        if name == "--agent" and (equals or i + 1 < len(words)):
            agent = value if equals else words[i + 1]
    agent_kind(agent)
    return agent


def read_config(words: Sequence[str]) -> TrainConfig:
    """Return the settings that presets and options describe; ``--help`` prints them and exits.

    Raises:
        UsageError: A value is invalid, or the agent does not have the setting.
    """
    tyro = require("tyro", "cli")
    presets, rest = split(words)
    if not presets and not any(word in HELP for word in rest):
        raise UsageError(
            f"name a preset: {', '.join(PRESETS)}; for example: delayzero train cartpole"
        )
    try:
        agent = agent_of(rest)
        config: TrainConfig = tyro.cli(
            agent_kind(agent).settings,
            prog=f"delayzero train {' '.join(presets)}".strip(),
            args=rest,
            default=compose(presets, agent),
            config=(tyro.conf.FlagConversionOff,),
        )
    except ValueError as error:
        raise UsageError(str(error)) from None
    return config


def options_with_values(words: Sequence[str]) -> list[tuple[str, object]]:
    """Return every option of the agent named in the arguments, with its value by the presets.

    Raises:
        UsageError: A preset, an option or the agent is unknown.
    """
    presets, rest = split(words)
    config = compose(presets, agent_of(rest))

    def value(name: str) -> object:
        setting: object = config
        for part in name.lstrip("-").replace("-", "_").split("."):
            setting = getattr(setting, part)
        return setting

    return [(name, value(name)) for name in options(config.agent)]


@cache
def options(agent: str) -> tuple[str, ...]:
    """Return every option of an agent's runs, as it is typed."""
    return tuple(_options(agent_kind(agent).settings))


def _places(words: Sequence[str]) -> Iterator[int]:
    """Yield the positions of options: every second word, or the next after ``--option=value``."""
    i = 0
    while i < len(words):
        yield i
        i += 1 if "=" in words[i] or words[i] in HELP else 2


def _as_typed(word: str) -> str:
    """Return an option without its value, spelt with dashes."""
    return option(word.partition("=")[0].lstrip("-"))


def _options(kind: type, path: str = "") -> Iterator[str]:
    """Yield every option of a dataclass, as it is typed."""
    hints = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        if dataclasses.is_dataclass(hints[field.name]):
            yield from _options(hints[field.name], f"{path}{field.name}.")
        else:
            yield option(path + field.name)


def check_option(word: str, agent: str) -> None:
    """Check that an agent's runs have an option, as it is typed on the command line.

    Raises:
        UsageError: They do not; the message names the nearest one, or the agents that have it.
    """
    if word in HELP or word.startswith("--tyro-"):
        return
    typed = _as_typed(word)
    if not word.startswith("--") or typed not in options(agent):
        raise _unknown(word, typed, agent)


def check_setting(name: str, agent: str) -> None:
    """Check that an agent's runs have a setting of exactly this name, in Python or in a plan.

    Raises:
        UsageError: They do not; the message names the nearest one, or the agents that have it.
    """
    if option(name) in options(agent):
        return
    plain = name[:1].isalpha() and name.isprintable() and len(name) < LONGEST_NAME
    shown, bare = option(name) if plain else reprlib.repr(name), name.lstrip("-_")
    if option(bare) in options(agent):
        hint = f"did you mean '{bare}'? type: delayzero train --help"
        raise UsageError(f"unknown setting {shown}; {hint}")
    raise _unknown(shown, option(bare[:LONGEST_NAME]), agent)


@cache
def groups() -> frozenset[str]:
    """Return the names of all groups of settings."""
    names = (name[2:].replace("-", "_") for agent in AGENTS for name in options(agent))
    return frozenset(name.rpartition(".")[0] for name in names if "." in name)


def _unknown(word: str, typed: str, agent: str) -> UsageError:
    """Return the error about a setting that an agent does not have.

    Args:
        word: What the user wrote.
        typed: The option that it resembles.
        agent: The name of the agent.
    """
    valid = options(agent)
    others = [other for other in AGENTS if typed in options(other)]
    if others and agent not in others:
        return UsageError(
            f"{word} is not a setting of the agent '{agent}' (it is one of {', '.join(others)}); "
            f"type: delayzero train --agent {agent} --help"
        )
    parts = {name[2:].rpartition(".")[2]: name for name in reversed(valid)}  # without its group
    names = {name[2:]: name for name in valid}
    guess = meant(typed[2:].rpartition(".")[2], parts) if "." not in typed else None
    guess = guess or meant(typed[2:], names)
    nearest = {**parts, **names}.get(guess or "")
    hint = f"; did you mean {nearest}?" if nearest else ";"
    return UsageError(f"unknown setting {word}{hint} type: delayzero train --help")


def _refuse_word(word: str, presets: Sequence[str], rest: Sequence[str]) -> None:
    """Raise an error about a word that is neither an option nor its value."""
    if word in PRESETS:
        line = " ".join(["delayzero train", *presets, word, *rest])
        raise UsageError(f"presets come first; type: {line}")
    raise UsageError(
        f"'{word}' belongs to no option; after the presets, type options such as --seed 3"
    )
