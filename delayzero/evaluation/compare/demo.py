"""``delayzero demo``: the agents in CartPole under a random delay, in a few minutes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from delayzero.arguments import Parser, whole
from delayzero.evaluation.compare.plan import Plan
from delayzero.evaluation.compare.run import compare
from delayzero.runs.run_folder import command_line

ABOUT = """Train four agents in CartPole, where actions take effect 0 to 5 steps late and the delay
wanders: DEZ, which rolls its learned model through the actions under way, and three baselines. A
small `delayzero compare`; see docs/compare.md. The same command goes on where it was interrupted;
to see it all again, delete the folder."""


def plan_in(folder: Path) -> Plan:
    """The demo's comparison: few seeds, a small budget, few other delays."""
    return Plan(
        folder,
        delay="walk:5",
        seeds=(0, 1),
        interactions=5000,
        evaluations=4,
        evaluation_episodes=8,
        laws=("constant:0", "constant:2", "constant:5"),
        law_episodes=16,
    )


def main(arguments: Sequence[str]) -> int:
    """The verb ``demo``."""
    parser = Parser(prog="delayzero demo", description=ABOUT)
    parser.add_argument("--folder", type=Path, default=Path("demo"), help="(demo)")
    parser.add_argument("--jobs", type=whole(1), default=2, help="processes side by side (2)")
    options = parser.parse_args(arguments)
    compare(plan_in(options.folder), options.jobs, command_line())
    return 0
