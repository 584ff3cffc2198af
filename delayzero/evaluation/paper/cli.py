"""``delayzero results``: keep what runs gave, and set it beside the paper's tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from delayzero.arguments import Parser, UsageError
from delayzero.evaluation.paper.page import results_page
from delayzero.evaluation.paper.pictures import results_picture
from delayzero.evaluation.paper.records import read_records, write_record
from delayzero.files import write_whole

RECORDS = Path("results/atari")


def main(arguments: Sequence[str]) -> int:
    """The verb ``results``."""
    parser = Parser(
        prog="delayzero results",
        description="Keep what finished runs gave as one small file each, and make a table of "
        "them beside the paper's scores, random play and people.",
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    add = verbs.add_parser("add", help="write the records of runs")
    add.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="folders of finished runs")
    add.add_argument("--folder", type=Path, default=RECORDS, help=f"of the records ({RECORDS})")
    table = verbs.add_parser("table", help="make the page of all records, with a picture")
    table.add_argument(
        "folder", type=Path, nargs="?", default=RECORDS, help=f"of the records ({RECORDS})"
    )
    table.add_argument(
        "--out",
        type=Path,
        default=Path("docs/results.md"),
        help="the page; its picture goes to images/ beside it (docs/results.md)",
    )
    options = parser.parse_args(arguments)
    if options.verb == "add":
        for run in options.runs:
            print(write_record(run, options.folder))
        return 0
    records = read_records(options.folder)
    if not records:
        raise UsageError(
            f"there are no records in {options.folder}; type: delayzero results add RUN"
        )
    picture = options.out.parent / "images" / f"{options.out.stem}.png"
    page = results_page(records, str(options.folder), str(options.out), f"images/{picture.name}")
    write_whole(options.out, page)
    print(options.out)
    picture.parent.mkdir(parents=True, exist_ok=True)
    results_picture(records).savefig(picture)
    print(picture)
    return 0
