"""Reading settings from run folders, including those of older versions."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from typing import Any, TypeVar

from delayzero.arguments import UsageError
from delayzero.settings.agents import AGENTS, agent_kind
from delayzero.settings.keywords import check_type
from delayzero.settings.run import TrainConfig
from delayzero.words import meant

Config = TypeVar("Config")
FREE_FIELDS = (
    *("folder", "label", "log_every", "checkpoint_minutes", "memory_gigabytes", "devices"),
    *("address", "actor_cores", "actor_gpus"),
)
"""Settings that may change when a run is resumed: they do not affect what it learns."""


def from_json(values: Mapping[str, Any]) -> TrainConfig:
    """Return a run's settings from their ``dataclasses.asdict``, of this version or an older one.

    Raises:
        UsageError: A key or the agent is unknown; the message suggests the nearest name.
        ValueError: A value is invalid.
    """
    kind = agent_kind(values.get("agent", "dez")).settings
    others = {field.name for agent in AGENTS.values() for field in fields(agent.settings)}
    own = {field.name for field in fields(kind)}
    former = with_former_defaults(values)
    return from_dict(kind, {k: v for k, v in former.items() if k in own or k not in others})


def code_named(values: Mapping[str, Any], *, with_env: bool) -> list[str]:
    """Return what in stored settings names Python code, which using them would run.

    Args:
        values: Settings, as a run folder keeps them.
        with_env: Whether the environment will be made.
    """
    laws = [str(values.get(name) or "") for name in ("delay", "observation_delay")]
    named = [law for law in laws if "callback:" in law]
    env = str(values.get("env", ""))
    if with_env and ":" in env and env.partition(":")[0].lower() not in ("atari", "minatar"):
        named.append(env)
    return named


def untrusted_code(
    values: Mapping[str, Any], typed: TrainConfig | None, *, with_env: bool
) -> list[str]:
    """Return the Python code that stored settings name and that the user did not type.

    Whoever types a setting trusts the code that it names. Other code must not be run.

    Args:
        values: Settings, as a run folder keeps them.
        typed: The settings that the user typed; None if none were.
        with_env: Whether the environment will be made.
    """
    trusted = [] if typed is None else list(asdict(typed).values())
    return [name for name in code_named(values, with_env=with_env) if name not in trusted]


def flat(values: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """Return nested settings as one level, with names such as ``learner.unroll``."""
    one_level: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            one_level |= flat(value, f"{path}{key}.")
        else:
            one_level[path + key] = value
    return one_level


def from_dict(kind: type[Config], values: Mapping[str, Any], path: str = "") -> Config:
    """Return a dataclass from its ``dataclasses.asdict``.

    Raises:
        UsageError: A key is unknown, in which case the message suggests the nearest name, or a
            value is of the wrong type.
    """
    hints = typing.get_type_hints(kind)
    names = {f.name for f in fields(kind)}  # type: ignore[arg-type]
    for key in values:
        if key not in names:
            guess = meant(key, names)
            hint = f"; did you mean '{path}{guess}'?" if guess else ""
            raise UsageError(f"unknown setting '{path}{key}'{hint}")
    nested = {}
    for key, value in values.items():
        if not is_dataclass(hints[key]):
            nested[key] = check_type(path + key, value, hints[key])
        elif isinstance(value, Mapping):
            nested[key] = from_dict(hints[key], value, f"{path}{key}.")
        else:
            raise UsageError(f"'{path}{key}' is {value!r}; it should be a group of settings")
    return kind(**nested)


def _renamed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with old names replaced by current ones, and without former settings.

    Raises:
        UsageError: They ask for a direct forecaster, which no longer exists.
    """
    renamed = dict(values)
    if "memory" in renamed:
        renamed["memory_gigabytes"] = renamed.pop("memory")
    model = renamed.get("model")
    if isinstance(model, Mapping):
        former = {("lstm" if k == "memory" else k): v for k, v in model.items()}
        if former.pop("forecast", "roll") != "roll":
            raise UsageError(
                "the settings have --model.forecast direct, which this version of delayzero lacks; "
                "use the version that the run was made with"
            )
        renamed["model"] = former
    return renamed


def with_former_defaults(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with the former behaviour filled in where newer settings are missing.

    Args:
        values: ``dataclasses.asdict`` of a configuration, of this version or an older one.
    """
    values = _renamed(values)
    model = values.get("model")
    kind = model.get("kind", "auto") if isinstance(model, Mapping) else "auto"
    large = (
        str(values.get("env", "")).lower().startswith("atari:")
    )  # auto chose the atari networks for these
    planes = kind == "atari" or (kind == "auto" and large)
    former: dict[str, dict[str, Any]] = {
        "model": {"action_code": "plane" if planes else "one_hot", "ends": "absorbing"},
        "replay": {"weights": "relative", "final_correction": 1.0},
        "search": {"value": "visits"},
    }
    changed = dict(values)
    q, learner = values.get("q"), values.get("learner")
    if isinstance(q, Mapping) and isinstance(learner, Mapping) and "batch_size" not in q:
        discount = q.get("discount") or values.get("discount")
        former["q"] = {"batch_size": learner.get("batch_size")}
        changed["q"] = {**q, "discount": discount}
        values = changed
    for section, settings in former.items():
        if isinstance(values.get(section, {}), Mapping):
            changed[section] = {**settings, **values.get(section, {})}
    return changed
