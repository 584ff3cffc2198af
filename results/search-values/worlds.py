"""Search small worlds again and again, each time with the values and policies just found.

    PYTHONPATH=. python results/search-values/worlds.py

The model is the truth. Prints, for each world, the mean value minus the optimal one, and the mean
regret of the policy.
"""

import jax
import jax.numpy as jnp
import numpy as np

from delayzero.settings import SearchConfig
from tests.planning.runs import compiled
from tests.planning.test_improvement import ACTIONS, STATES, random_world
from tests.planning.toys import TableModel

SEARCHES = 100
STARTS = TableModel.roots(np.arange(STATES))


def learned(value, discount, seed):
    """Return errors of value and policy after the searches of one world."""
    search = compiled(TableModel(), SearchConfig(value=value).resolved(ACTIONS), False)
    tables, q = random_world(seed, discount)
    tables["value"] = jnp.zeros(STATES)
    for n in range(SEARCHES):
        result, _ = search(tables, jax.random.key(n), STARTS, discount)
        tables["value"] = result.value
        tables["logits"] = jnp.maximum(jnp.log(result.policy), -8)
    best = q.max(-1)
    return np.mean(result.value - best), np.mean(best - np.sum(result.policy * q, -1))


for discount in (0.8, 0.95):
    for value in ("visits", "policy"):
        errors, regrets = zip(*(learned(value, discount, seed) for seed in range(5)), strict=True)
        print(f"discount {discount}, --search.value {value}")
        print("  value minus optimum:", *(f"{error:.2f}" for error in errors))
        print("  regret of the policy:", *(f"{regret:.3f}" for regret in regrets))
