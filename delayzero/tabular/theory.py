"""``delayzero theory``: the paper's theorems checked on small problems."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from delayzero.arguments import Parser, UsageError, whole
from delayzero.extras import MissingExtraError
from delayzero.files import named, write_whole
from delayzero.progress import progress
from delayzero.tabular.examples import (
    EXAMPLE_DELAYS,
    noisy_xor,
    opposite_of_prediction,
    worked_example,
)
from delayzero.tabular.families import FAMILIES, random_mdp
from delayzero.tabular.mdp import MDP, SEDMDP, exact
from delayzero.tabular.paths import (
    History,
    expected_return,
    formula_law,
    markovise,
    path_law,
    total_variation,
)
from delayzero.tabular.restricted import (
    View,
    predicted_and_delay,
    solve_restricted,
    state_and_delay,
    state_and_delays,
)
from delayzero.tabular.solve import solve_augmented
from delayzero.tabular.sweep import Loss, sweep

Advance = Callable[[int], None]

SIZES = ((2, 1, 4), (2, 1, 5), (2, 2, 3), (2, 2, 4), (3, 1, 4), (3, 2, 3))
"""(S, M, t) of the random problems for theorem 1."""
SWEEP_LAWS = ("constant:3", "walk:3", "uniform:0-3")
SLIPS = (Fraction(0), Fraction(1, 10), Fraction(1, 4), Fraction(2, 5), Fraction(1, 2))
VIEWS: dict[str, Callable[[SEDMDP], View]] = {
    "(t, s, z)": state_and_delay,
    "(t, s, z_0..z_t)": state_and_delays,
    "(t, predicted s, z)": predicted_and_delay,
}


@dataclass(frozen=True)
class PathCheck:
    """Theorem 1 on a random problem: total variation between formula and process.

    Attributes:
        states: S.
        max_delay: M.
        steps: t.
        law: The delay law.
        resample: The paper's product and the process that draws an action at each executed step.
        copy: The paper's product and the process that repeats a decision.
        corrected: The corrected product and the process that repeats a decision.
    """

    states: int
    max_delay: int
    steps: int
    law: str
    resample: float
    copy: float
    corrected: float


@dataclass(frozen=True)
class Sufficiency:
    """How often the best policy of a view is suboptimal, over random deterministic MDPs.

    Attributes:
        law: The delay law.
        start: The initial state: ``"fixed"`` or ``"random"``.
        view: What the policy observes.
        problems: The number of problems.
        short: The number of problems where the optimum over all histories is strictly better.
        largest_gap: The largest difference in return.
    """

    law: str
    start: str
    view: str
    problems: int
    short: int
    largest_gap: Fraction


class RandomPolicy:
    """A randomised policy of the whole history, drawn on demand."""

    def __init__(self, rng: np.random.Generator, actions: int) -> None:
        self._rng, self._actions = rng, actions
        self._rules: dict[History, list[float]] = {}

    def __call__(self, history: History, decided: tuple[int, ...]) -> list[float]:
        """The distribution of the decision after a history."""
        if history not in self._rules:
            self._rules[history] = self._rng.dirichlet(np.ones(self._actions)).tolist()
        return self._rules[history]


def check_theorem_1(states: int, max_delay: int, steps: int, law: str, seed: int) -> PathCheck:
    """Check theorem 1 on a random problem with a random policy and a random default queue."""
    rng = np.random.default_rng(seed)
    transitions = rng.dirichlet(np.ones(states), (states, 2))
    mdp = MDP(transitions, np.zeros((states, 2)), rng.dirichlet(np.ones(states)), steps)
    problem = SEDMDP.make(mdp, law, rng.integers(0, 2, max_delay))
    policy = RandomPolicy(rng, 2)
    copied = path_law(problem, policy, steps, "copy")
    resampled = path_law(problem, policy, steps, "resample")
    formula = formula_law(problem, policy, copied)
    corrected = formula_law(problem, policy, copied, corrected=True)
    distances = (
        total_variation(resampled, formula),
        total_variation(copied, formula),
        total_variation(copied, corrected),
    )
    return PathCheck(states, max_delay, steps, law, *map(float, distances))


def theorem_1(seed: int, advance: Advance) -> list[PathCheck]:
    """Check theorem 1 on random problems under constant, uniform and walk delays."""
    checks = []
    for states, max_delay, steps in SIZES:
        for law in (f"constant:{max_delay}", f"uniform:0-{max_delay}", f"walk:{max_delay}"):
            checks.append(check_theorem_1(states, max_delay, steps, law, seed))
            advance(1)
    return checks


def sufficiency(problems: int, seed: int, advance: Advance) -> list[Sufficiency]:
    """Compare the best policy of each view with the optimum, on random deterministic MDPs."""
    rows = []
    for law, horizon in (("constant:2", 5), ("walk:1", 5), ("uniform:0-2", 4)):
        for start in ("fixed", "random"):
            gaps: dict[str, list[Any]] = {view: [] for view in VIEWS}
            for problem in range(problems):
                mdp = random_mdp("deterministic", 3, 2, horizon, seed + problem, rational=True)
                if start == "fixed":
                    mdp = replace(mdp, initial=exact([1, 0, 0]))
                delayed = SEDMDP.make(mdp, law)
                optimum = solve_augmented(delayed).value
                for view, make in VIEWS.items():
                    gaps[view].append(optimum - solve_restricted(delayed, make).value)
                advance(1)
            for view, lost in gaps.items():
                short = sum(gap > 0 for gap in lost)
                rows.append(Sufficiency(law, start, view, problems, short, max(lost)))
    return rows


def example_text() -> str:
    """The worked example as text."""
    lines = [f"  delays of decisions 0 to 4: {', '.join(map(str, EXAMPLE_DELAYS))};  M = 5"]
    for delay, queue in worked_example().items():
        names = ", ".join(f"a{time}" for time in queue)
        lines.append(f"  z_5 = {delay}: pending [{names}]")
    return "\n".join(lines)


def theorem_1_text(checks: Sequence[PathCheck]) -> str:
    """The distances as a table."""
    lines = ["  S  M  t  law          resample    copy     copy, corrected"]
    for c in checks:
        lines.append(
            f"  {c.states}  {c.max_delay}  {c.steps}  {c.law:<11}  {c.resample:8.1e}  {c.copy:8.1e}"
            f"   {c.corrected:8.1e}"
        )
    return "\n".join(lines)


def theorem_2_rows() -> list[dict[str, Any]]:
    """Noisy XOR: the optimum, the best Markov value, and the values of pi and pi', by slip."""
    rows = []
    for slip in SLIPS:
        problem = noisy_xor(slip, 4)
        markov = solve_restricted(problem, state_and_delay)
        built = markovise(problem, opposite_of_prediction, 4)
        rows.append(
            {
                "slip": slip,
                "v_all": solve_augmented(problem).value,
                "v_markov": markov.value,
                "v_policy": expected_return(problem, opposite_of_prediction),
                "v_markovised": expected_return(problem, built),
            }
        )
    return rows


def theorem_2_text(rows: Sequence[dict[str, Any]]) -> str:
    """The counterexample as a table, with the optimal policies."""
    problem = noisy_xor(Fraction(1, 4), 4)
    markov = solve_restricted(problem, state_and_delay)
    optimum = solve_augmented(problem)
    lines = [
        "  Two states, two actions, constant delay 1, four steps. r = s xor a; s' = s xor a, but",
        "  the other state with probability slip. Columns 2 and 3: best return of each class.",
        "  slip   all histories   Markov (t, s, z)   gap     a policy pi   its Markov pi'",
    ]
    for row in rows:
        gap = row["v_all"] - row["v_markov"]
        lines.append(
            f"  {row['slip']!s:<5}  {row['v_all']!s:<14}  {row['v_markov']!s:<17}  {gap!s:<6}  "
            f"{row['v_policy']!s:<12}  {row['v_markovised']!s}"
        )
    lines.append(
        "  Slip 1/4: an optimal policy (state, pending action)->decision; the best Markov policy:"
    )
    for time in range(3):  # the last decision executes after the end
        augmented = ", ".join(
            f"({state},{queue})->{optimum.greedy(time)[state, queue, 1]}"
            for state in range(2)
            for queue in range(2)
        )
        states = ", ".join(
            f"{observed[0]}->{decision}"  # type: ignore[index]
            for (when, observed), decision in sorted(markov.policy.items(), key=str)
            if when == time
        )
        lines.append(f"    t = {time}: {augmented};  Markov: {states}")
    lines.append(
        "  pi decides against the most likely next state; pi' is the proof's construction from pi."
    )
    return "\n".join(lines)


def sufficiency_text(rows: Sequence[Sufficiency]) -> str:
    """The sufficiency of each view as a table."""
    lines = ["  delays       first state   policy of            suboptimal in   largest gap"]
    for row in rows:
        lines.append(
            f"  {row.law:<11}  {row.start:<12}  {row.view:<19}  "
            f"{f'{row.short} of {row.problems}':<14}  {row.largest_gap!s}"
        )
    return "\n".join(lines)


def losses_text(losses: Sequence[Loss]) -> str:
    """The losses in percent as a table with a column per family."""
    families = list(dict.fromkeys(loss.family for loss in losses))
    lines = ["  " + f"{'delays':<12} {'way of acting':<31}" + "".join(f"{f:>15}" for f in families)]
    for law in dict.fromkeys(loss.law for loss in losses):
        for way in dict.fromkeys(loss.way for loss in losses):
            cells = []
            for family in families:
                cell = [x for x in losses if (x.family, x.law, x.way) == (family, law, way)]
                cells.append(
                    f"{100 * cell[0].mean:.1f} ± {100 * cell[0].error:.1f}" if cell else ""
                )
            lines.append("  " + f"{law:<12} {way:<31}" + "".join(f"{cell:>15}" for cell in cells))
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Run ``delayzero theory``."""
    options = _parser().parse_args(arguments)
    count, seed = options.problems, options.seed
    folder = None if options.save is None else _writable(Path(options.save))
    units = 3 * len(SIZES) + 6 * count + len(FAMILIES) * len(SWEEP_LAWS) * count
    with progress("theory", units) as advance:
        checks = theorem_1(seed, advance)
        suffices = sufficiency(count, seed, advance)
        losses = sweep(FAMILIES, SWEEP_LAWS, problems=count, seed=seed, advance=advance)
    rows = theorem_2_rows()
    titles = (
        "Worked example (section 4.1): the pending queue at t = 5",
        "Theorem 1: total variation distance between the product formula and the process",
        "Theorem 2: a counterexample",
        f"What a policy must observe, on {count} random deterministic MDPs (exact)",
        "Loss of each way of acting, in % of (optimum - random): mean ± standard error",
    )
    texts = (
        example_text(),
        theorem_1_text(checks),
        theorem_2_text(rows),
        sufficiency_text(suffices),
        losses_text(losses),
    )
    for title, text in zip(titles, texts, strict=True):
        print(f"{title}\n{text}\n")
    if folder is not None:
        _save(folder, checks, rows, suffices, losses)
    return 0


def _parser() -> Parser:
    parser = Parser(
        prog="delayzero theory",
        description="Check the paper's theorems on small problems, exactly. See docs/theory.md.",
    )
    parser.add_argument(
        "--save", metavar="DIR", help="also write the tables (CSV) and a figure to this folder"
    )
    parser.add_argument(
        "--problems",
        metavar="N",
        type=whole(2),
        default=12,
        help="random problems per case (default: 12)",
    )
    parser.add_argument(
        "--seed",
        metavar="S",
        type=whole(0),
        default=0,
        help="seed of the random problems (default: 0)",
    )
    return parser


def _writable(folder: Path) -> Path:
    """Create the folder if necessary and check that files can be written to it.

    Raises:
        UsageError: They cannot.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot create the folder '{folder}' ({error.strerror}); name another with --save"
        ) from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"cannot write to the folder '{folder}'; name another with --save")
    return folder


def _save(
    folder: Path,
    checks: Sequence[PathCheck],
    rows: Sequence[dict[str, Any]],
    suffices: Sequence[Sufficiency],
    losses: Sequence[Loss],
) -> None:
    tables: dict[str, list[dict[str, Any]]] = {
        "theorem_1.csv": [asdict(check) for check in checks],
        "theorem_2.csv": list(rows),
        "sufficiency.csv": [asdict(row) for row in suffices],
        "losses.csv": [asdict(loss) for loss in losses],
    }
    for name, table in tables.items():
        text = io.StringIO()
        writer = csv.DictWriter(text, fieldnames=list(table[0]))
        writer.writeheader()
        writer.writerows(table)
        write_whole(folder / name, text.getvalue())
    saved = list(tables)
    try:
        from delayzero.tabular.pictures import theory_picture

        with named(folder / "theory.png"):
            theory_picture(checks, losses).savefig(folder / "theory.png")
        saved.append("theory.png")
    except MissingExtraError as error:
        print(f"no figure: {error}")
    print(f"saved in {folder}: {', '.join(saved)}")
