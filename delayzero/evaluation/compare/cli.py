"""``delayzero compare``: trains agents with several seeds and compares their scores."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from delayzero.arguments import Parser, UsageError, positive, whole
from delayzero.bounds import MOST_ENVS
from delayzero.campaigns.cluster import Share
from delayzero.campaigns.engines import Where, add_where
from delayzero.campaigns.run import checked_agents
from delayzero.evaluation.compare.plan import DELAYED_AGENTS, MOST_LAWS, Plan, usual_laws
from delayzero.evaluation.compare.run import compare
from delayzero.runs.run_folder import command_line

ABOUT = """Train every agent with every seed and the same number of interactions, evaluate the
trained agents under several delays, print a table of the scores and save pictures. The same command
resumes an interrupted comparison; finished runs are not repeated. See docs/compare.md."""


def main(arguments: Sequence[str]) -> int:
    """Run ``delayzero compare``."""
    options = _parser().parse_args(arguments)
    laws = options.evaluate_delays
    plan = Plan(
        folder=options.folder,
        presets=tuple(options.preset),
        env=options.env,
        delay=options.delay,
        agents=checked_agents(options.agents),
        seeds=tuple(dict.fromkeys(options.seeds)),
        interactions=options.interactions,
        episodes=options.episodes,
        laws=usual_laws(options.delay) if laws is None else tuple(dict.fromkeys(laws)),
        law_episodes=options.delay_episodes,
    )
    compare(plan, where_of(options), command_line())
    return 0


def add_folder_and_engine(parser: Parser, folder: Path) -> None:
    """Add the options ``--folder`` (with its default), and those that :func:`where_of` reads."""
    parser.add_argument(
        "--folder",
        type=Path,
        default=folder,
        help=f"folder for the runs and results (default: {folder})",
    )
    add_where(parser, "2, or as many as --gpus or --cores allow; with Ray, as many as fit")
    parser.add_argument(
        "--gpus", type=positive, metavar="SHARE", help="share of a GPU that a process takes"
    )
    parser.add_argument("--cores", type=whole(1), metavar="N", help="cores that a process takes")


def where_of(options: Namespace) -> Where:
    """Where the processes run, by the options of :func:`add_folder_and_engine`.

    Raises:
        UsageError: The options contradict each other, or the share is above one GPU.
    """
    if options.gpus is not None and options.gpus > 1:
        raise UsageError(f"--gpus {options.gpus:g} should be at most 1: a run uses one GPU")
    share = Share(options.gpus, options.cores)
    return Where(options.engine, options.address, options.jobs, share)


def _parser() -> Parser:
    usual = Plan(Path("compare"))
    parser = Parser(prog="delayzero compare", description=ABOUT)
    parser.add_argument("--env", help="environment (default: the preset's)")
    parser.add_argument(
        "--delay",
        metavar="LAW",
        default=usual.delay,
        help=f"delay law of training and of the final evaluation (default: {usual.delay})",
    )
    parser.add_argument(
        "--agents",
        nargs="+",
        metavar="AGENT",
        default=list(DELAYED_AGENTS),
        help=f"agents to compare (default: {' '.join(DELAYED_AGENTS)}); also: oblivious, "
        "undelayed (has no delay), random (acts at random)",
    )
    parser.add_argument(
        "--seeds",
        nargs="+",
        type=whole(0),
        metavar="SEED",
        default=list(usual.seeds),
        help=f"seeds of each agent's runs (default: {' '.join(map(str, usual.seeds))})",
    )
    parser.add_argument(
        "--preset",
        nargs="+",
        default=list(usual.presets),
        help=f"presets of every run, applied in order (default: {' '.join(usual.presets)})",
    )
    add_folder_and_engine(parser, usual.folder)
    parser.add_argument(
        "--evaluate-delays",
        nargs="*",
        metavar="LAW",
        help="other delay laws under which to evaluate the trained agents (default: up to "
        f"{MOST_LAWS} constant delays, from 0 to the largest delay of --delay)",
    )
    parser.add_argument(
        "--interactions",
        type=whole(1),
        metavar="N",
        help="environment steps of each run (default: the preset's)",
    )
    parser.add_argument(
        "--episodes",
        type=whole(1, MOST_ENVS),
        metavar="N",
        help="episodes of each run's final evaluation (default: the preset's)",
    )
    parser.add_argument(
        "--delay-episodes",
        type=whole(1, MOST_ENVS),
        metavar="N",
        default=usual.law_episodes,
        help=f"episodes of each run under each other law (default: {usual.law_episodes})",
    )
    return parser
