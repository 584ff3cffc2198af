"""``delayzero demo``: a comparison in CartPole under a random delay, in a few minutes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from delayzero.arguments import Parser
from delayzero.evaluation.compare.cli import add_folder_and_engine, where_of
from delayzero.evaluation.compare.plan import Plan
from delayzero.evaluation.compare.run import compare
from delayzero.runs.run_folder import command_line

ABOUT = """Train four agents in CartPole, where actions take effect 0 to 5 steps late and the delay
varies at random: DEZ, which rolls its learned model forward through the pending actions, and three
baselines. This is a small `delayzero compare`; see docs/compare.md. The same command resumes an
interrupted demo; delete the folder to start again."""


def plan_in(folder: Path) -> Plan:
    """The demo's comparison: two seeds, three other delays."""
    return Plan(
        folder,
        delay="walk:5",
        seeds=(0, 1),
        evaluations=4,
        evaluation_episodes=8,
        laws=("constant:0", "constant:2", "constant:5"),
        law_episodes=16,
    )


def main(arguments: Sequence[str]) -> int:
    """Run ``delayzero demo``."""
    parser = Parser(prog="delayzero demo", description=ABOUT)
    add_folder_and_engine(parser, Path("demo"))
    options = parser.parse_args(arguments)
    compare(plan_in(options.folder), where_of(options), command_line())
    return 0
