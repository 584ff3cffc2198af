"""Print what acting loses with a right forecast, or with a belief, as the delay grows.

    python results/uncertain-forecasts/table.py    about two minutes on one core

Exact, on random problems with 4 states and 2 actions: see docs/theory.md.
"""

from delayzero.tabular.families import FAMILIES
from delayzero.tabular.theory import losses_text, sweep

LAWS = ("walk:3", "walk:5", "walk:7", "uniform:0-3", "uniform:0-5", "uniform:0-7")

print(losses_text(sweep(FAMILIES, LAWS, problems=40, seed=0)))
