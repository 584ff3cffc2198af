"""Named settings: the delays of real links, from published measurements.

* ``wifi``: one way over WiFi in steps of 20 ms, clipped above 100 ms; 10 000 messages, published
  with RLRD (Bouteiller et al., 2021).
* ``4g``, ``5g``: shifted hyper-exponentials, measured for tele-surgery by NetFI (2026).
* ``starlink``: round trips with a minimum of 20 ms and quartiles near 40, 50 and 60 ms, from a RIPE
  Atlas campaign of 2022.
* ``geo``: round trips over a geostationary satellite, 600 ms with 30 ms of jitter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from delayzero.delays.independent import Categorical
from delayzero.delays.latency import HyperExponential, InSteps, Jitter, LogNormal
from delayzero.delays.law import Law

DEFAULT_PERIOD = 20.0
"""Milliseconds per step of a named latency without ``@...ms``."""


@dataclass(frozen=True)
class LatencySetting:
    """A named latency, clipped at ``longest`` milliseconds."""

    latency: Law
    longest: float

    def in_steps(self, period: float = DEFAULT_PERIOD) -> InSteps:
        """Return the latency in steps of ``period`` milliseconds."""
        steps = InSteps(self.latency, period)  # checks the period
        return InSteps(self.latency, steps.period, math.ceil(self.longest / period))


STEP_SETTINGS: dict[str, Law] = {
    "wifi": Categorical((1, 2, 3, 4, 5, 6), (0.3082, 0.5927, 0.0829, 0.0075, 0.0031, 0.0056)),
}

LATENCY_SETTINGS: dict[str, LatencySetting] = {
    "4g": LatencySetting(HyperExponential((0.8, 0.2), (10.0, 150.0), shift=15.0), longest=500),
    "5g": LatencySetting(HyperExponential((0.8, 0.2), (5.0, 50.0), shift=7.5), longest=200),
    # Quartiles 20, 30 and 40 ms above the minimum: median 30, sigma from their ratio.
    "starlink": LatencySetting(LogNormal(math.log(30), 0.5139, shift=20.0), longest=200),
    "geo": LatencySetting(Jitter(600.0, 30.0), longest=720),
}
