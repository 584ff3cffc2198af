"""``delayzero theory``: the paper's statements, computed."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from delayzero.arguments import Parser, whole
from delayzero.extras import MissingExtraError
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
"""States, largest delay and steps of the random problems for theorem 1."""
SWEEP_LAWS = ("constant:3", "walk:3", "uniform:0-3")
SLIPS = (Fraction(0), Fraction(1, 10), Fraction(1, 4), Fraction(2, 5), Fraction(1, 2))
VIEWS: dict[str, Callable[[SEDMDP], View]] = {
    "(t, s, z)": state_and_delay,
    "(t, s, z_0..z_t)": state_and_delays,
    "(t, predicted s, z)": predicted_and_delay,
}


@dataclass(frozen=True)
class PathCheck:
    """Theorem 1 on one random problem: distances in total variation between law and formula.

    Attributes:
        states: S.
        max_delay: M.
        steps: t.
        law: The delay law.
        resample: The paper's product against the process that draws anew at each executed step.
        copy: The paper's product against the process that repeats the decision made.
        corrected: The corrected product against the latter.
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
    """How often the best policy of a view loses something, over random deterministic MDPs.

    Attributes:
        law: The delay law.
        start: ``"fixed"`` or ``"random"`` first state.
        view: What the policy sees.
        problems: How many problems.
        short: In how many of them the optimum over all histories is strictly better.
        largest_gap: The largest difference, in Fractions.
    """

    law: str
    start: str
    view: str
    problems: int
    short: int
    largest_gap: Fraction


class RandomPolicy:
    """A randomised policy of the whole history, drawn when first asked."""

    def __init__(self, rng: np.random.Generator, actions: int) -> None:
        self._rng, self._actions = rng, actions
        self._rules: dict[History, list[float]] = {}

    def __call__(self, history: History, decided: tuple[int, ...]) -> list[float]:
        """The law of the decision after a history."""
        if history not in self._rules:
            self._rules[history] = self._rng.dirichlet(np.ones(self._actions)).tolist()
        return self._rules[history]


def check_theorem_1(states: int, max_delay: int, steps: int, law: str, seed: int) -> PathCheck:
    """The distances of one random problem with a random policy and default queue."""
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
    """Theorem 1 on random problems of all sizes under constant, iid and walking delays."""
    checks = []
    for states, max_delay, steps in SIZES:
        for law in (f"constant:{max_delay}", f"uniform:0-{max_delay}", f"walk:{max_delay}"):
            checks.append(check_theorem_1(states, max_delay, steps, law, seed))
            advance(1)
    return checks


def sufficiency(problems: int, seed: int, advance: Advance) -> list[Sufficiency]:
    """What a policy has to see to lose nothing, on random deterministic MDPs, exactly."""
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
    """The worked example."""
    lines = [f"  delays of decisions 0 .. 4: {', '.join(map(str, EXAMPLE_DELAYS))};  M = 5"]
    for delay, queue in worked_example().items():
        names = ", ".join(f"a{time}" for time in queue)
        lines.append(f"  z_5 = {delay}: pending [{names}]")
    return "\n".join(lines)


def theorem_1_text(checks: Sequence[PathCheck]) -> str:
    """The distances, aligned."""
    lines = ["  S  M  t  law          resample    copy     copy, corrected"]
    for c in checks:
        lines.append(
            f"  {c.states}  {c.max_delay}  {c.steps}  {c.law:<11}  {c.resample:8.1e}  {c.copy:8.1e}"
            f"   {c.corrected:8.1e}"
        )
    return "\n".join(lines)


def theorem_2_rows() -> list[dict[str, Any]]:
    """The noisy XOR for several slips: the optimum, the best Markov policy, the paper's pi'."""
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
    """The counterexample, with the policies that attain the values."""
    problem = noisy_xor(Fraction(1, 4), 4)
    markov = solve_restricted(problem, state_and_delay)
    optimum = solve_augmented(problem)
    lines = [
        "  Two states and actions, delay always 1, T = 4: s' = s xor a but for slips; r = s xor a.",
        "  slip   all histories   Markov (t, s, z)   gap     a policy pi   its Markov pi'",
    ]
    for row in rows:
        gap = row["v_all"] - row["v_markov"]
        lines.append(
            f"  {row['slip']!s:<5}  {row['v_all']!s:<14}  {row['v_markov']!s:<17}  {gap!s:<6}  "
            f"{row['v_policy']!s:<12}  {row['v_markovised']!s}"
        )
    lines.append(
        "  At slip 1/4, an optimal policy of (state, pending action) and the best Markov one:"
    )
    for time in range(3):  # the last decision runs after the end
        augmented = ", ".join(
            f"({state},{queue})->{optimum.greedy(time)[state, queue, 1]}"
            for state in range(2)
            for queue in range(2)
        )
        states = ", ".join(
            f"{seen[0]}->{decision}"  # type: ignore[index]
            for (when, seen), decision in sorted(markov.policy.items(), key=str)
            if when == time
        )
        lines.append(f"    t = {time}: {augmented};  Markov: {states}")
    lines.append(
        "  pi decides against the most likely next state; pi' is what the proof builds from it."
    )
    return "\n".join(lines)


def sufficiency_text(rows: Sequence[Sufficiency]) -> str:
    """What suffices, aligned."""
    lines = ["  delays       first state   the policy sees       loses in   largest gap"]
    for row in rows:
        lines.append(
            f"  {row.law:<11}  {row.start:<12}  {row.view:<20}  "
            f"{row.short:>2} of {row.problems:<3}  {row.largest_gap!s}"
        )
    return "\n".join(lines)


def losses_text(losses: Sequence[Loss]) -> str:
    """The losses in percent, a column for each family."""
    families = list(dict.fromkeys(loss.family for loss in losses))
    lines = ["  " + f"{'delays':<12} {'way of acting':<31}" + "".join(f"{f:>15}" for f in families)]
    for law in dict.fromkeys(loss.law for loss in losses):
        for way in dict.fromkeys(loss.way for loss in losses):
            cells = []
            for family in families:
                found = [x for x in losses if (x.family, x.law, x.way) == (family, law, way)]
                cells.append(
                    f"{100 * found[0].mean:.1f} ± {100 * found[0].error:.1f}" if found else ""
                )
            lines.append("  " + f"{law:<12} {way:<31}" + "".join(f"{cell:>15}" for cell in cells))
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """The verb ``theory``."""
    parser = Parser(
        prog="delayzero theory", description="The paper's statements, computed exactly."
    )
    parser.add_argument("--save", metavar="DIR", help="also write tables (CSV) and a figure there")
    parser.add_argument(
        "--problems", metavar="N", type=whole(2), default=12, help="random problems"
    )
    parser.add_argument("--seed", metavar="S", type=whole(0), default=0, help="of the problems")
    options = parser.parse_args(arguments)
    count, seed = options.problems, options.seed
    units = 3 * len(SIZES) + 6 * count + len(FAMILIES) * len(SWEEP_LAWS) * count
    with progress("theory", units) as advance:
        checks = theorem_1(seed, advance)
        suffices = sufficiency(count, seed, advance)
        losses = sweep(FAMILIES, SWEEP_LAWS, problems=count, seed=seed, advance=advance)
    rows = theorem_2_rows()
    sections = {
        "The worked example (section 4.1): the pending queue at t = 5": example_text(),
        "Theorem 1: total variation between the product formula and the process": theorem_1_text(
            checks
        ),
        "Theorem 2: a counterexample": theorem_2_text(rows),
        f"What is enough to see, on {count} random deterministic MDPs (exact)": sufficiency_text(
            suffices
        ),
        "What each way of acting loses, in % of (optimum - random), mean ± standard error": (
            losses_text(losses)
        ),
    }
    for title, text in sections.items():
        print(f"{title}\n{text}\n")
    if options.save is not None:
        _save(Path(options.save), checks, rows, suffices, losses)
    return 0


def _save(
    folder: Path,
    checks: Sequence[PathCheck],
    rows: Sequence[dict[str, Any]],
    suffices: Sequence[Sufficiency],
    losses: Sequence[Loss],
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    tables: dict[str, list[dict[str, Any]]] = {
        "theorem_1.csv": [asdict(check) for check in checks],
        "theorem_2.csv": list(rows),
        "sufficiency.csv": [asdict(row) for row in suffices],
        "losses.csv": [asdict(loss) for loss in losses],
    }
    for name, table in tables.items():
        with (folder / name).open("w", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(table[0]))
            writer.writeheader()
            writer.writerows(table)
    saved = list(tables)
    try:
        from delayzero.tabular.pictures import theory_picture

        theory_picture(checks, losses).savefig(folder / "theory.png")
        saved.append("theory.png")
    except MissingExtraError as error:
        print(f"No figure: {error}")
    print(f"saved in {folder}: {', '.join(saved)}")
