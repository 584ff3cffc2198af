"""``delayzero compare``: agents side by side, with seeds, a table and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from delayzero.arguments import Parser, whole
from delayzero.evaluation.compare.plan import DELAYED_AGENTS, Plan, checked_agents, usual_laws
from delayzero.evaluation.compare.run import compare
from delayzero.runs.run_folder import command_line

ABOUT = """Train every agent with every seed and the same budget, evaluate each under several
delays, print a table and save pictures. The same command goes on where it was interrupted, and
finished runs are not repeated. More: docs/compare.md."""


def main(arguments: Sequence[str]) -> int:
    """The verb ``compare``."""
    usual = Plan(Path("compare"))
    parser = Parser(prog="delayzero compare", description=ABOUT)
    parser.add_argument("--env", help="the environment (the preset's)")
    parser.add_argument("--delay", default=usual.delay, help=f"the delay law ({usual.delay})")
    parser.add_argument(
        "--agents",
        nargs="+",
        metavar="AGENT",
        default=list(DELAYED_AGENTS),
        help=f"({' '.join(DELAYED_AGENTS)}); also oblivious, undelayed (the bound), random (the "
        "floor)",
    )
    parser.add_argument(
        "--seeds", nargs="+", type=whole(0), metavar="S", default=list(usual.seeds), help="(0 to 4)"
    )
    parser.add_argument(
        "--preset", nargs="+", default=list(usual.presets), help="of every run (cartpole)"
    )
    parser.add_argument("--jobs", type=whole(1), default=2, help="processes side by side (2)")
    parser.add_argument("--folder", type=Path, default=usual.folder, help=f"({usual.folder})")
    parser.add_argument(
        "--evaluate-delays",
        nargs="*",
        metavar="LAW",
        help="further laws for the trained agents (constant, from 0 to the law's longest)",
    )
    parser.add_argument("--interactions", type=whole(1), help="of each run (the preset's)")
    parser.add_argument("--episodes", type=whole(1), help="of the final evaluation (the preset's)")
    parser.add_argument(
        "--delay-episodes",
        type=whole(1),
        default=usual.law_episodes,
        help=f"under each further law, with each seed ({usual.law_episodes})",
    )
    options = parser.parse_args(arguments)
    asked = options.evaluate_delays
    plan = Plan(
        folder=options.folder,
        presets=tuple(options.preset),
        env=options.env,
        delay=options.delay,
        agents=checked_agents(options.agents),
        seeds=tuple(dict.fromkeys(options.seeds)),
        interactions=options.interactions,
        episodes=options.episodes,
        laws=usual_laws(options.delay) if asked is None else tuple(dict.fromkeys(asked)),
        law_episodes=options.delay_episodes,
    )
    compare(plan, options.jobs, command_line())
    return 0
