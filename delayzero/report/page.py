"""The whole page: one HTML file with its data, styles, scripts and plotting library inside."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from delayzero import __version__
from delayzero.arguments import UsageError
from delayzero.report import listings, paper_section, sections
from delayzero.report.gather import Gathered
from delayzero.report.groups import group_runs
from delayzero.report.listings import Link
from delayzero.report.markup import Html, joined, script_data, tag
from delayzero.report.reading import GENERATOR
from delayzero.report.sections import Section
from delayzero.words import encodable

MOST_BYTES = 5_000_000
"""No page is larger."""
MOST_POINTS, FEWEST_POINTS = 200, 8
"""Of a curve."""
ALL_POINTS = 150_000
"""About as many points of curves as a page has."""
CURVES_PER_RUN = 11
STYLES = ("uPlot.min.css", "report.css")
SCRIPTS = ("uPlot.iife.min.js", "report.js")
LICENCE = "uPlot.LICENSE"
"""Must come with every copy of uPlot, and so with every page."""
EMPTY = "There is nothing to show: no run could be read."


def report_page(
    gathered: Gathered, title: str, command: str, link: Link, live: bool = False
) -> str:
    """The page of what was gathered.

    Args:
        gathered: The runs.
        title: Of the page.
        command: What was typed, for the footer.
        link: Returns the address of a video.
        live: Whether the page asks its server for news, and loads itself again.

    Raises:
        UsageError: There are too many runs for a page.
    """
    curves = max(1, CURVES_PER_RUN * len(gathered.runs))
    points = max(FEWEST_POINTS, min(MOST_POINTS, ALL_POINTS // curves))
    while True:
        page = encodable(_page(gathered, title, command, link, live, points))
        size = len(page.encode())
        if size <= MOST_BYTES:
            return page
        if points <= FEWEST_POINTS:
            raise UsageError(
                f"the report of {len(gathered.runs)} runs would have {size / 1e6:.1f} MB, and "
                f"should have at most {MOST_BYTES / 1e6:.0f} MB; name fewer runs"
            )
        points = max(FEWEST_POINTS, points // 2)


def _page(gathered: Gathered, title: str, command: str, link: Link, live: bool, points: int) -> str:
    canvas = sections.Canvas()
    parts = _sections(gathered, canvas, link, points)
    links = [tag("a", part.title, href=f"#{part.name}") for part in parts]
    finished = sum(run.finished for run in gathered.runs)
    runs = "1 run" if len(gathered.runs) == 1 else f"{len(gathered.runs)} runs"
    count = f"{runs}, {finished} finished" if gathered.runs else EMPTY
    body = joined(
        (
            tag("a", "Skip to the results", href="#main", class_="skip"),
            tag(
                "header",
                tag("h1", title),
                tag("p", count),
                tag("nav", *links, aria_label="sections"),
            ),
            tag("noscript", tag("p", "Charts need JavaScript; all tables are here without it.")),
            tag("main", *(part.html for part in parts), id="main"),
            tag("footer", tag("p", f"delayzero {__version__}: ", tag("code", command))),
            script_data({"charts": canvas.charts, "live": live}, "data"),
        )
    )
    return _document(title, body, live)


def _sections(
    gathered: Gathered, canvas: sections.Canvas, link: Link, points: int
) -> list[Section]:
    groups = group_runs(gathered.runs)
    ordered = [run for group in groups for run in group.runs]
    found = [
        listings.problems(gathered),
        listings.progress(gathered),
        listings.outcomes(gathered),
        sections.scores(groups),
        sections.learning(groups, canvas, points),
        paper_section.paper(groups, canvas),
        sections.by_longest(groups, canvas),
        sections.foresight(groups, canvas),
        sections.laws(gathered, canvas),
        sections.health(groups, canvas, points),
        listings.settings(ordered),
        listings.runs_table(ordered, link) if ordered else None,
        listings.commands(ordered),
        listings.terms(ordered) if ordered else None,
    ]
    return [part for part in found if part is not None]


def _document(title: str, body: Html, live: bool) -> str:
    styles = asset(STYLES)
    scripts = f"/*!\n{asset((LICENCE,))}\n*/\n{asset(SCRIPTS)}"
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_digest(scripts)}'",
            f"style-src '{_digest(styles)}'",
            "img-src data:",
            "connect-src 'self'" if live else "connect-src 'none'",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    head = (
        f'<meta charset="utf-8">{GENERATOR}'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"{tag('title', title)}<style>{styles}</style>"
    )
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}</head>\n'
        f"<body>{body}<script>{scripts}</script></body></html>\n"
    )


@cache
def asset(names: Sequence[str]) -> str:
    """The text of packaged files, one after the other."""
    folder = files(__package__).joinpath("assets")
    return "\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in names)


def _digest(text: str) -> str:
    """The hash by which a browser knows that a script or style is this page's own."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
