"""The summary of a finished run, read with a check that it is of this run and no other."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from delayzero.arguments import UsageError
from delayzero.files import read_json
from delayzero.forms import Form, is_number
from delayzero.runs.paths import RunPaths

SAME = ("env", "agent", "delay", "seed")
"""What a result repeats of the run's settings."""


def read_result(files: RunPaths, remedy: str, form: Form) -> dict[str, Any]:
    """Read the summary of a finished run.

    Args:
        files: The run's files.
        remedy: How to mend a damaged file, for the message.
        form: Of the summary.

    Raises:
        UsageError: It is damaged, or of another run than the settings beside it.
    """
    result = read_json(files.result, remedy, form)
    if wrong := contradiction(result, settings_beside(files)):
        raise UsageError(f"{files.result} is not the result of this run: {wrong}; {remedy}")
    return result


def settings_beside(files: RunPaths) -> dict[str, Any]:
    """Read the run's settings in plain JSON types; empty if they are missing or damaged."""
    try:
        return read_json(files.settings, "")
    except (UsageError, OSError):
        return {}


def contradiction(result: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """Return what shows that a result is not of a run with these settings, or was edited; or "".

    Args:
        result: The summary of a run.
        settings: Settings in plain JSON types; those that are missing show nothing.
    """
    for name in SAME:
        found, expected = result.get(name), settings.get(name)
        if None not in (found, expected) and found != expected:
            return f"its {name} is {found}, the run's is {expected}"
    made: Any = result.get("interactions")
    budget: Any = settings.get("interactions")
    if is_number(made) and is_number(budget) and made < budget:
        return f"it was made after {made} interactions, the run has {budget}"
    return _contradicts_itself(result)


def _contradicts_itself(result: Mapping[str, Any]) -> str:
    """Return what in a summary does not fit the scores of its episodes."""
    values: Any = (result.get(name) for name in ("scores", "score", "episodes"))
    scores, mean, count = values
    if not (isinstance(scores, list) and scores and all(map(is_number, scores))):
        return ""
    if is_number(count) and count != len(scores):
        return f"it is of {count} episodes and has {len(scores)} scores"
    true = math.fsum(scores) / len(scores)
    if is_number(mean) and not math.isclose(mean, true, rel_tol=1e-6, abs_tol=1e-6):
        return f"its score is {mean}, the mean of its scores {true}"
    return ""
