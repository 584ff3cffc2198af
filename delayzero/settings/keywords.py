"""Settings as keywords of Python: the same names as on the command line."""

from __future__ import annotations

import dataclasses
import os
import re
import reprlib
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from delayzero.arguments import UsageError
from delayzero.bounds import option
from delayzero.settings.options import check_setting, groups
from delayzero.settings.presets import PRESETS, compose
from delayzero.settings.run import TrainConfig

DEEPEST = 4
"""Groups within groups; no setting is in as many."""


def configure(presets: Sequence[str], settings: Mapping[str, Any]) -> TrainConfig:
    """Return the settings of a run: presets in turn, then keywords.

    Args:
        presets: Their names.
        settings: By name. Those of a group are a dict (``learner={"batch_size": 32}``) or have a
            dotted name (``{"learner.batch_size": 32}``).

    Raises:
        UsageError: A name is unknown or given twice, a value is of the wrong type or out of range.
    """
    if not presets:
        raise UsageError(f"name a preset: {', '.join(PRESETS)}; for example 'cartpole'")
    for preset in presets:
        if not isinstance(preset, str):
            raise UsageError(f"a preset is a text such as 'cartpole', not {preset!r}")
    agent = str(settings.get("agent", "dez"))
    config = compose(presets, agent)
    flat = dict(flattened(settings))
    for name in flat:
        check_setting(name, agent)
    try:
        changed: TrainConfig = _changed(config, flat)
        return changed
    except ValueError as error:
        raise UsageError(str(error)) from None


def check_type(name: str, value: Any, hint: Any) -> Any:
    """Return a value of the type that a setting has; whole numbers may stand for floats.

    Raises:
        UsageError: It is of another type.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    for kind in _kinds(hint):
        if kind is type(None) and value is None:
            return None
        if typing.get_origin(kind) is Literal:
            if value in typing.get_args(kind):
                return value
        elif (
            kind is float and isinstance(value, (int, float)) and not isinstance(value, bool)
        ) or (isinstance(kind, type) and type(value) is kind):
            return value
    raise UsageError(f"{option(name)} is {value!r}; it should be {_described(hint)}")


def flattened(settings: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield every setting with its dotted name; dashes within a name become underscores.

    Raises:
        UsageError: A setting is given twice, or in too many groups, or its name is no text.
    """
    given = set()
    for name, value in _flattened(settings):
        if name in given:
            raise UsageError(f"the setting {option(name)} is given twice; give it once")
        given.add(name)
        yield name, value


def _flattened(settings: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    if path.count(".") >= DEEPEST:
        raise UsageError(f"unknown setting {reprlib.repr(path)}; type: delayzero train --help")
    for name, value in settings.items():
        if not isinstance(name, str):
            raise UsageError(
                f"the name of a setting is of the type {type(name).__name__}; it should be a text "
                "such as 'seed'"
            )
        full = path + re.sub(r"(?<=\w)-", "_", name)  # one that begins with dashes keeps them
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        if isinstance(value, Mapping) and (value or full in groups()):
            yield from _flattened(value, f"{full}.")
        else:
            yield full, value


def _changed(config: Any, flat: Mapping[str, Any], path: str = "") -> Any:
    """Return a dataclass with some of its fields changed, and those of its groups."""
    hints = typing.get_type_hints(type(config))
    changes: dict[str, Any] = {}
    for name in (field.name for field in dataclasses.fields(config)):
        own, group = path + name, f"{path}{name}."
        if own in flat:
            changes[name] = check_type(own, flat[own], hints[name])
        elif any(key.startswith(group) for key in flat):
            changes[name] = _changed(getattr(config, name), flat, group)
    return dataclasses.replace(config, **changes)


def _kinds(hint: Any) -> tuple[Any, ...]:
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return typing.get_args(hint)
    return (hint,)


def _described(hint: Any) -> str:
    """Return a type in words."""
    words = {int: "a whole number", float: "a number", bool: "True or False", str: "a text"}
    parts = []
    for kind in _kinds(hint):
        if typing.get_origin(kind) is Literal:
            parts.append("one of " + ", ".join(map(repr, typing.get_args(kind))))
        else:
            parts.append("None" if kind is type(None) else words.get(kind, str(kind)))
    return " or ".join(parts)
