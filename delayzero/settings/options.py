"""The words behind ``delayzero train``: presets, then pairs of an option and its value."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator, Sequence

from delayzero.arguments import UsageError
from delayzero.bounds import option
from delayzero.extras import require
from delayzero.settings.agents import AGENTS, agent_kind
from delayzero.settings.presets import PRESETS, compose
from delayzero.settings.run import TrainConfig
from delayzero.words import meant

HELP = ("-h", "--help")


def split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Presets, and what stands behind them.

    Raises:
        UsageError: An option does not exist, or a word belongs to none; the message says what may
            have been meant.
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
    """The agent that options name; dez if they name none.

    Raises:
        UsageError: There is no such agent.
    """
    agent = "dez"
    for i in _places(words):
        name, given, value = words[i].partition("=")
        if name == "--agent" and (given or i + 1 < len(words)):
            agent = value if given else words[i + 1]
    agent_kind(agent)
    return agent


def read_config(words: Sequence[str]) -> TrainConfig:
    """The configuration that presets and options describe; ``--help`` prints them and exits.

    Raises:
        UsageError: Something cannot be, or is no setting of the agent.
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
    """Return every option of the agent that words name, with its value by the presets they name.

    Raises:
        UsageError: A word is wrong.
    """
    presets, rest = split(words)
    config = compose(presets, agent_of(rest))

    def value(name: str) -> object:
        found: object = config
        for part in name.lstrip("-").replace("-", "_").split("."):
            found = getattr(found, part)
        return found

    return [(name, value(name)) for name in options(config.agent)]


def options(agent: str) -> list[str]:
    """Every option of an agent's runs, as it is typed."""
    return list(_options(agent_kind(agent).settings))


def _places(words: Sequence[str]) -> Iterator[int]:
    """Where options stand: every second word, but for those that bring their value along."""
    i = 0
    while i < len(words):
        yield i
        i += 1 if "=" in words[i] or words[i] in HELP else 2


def _as_typed(word: str) -> str:
    """An option by its full name, with dashes."""
    return option(word.partition("=")[0].lstrip("-"))


def _options(kind: type, path: str = "") -> Iterator[str]:
    """Every option, as it is typed."""
    hints = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        if dataclasses.is_dataclass(hints[field.name]):
            yield from _options(hints[field.name], f"{path}{field.name}.")
        else:
            yield option(path + field.name)


def check_option(word: str, agent: str) -> None:
    """Check that an agent's runs have an option.

    Raises:
        UsageError: They have not; the message names the nearest one, or the agents that have it.
    """
    typed, known = _as_typed(word), options(agent)
    if word in HELP or word.startswith("--tyro-") or (word.startswith("--") and typed in known):
        return
    others = [other for other in AGENTS if typed in options(other)]
    if others and agent not in others:
        raise UsageError(
            f"{word} is not a setting of the agent '{agent}' (it is one of {', '.join(others)}); "
            f"type: delayzero train --agent {agent} --help"
        )
    parts = {name[2:].rpartition(".")[2]: name for name in reversed(known)}  # without its group
    names = {name[2:]: name for name in known}
    guess = meant(typed[2:].rpartition(".")[2], parts) if "." not in typed else None
    guess = guess or meant(typed[2:], names)
    found = {**parts, **names}.get(guess or "")
    hint = f"; did you mean {found}?" if found else ";"
    raise UsageError(f"unknown setting {word}{hint} type: delayzero train --help")


def _refuse_word(word: str, presets: Sequence[str], rest: Sequence[str]) -> None:
    if word in PRESETS:
        line = " ".join(["delayzero train", *presets, word, *rest])
        raise UsageError(f"presets come first; type: {line}")
    raise UsageError(
        f"'{word}' belongs to no option; after the presets, type options such as --seed 3"
    )
