"""Compare and average the policies of forecasts that ``relearn.py learn --forecasts`` stored.

    python results/relearned/averages.py MODEL.npz MODEL.npz ...

Prints, by steps ahead, how often the likeliest action is that at the real state. The files are of
models that learned the same replay, each with its own seed.
"""

import sys
from itertools import pairwise

import numpy as np

STEPS = (1, 3, 5, 10, 15, 20, 25)


def softmax(logits):
    """Return probabilities."""
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def agreement(policy, real, alive):
    """Return how often two policies ``[H, B, A]`` have the same likeliest action, ``[H]``."""
    same = policy.argmax(-1) == real.argmax(-1)
    return (same * alive).sum(axis=1) / alive.sum(axis=1)


def rows_of(model):
    """Return the agreement of the forecasts of one model, by name."""
    real, rolled, alive = softmax(model["real"]), softmax(model["rolled"]), model["alive"]
    rows = {f"rolled from {lag} steps before": x for lag, x in enumerate(rolled)}
    rows["rolled from now"] = rows.pop("rolled from 0 steps before")
    for count in range(2, len(rolled) + 1):
        rows[f"mean of the {count} newest rolls"] = rolled[:count].mean(axis=0)
    return {name: agreement(policy, real, alive) for name, policy in rows.items()}


def rows_of_two(one, other):
    """Return the agreement between two models, and of their means, by name."""
    alive = one["alive"]
    real, other_real = softmax(one["real"]), softmax(other["real"])
    rolled, other_rolled = softmax(one["rolled"][0]), softmax(other["rolled"][0])
    same = real.argmax(-1) == other_real.argmax(-1)
    return {
        "another model at the real state": agreement(other_real, real, alive),
        "rolled, where both agree at the real state": agreement(rolled, real, alive & same),
        "rolled, where they do not": agreement(rolled, real, alive & ~same),
        "another model's roll": agreement(other_rolled, real, alive),
        "mean roll of two, one at the real state": agreement(rolled + other_rolled, real, alive),
        "mean roll of two, mean at the real state": agreement(
            rolled + other_rolled, real + other_real, alive
        ),
    }


def main():
    """Print the means over models, or over neighbouring pairs of them."""
    models = [dict(np.load(path)) for path in sys.argv[1:]]
    found = [rows_of(model) for model in models]
    found += [rows_of_two(one, other) for one, other in pairwise(models)]
    names = list(dict.fromkeys(name for rows in found for name in rows))
    print(f"{'':42}", *(f"{k:5}" for k in STEPS))
    for name in names:
        mean = np.mean([rows[name] for rows in found if name in rows], axis=0)
        print(f"{name:42}", *(f"{mean[k - 1]:5.2f}" for k in STEPS))


if __name__ == "__main__":
    main()
