"""``delayzero report``: results as one HTML page, written to a file or served while runs go on."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from delayzero.arguments import Parser, UsageError
from delayzero.files import write_whole
from delayzero.progress import say
from delayzero.report.gather import gather
from delayzero.report.listings import relative_to
from delayzero.report.page import report_page

ABOUT = """Write one HTML page about runs, comparisons, campaigns and records: learning curves, the
paper's tables with ours beside them, scores by delay, foresight, delays, health, settings and
commands. It needs no network and no server. See docs/report.md."""


def main(arguments: Sequence[str]) -> int:
    """Run ``delayzero report``."""
    options = _parser().parse_args(arguments)
    paths: list[Path] = options.paths
    title = options.title or ", ".join(path.resolve().name for path in paths[:3])
    title += " ..." * (len(paths) > 3 and not options.title)
    command = shlex.join(["delayzero", "report", *arguments])
    gathered = gather(paths)
    for problem in gathered.problems:
        say(f"warning: {problem}")
    out: Path = options.out
    if out.is_dir():
        raise UsageError(f"--out {out} is a folder; type the name of a file, such as report.html")
    page = report_page(gathered, title, command, relative_to(out.parent))
    out.parent.mkdir(parents=True, exist_ok=True)
    write_whole(out, page)
    print(out)
    return 0


def _parser() -> Parser:
    parser = Parser(prog="delayzero report", description=ABOUT)
    parser.add_argument(
        "paths",
        type=Path,
        nargs="+",
        metavar="PATH",
        help="folder of a run, of runs, of a comparison, of a campaign or of records; or the file "
        "of a record or a comparison",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("report.html"), help="the page (default: report.html)"
    )
    parser.add_argument("--title", help="title of the page (default: the names of the paths)")
    return parser
