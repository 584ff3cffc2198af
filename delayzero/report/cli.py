"""``delayzero report``: results as one HTML page, written to a file or served while runs go on."""

from __future__ import annotations

import shlex
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from delayzero.arguments import Parser, UsageError, whole
from delayzero.files import check_out, make_folder, write_whole
from delayzero.progress import say
from delayzero.report.gather import Gathered, gather
from delayzero.report.listings import Link, relative_to
from delayzero.report.page import report_page
from delayzero.report.serve import LOOPBACK, Site, new_token, serve

ABOUT = """Write one HTML page about runs, comparisons, campaigns and records: learning curves, the
paper's tables with ours beside them, scores by delay, foresight, delays, health, settings and
commands. It needs no network and no server. See docs/report.md."""


def main(arguments: Sequence[str]) -> int:
    """Run ``delayzero report``."""
    options = report_parser().parse_args(arguments)
    paths: list[Path] = options.paths
    title = options.title or ", ".join(path.resolve().name for path in paths[:3])
    title += " ..." * (len(paths) > 3 and not options.title)
    command = shlex.join(["delayzero", "report", *arguments])
    if options.serve:
        return _serve(options, title, command)
    if options.port is not None or options.host is not None:
        raise UsageError("--port and --host are for --serve; type: delayzero report --help")
    out: Path = options.out
    check_out(out)
    gathered = gather(paths)
    for problem in gathered.problems:
        say(f"warning: {problem}")
    page = report_page(gathered, title, command, relative_to(out.parent))
    make_folder(out.parent)
    write_whole(out, page)
    print(out)
    return 0


def _serve(options: Namespace, title: str, command: str) -> int:
    """Serve the page until Ctrl-C."""
    gather(options.paths)  # says what is wrong before anything is served

    def make(link: Link) -> str:
        try:
            gathered = gather(options.paths)
        except (UsageError, OSError) as error:  # a folder was moved away
            gathered = Gathered(problems=[str(error)])
        return report_page(gathered, title, command, link, live=True)

    def ready(address: str) -> None:
        print(f"{address} (Ctrl-C ends it)", flush=True)
        if token:
            say("warning: whoever has this address can read the report")

    host = options.host or LOOPBACK
    token = new_token(host)
    serve(Site(options.paths, make, token), host, options.port or 0, ready)
    return 0


def report_parser() -> Parser:
    """The parser of the command's arguments."""
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
    parser.add_argument(
        "--serve",
        action="store_true",
        help="instead of writing a file, serve the page on this machine; it loads itself again as "
        "metrics arrive",
    )
    parser.add_argument(
        "--port", type=whole(0, 65535), metavar="N", help="of --serve (default: any that is free)"
    )
    parser.add_argument(
        "--host",
        metavar="ADDRESS",
        help="of --serve: the address to listen at, such as 0.0.0.0 for every network; others than "
        "this machine's own need the token in the printed address (default: 127.0.0.1)",
    )
    parser.add_argument("--title", help="title of the page (default: the names of the paths)")
    return parser
