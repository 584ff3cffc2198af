"""One law of every kind, for tests that hold for all of them. They need the files of `traces`."""

import numpy as np

from delayzero.delays import (
    MM1,
    Callback,
    Categorical,
    Constant,
    Exponential,
    Gamma,
    GilbertElliott,
    HyperExponential,
    InSteps,
    Jitter,
    LogNormal,
    MarkovChain,
    Outage,
    PerEpisode,
    Sum,
    Trace,
    Uniform,
    Walk,
    parse,
)


def random_callback(context):
    return int(context.rng.integers(0, 4))


def write_traces(folder):
    rng = np.random.default_rng(5)
    np.save(folder / "steps.npy", rng.integers(0, 7, 100))
    np.save(folder / "ms.npy", rng.uniform(0, 90, 331))
    return folder


STEP_LAWS = {
    "constant": lambda folder: Constant(3),
    "uniform": lambda folder: Uniform(1, 6),
    "categorical": lambda folder: Categorical((4, 0, 2), (0.2, 0.5, 0.3)),
    "walk": lambda folder: Walk(5),
    "walk with options": lambda folder: Walk(9, up=0.3, down=0.1, step=2, start=4),
    "markov": lambda folder: MarkovChain(
        (2, 0, 5), ((0.5, 0.5, 0.0), (0.1, 0.6, 0.3), (0.9, 0.0, 0.1)), start=5
    ),
    "gilbert-elliott": lambda folder: GilbertElliott(1, 6, 0.1, 0.3, 0.05, 0.4, 9),
    "trace": lambda folder: Trace(str(folder / "steps.npy")),
    "trace at an offset": lambda folder: Trace(str(folder / "steps.npy"), "offset"),
    "trace per episode": lambda folder: Trace(str(folder / "steps.npy"), "episode"),
    "per-episode": lambda folder: PerEpisode(Uniform(0, 100)),
    "callback": lambda folder: Callback(random_callback, 3),
    "sum": lambda folder: Sum((Walk(3), Uniform(0, 2), Constant(1))),
    "sum of per-episode": lambda folder: Sum(
        (PerEpisode(Uniform(0, 40)), PerEpisode(Uniform(0, 3)))
    ),
    "sum with callback": lambda folder: Sum((Callback(random_callback, 3), Walk(4))),
    "wifi": lambda folder: parse("wifi"),
}
LATENCIES = {
    "exponential": lambda folder: Exponential(30.0, 5.0),
    "gamma": lambda folder: Gamma(1.9, 38.0, 25.0),
    "lognormal": lambda folder: LogNormal(4.47, 0.47, 3.0),
    "hyperexponential": lambda folder: HyperExponential((0.8, 0.2), (10.0, 150.0), 15.0),
    "jitter": lambda folder: Jitter(50.0, 25.0, 0.7, 5.0),
    "mm1": lambda folder: MM1(15.0, 0.8),
    "outage": lambda folder: Outage(400.0, 300.0),
    "trace in ms": lambda folder: Trace(str(folder / "ms.npy"), "offset"),
    "per-episode in ms": lambda folder: PerEpisode(Gamma(2.0, 200.0)),
    "sum in ms": lambda folder: Sum((Exponential(20.0), Outage(400.0, 300.0), MM1(5.0, 0.5))),
}
IN_STEPS = {
    f"{name}, in steps": lambda folder, make=make: InSteps(make(folder), 20.0, 25)
    for name, make in LATENCIES.items()
}
MIXED = {
    "sum of latencies and steps": lambda folder: Sum(
        (Walk(4), InSteps(Sum((MM1(5.0, 0.8), Outage(400.0, 300.0))), 20.0, 18), Uniform(0, 2))
    ),
    "4g": lambda folder: parse("4g@10ms"),
}
ALL = {**STEP_LAWS, **IN_STEPS, **MIXED}
