"""The forms of the files that evaluations read: results of runs, scores by delay, records."""

from __future__ import annotations

from typing import Any

from delayzero.forms import (
    Form,
    group,
    list_of,
    number,
    one_of,
    optional,
    text,
    values_of,
    whole,
    with_keys,
)
from delayzero.settings import AGENTS

SCORES = list_of(number, least=1)
MADE_BY: dict[str, Form] = {"commit": optional(text), "device": text}
"""What a record says of the code and the device of a start."""


def prediction(value: Any, name: str) -> str:
    """The form of curves of prediction quality: each has an entry for each number of steps."""
    wrong = with_keys({"horizon": list_of(number)})(value, name)
    if wrong:
        return wrong
    length = len(value["horizon"])
    return values_of(list_of(optional(number), length, length))(value, name)


RESULT: dict[str, Form] = {
    "interactions": whole,
    "scores": SCORES,
    "train_seconds": number,
    "seconds": with_keys({"evaluating": number}),
}
"""What a comparison needs of ``result.json``; it may have a ``prediction`` too."""
RECORDED_RESULT: dict[str, Form] = {
    **RESULT,
    "env": text,
    "agent": one_of(AGENTS),
    "delay": optional(text),
    "seed": whole,
    "updates": whole,
    "score": number,
    "compile_seconds": number,
    "evaluate_seconds": number,
    "seconds": values_of(number),
    "prediction": optional(prediction),
    "versions": with_keys(MADE_BY),
}
"""What a record needs of ``result.json``."""
START: dict[str, Form] = {"command": text, "versions": with_keys(MADE_BY)}
"""What a record needs of a line of ``starts.jsonl``."""
POINTS = list_of(list_of(number, 2, 2))
RECORD: dict[str, Form] = {
    "game": text,
    "delay": text,
    "agent": one_of(AGENTS),
    "seed": whole,
    "interactions": whole,
    "updates": whole,
    "wall_seconds": number,
    "evaluate_seconds": with_keys({"final": number}),
    "scores": SCORES,
    "curve": POINTS,
    "config": group,
    "command": text,
    **MADE_BY,
}
"""What every record has."""
OPTIONAL_RECORD: dict[str, Form] = {
    "truncated": optional(whole),
    "distinct": optional(whole),
    "selfplay": POINTS,
    "prediction": optional(prediction),
    "starts": list_of(with_keys(MADE_BY), least=1),
}
"""What some records have."""
