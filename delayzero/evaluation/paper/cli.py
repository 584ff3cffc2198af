"""``delayzero results``: stores the results of runs, and compares them with the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from delayzero.arguments import Parser, UsageError
from delayzero.evaluation.paper.figures import save_figures
from delayzero.evaluation.paper.page import results_page
from delayzero.evaluation.paper.pictures import results_picture
from delayzero.evaluation.paper.records import read_records, write_record
from delayzero.files import check_out, make_folder, named, write_whole

RECORDS = Path("results/atari")


def main(arguments: Sequence[str]) -> int:
    """Run ``delayzero results``."""
    parser = Parser(
        prog="delayzero results",
        description="Store the results of finished runs, one small file (a record) per run, and "
        "compare them with the scores of the paper, of random play and of people.",
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    about_add = "write the records of finished runs"
    add = verbs.add_parser("add", help=about_add, description=about_add.capitalize() + ".")
    add.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="folder of a finished run")
    folder_help = f"folder of the records (default: {RECORDS})"
    add.add_argument("--folder", type=Path, default=RECORDS, help=folder_help)
    about_table = "write a page with a table and a picture of all records"
    table = verbs.add_parser("table", help=about_table, description=about_table.capitalize() + ".")
    table.add_argument("folder", type=Path, nargs="?", default=RECORDS, help=folder_help)
    table.add_argument(
        "--out",
        type=Path,
        default=Path("docs/results.md"),
        help="file of the page; the picture goes to the folder images beside it "
        "(default: docs/results.md)",
    )
    about_figures = "draw each plot of the paper from records, as PDF and PNG"
    figures = verbs.add_parser(
        "figures", help=about_figures, description=about_figures.capitalize() + "."
    )
    figures.add_argument("folder", type=Path, nargs="?", default=RECORDS, help=folder_help)
    figures.add_argument(
        "--out", type=Path, default=Path("figures"), help="folder of the plots (default: figures)"
    )
    options = parser.parse_args(arguments)
    if options.verb == "add":
        for run in options.runs:
            print(write_record(run, options.folder))
        return 0
    if options.verb != "figures":
        check_out(options.out)
    records = read_records(options.folder)
    if not records:
        raise UsageError(f"{options.folder} contains no records; type: delayzero results add RUN")
    if options.verb == "figures":
        if options.out.exists() and not options.out.is_dir():
            raise UsageError(f"--out {options.out} is a file; type the name of a folder")
        print(*save_figures(records, options.out), sep="\n")
        return 0
    picture = options.out.parent / "images" / f"{options.out.stem}.png"
    page = results_page(records, str(options.folder), str(options.out), f"images/{picture.name}")
    make_folder(picture.parent)
    write_whole(options.out, page)
    print(options.out)
    with named(picture):
        results_picture(records).savefig(picture)
    print(picture)
    return 0
