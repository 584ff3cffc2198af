"""A page to step through recorded episodes: one file, which needs nothing else."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from delayzero.files import plain
from delayzero.watching.canvas import ACTIONS, short
from delayzero.watching.frames import decoded, media_type
from delayzero.watching.moments import Episode

TEMPLATE = Path(__file__).with_name("page.html")


def page(episodes: Sequence[Sequence[Episode]], command: str) -> str:
    """Return the page.

    Args:
        episodes: For each run, its episodes.
        command: What was typed to make it.
    """
    first = episodes[0][0]
    agents = " beside ".join(run[0].agent for run in episodes)
    title = f"{agents} in {first.env} ({first.law})"
    values = {
        "colours": [f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue in ACTIONS],
        "runs": [[_episode(episode) for episode in run] for run in episodes],
    }
    text = TEMPLATE.read_text(encoding="utf-8")
    for name, part in (
        ("TITLE", html.escape(title)),
        ("COMMAND", html.escape(command)),
        ("DATA", _script(values)),
    ):
        text = text.replace(f"@{name}@", part)
    return text


def _episode(episode: Episode) -> dict[str, Any]:
    """An episode as JSON can hold it, the pictures as addresses that contain them."""
    values = asdict(episode)
    frames = [
        f"data:{media_type(data)};base64,{base64.b64encode(data).decode()}"
        for data in episode.frames
    ]
    moments = [
        {name: _plain(value) for name, value in moment.items()} for moment in values["moments"]
    ]
    size = decoded(episode.frames[0]).size
    return {
        **values,
        "frames": frames,
        "moments": moments,
        "shorts": [short(name) for name in episode.names],
        "size": size,
        "score": _plain(episode.score),
    }


def _plain(value: Any) -> Any:
    """Numbers that are not finite as null; a policy rounded, to save space."""
    if isinstance(value, float):
        number = plain(round(value, 4))
        return None if isinstance(number, str) else number
    if isinstance(value, (tuple, list)):
        return [_plain(one) for one in value]
    return value


def _script(values: Any) -> str:
    """JSON that cannot end the element that it stands in."""
    return json.dumps(values, separators=(",", ":")).replace("<", "\\u003c")
