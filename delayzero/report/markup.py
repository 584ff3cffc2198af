"""HTML in which everything that is not HTML already is escaped."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence
from typing import Any


class Html(str):
    """Text that is HTML."""


def text(value: object) -> Html:
    """Escape a value, unless it is HTML."""
    return value if isinstance(value, Html) else Html(html.escape(str(value)))


def joined(parts: Iterable[object], between: str = "") -> Html:
    """Join parts, each escaped unless it is HTML."""
    return Html(between.join(map(text, parts)))


def tag(name: str, /, *children: object, **attributes: Any) -> Html:
    """An element.

    Args:
        name: Of the element.
        *children: Escaped unless they are HTML.
        **attributes: ``class_`` is class, ``data_x`` is data-x; None and False leave one out.
    """
    words = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        word = key.rstrip("_").replace("_", "-")
        words.append(word if value is True else f'{word}="{html.escape(str(value))}"')
    start = Html(f"<{' '.join(words)}>")
    return start if name == "input" else Html(f"{start}{joined(children)}</{name}>")


def table(
    caption: str,
    columns: Sequence[object],
    rows: Iterable[Sequence[object]],
    *,
    numeric: Sequence[int] = (),
    class_: str | None = None,
) -> Html:
    """A table that scrolls by itself where it is too wide.

    Args:
        caption: What it shows.
        columns: Headings; one that is an element ``th`` is used as it is.
        rows: Cells; the first of each row is its heading. Cells that are ``td`` are used as they
            are.
        numeric: Columns of numbers.
        class_: Of the table.
    """
    right = frozenset(numeric)
    head = [_cell("th", cell, i in right, scope="col") for i, cell in enumerate(columns)]
    body = []
    for row in rows:
        first = _cell("th", row[0], 0 in right, scope="row")
        rest = [_cell("td", cell, i in right) for i, cell in enumerate(row[1:], 1)]
        body.append(tag("tr", first, *rest))
    inner = tag(
        "table",
        tag("caption", caption),
        tag("thead", tag("tr", *head)),
        tag("tbody", *body),
        class_=class_,
    )
    return tag("div", inner, class_="wide", tabindex="0", role="region", aria_label=caption)


def _cell(name: str, cell: object, right: bool, scope: str | None = None) -> Html:
    if isinstance(cell, Html) and cell.startswith(("<td", "<th")):
        return cell
    return tag(name, cell, scope=scope, class_="number" if right else None)


def details(summary: object, *children: object) -> Html:
    """Something to be opened by the reader."""
    return tag("details", tag("summary", summary), *children)


def script_data(values: Any, name: str) -> Html:
    """JSON for a page's script to read, which no text in it can end early."""
    packed = json.dumps(values, separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        packed = packed.replace(sign, f"\\u{ord(sign):04x}")
    return Html(f'<script type="application/json" id="{name}">{packed}</script>')
