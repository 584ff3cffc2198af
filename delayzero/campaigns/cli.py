"""``delayzero campaign``: many runs by a plan, and how they stand."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from delayzero.arguments import Parser, whole
from delayzero.campaigns.cluster import Share
from delayzero.campaigns.collect import scores_table
from delayzero.campaigns.display import summary, table
from delayzero.campaigns.engines import Where, add_where, jobs_of
from delayzero.campaigns.record import read_record, runs_now, standings
from delayzero.extras import require_training

ABOUT = """Train every environment of a plan with every delay law, agent and seed. The same command
resumes an interrupted campaign: finished runs are not repeated, and half-finished ones resume from
their checkpoints. A failed run does not stop the others, and is tried again twice. `delayzero
campaign status ROOT` shows from another shell how a campaign stands. See docs/campaigns.md."""


def main(arguments: Sequence[str]) -> int:
    """Run ``delayzero campaign``."""
    if arguments and arguments[0] == "status":
        return _status(arguments[1:])
    options = _parser().parse_args(arguments)
    require_training()
    from delayzero.campaigns.campaign import run_campaign
    from delayzero.campaigns.dry_run import dry_run
    from delayzero.campaigns.plan import read_plan
    from delayzero.runs.run_folder import command_line

    plan = read_plan(options.plan)
    plan = plan.narrowed(options.games, options.laws, options.agents, options.seeds)
    root = options.folder or Path("campaigns") / plan.name
    share = Share(plan.gpus, plan.cores)
    where = Where(options.engine, options.address, options.jobs, share)
    if options.dry_run:
        print(dry_run(plan, root, options.jobs or jobs_of(share)))
    else:
        run_campaign(plan, root, where, command_line())
    return 0


def _status(arguments: Sequence[str]) -> int:
    """Print how a campaign stands."""
    parser = Parser(
        prog="delayzero campaign status",
        description="Show how a campaign stands: which runs are done, running (and how long "
        "they still take), waiting, failed (and why), and the scores so far.",
    )
    parser.add_argument("root", type=Path, help="folder of the campaign")
    root = parser.parse_args(arguments).root
    record = read_record(root)
    alive = runs_now(record, datetime.now(UTC))
    runs = standings(root, record, alive=alive)
    parts = [[summary(record["plan"], runs, record["jobs"]), *table(runs)]]
    parts += [scores_table(record, runs)]
    if not alive and any(run.state != "done" for run in runs):
        parts += [[f"not running since {record['updated']}; type: {record['command']}"]]
    print("\n\n".join("\n".join(part) for part in parts if part))
    return 0


def _parser() -> Parser:
    parser = Parser(prog="delayzero campaign", description=ABOUT)
    parser.add_argument("plan", metavar="PLAN", help="a file that ends with .toml, or `paper`")
    parser.add_argument(
        "--folder",
        type=Path,
        metavar="ROOT",
        help="folder of the campaign's runs (default: campaigns/NAME, by the plan's name)",
    )
    add_where(parser, "as many as `gpus` or `cores` in the plan allow")
    parser.add_argument(
        "--dry-run", action="store_true", help="print what would run, and start nothing"
    )
    for name, what in (("games", "environments"), ("laws", "delay laws"), ("agents", "agents")):
        parser.add_argument(
            f"--{name}", nargs="+", metavar="NAME", help=f"only these {what} of the plan"
        )
    parser.add_argument(
        "--seeds", nargs="+", type=whole(0), metavar="SEED", help="only these seeds of the plan"
    )
    return parser
