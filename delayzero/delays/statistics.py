"""Statistics of delay laws: how late decisions run, how bursty delays are, how many are dropped.

All numbers are simulated, with the streams and schedules that the wrappers use.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from delayzero.delays.channel import resolve_law
from delayzero.delays.latency import InSteps
from delayzero.delays.law import LONGEST, DelayError, Law, check_steps
from delayzero.delays.schedule import make_schedule
from delayzero.delays.stream import DelayStream
from delayzero.delays.sums import Sum
from delayzero.delays.trace import Trace

"""The largest delay in steps that is simulated; longer ones would take minutes."""

EPISODE = 64
"""Length of an episode, in steps, for laws that restart in every episode."""


@dataclass(frozen=True)
class History:
    """One stream of delays and the decisions that ran; entry t belongs to step t.

    Attributes:
        delays: z_t, the delay of the decision made at t, as drawn from the law, ``[steps]``.
        running: tau_t, the time of the decision that ran at t, ``[steps]``; negative if it was made
            before the history begins.
    """

    delays: NDArray[np.int64]
    running: NDArray[np.int64]


@dataclass(frozen=True)
class Characteristics:
    """Statistics of a delay law over many steps.

    Attributes:
        mean: Mean delay of a decision, in steps.
        p50: Median delay.
        p95: 95th percentile of the delay.
        p99: 99th percentile of the delay.
        largest: The largest delay drawn.
        delay_shares: Share of the decisions whose delay is 0, 1, ..., ``[largest + 1]``.
        autocorrelation: Correlation of successive delays; None if the delay never changes.
        jump_rate: Share of the delays that differ from the one before by more than 1.
        drop_rate: Share of the decisions that never run.
        repeat_rate: Share of the steps that run a decision again.
        hold_mean: Mean number of steps for which a decision runs, if it runs.
        hold_p95: 95th percentile of that number.
        hold_largest: The largest such number.
        hold_shares: Share of those decisions that run for 1, 2, ... steps, ``[hold_largest]``.
        effective_lag: Mean age, in steps, of the decision that runs.
    """

    mean: float
    p50: int
    p95: int
    p99: int
    largest: int
    delay_shares: tuple[float, ...]
    autocorrelation: float | None
    jump_rate: float
    drop_rate: float
    repeat_rate: float
    hold_mean: float
    hold_p95: int
    hold_largest: int
    hold_shares: tuple[float, ...]
    effective_lag: float


def simulate(
    law: Law | str,
    *,
    rule: str = "latest-generated",
    max_delay: int | None = None,
    steps: int,
    burn_in: int = 0,
    seed: int = 0,
) -> History:
    """Run one stream of delays through a schedule.

    Args:
        law: The law or its text. It must not look at observations or actions.
        rule: Which of the decisions that have arrived runs.
        max_delay: M, if it should be larger than the law's, or the law has none.
        steps: The number of steps to run.
        burn_in: The number of delays to draw and discard before the first step.
        seed: Equal seeds give equal histories.

    Returns:
        The history. Decisions from before its start run during the first M steps or so (up to 2 M
        with ``rule="latest-arrival"``).

    Raises:
        DelayError: The law needs an environment, or has no largest delay.
    """
    law, limit = resolve_law(law, max_delay)
    if law.closed_loop:
        raise DelayError(
            f"'{law}' looks at observations or actions and can't be simulated without an "
            "environment; use it in DelayedExecution and read info['delay']"
        )
    stream = DelayStream(law, seed, limit)
    for _ in range(burn_in):
        stream.next()
    delays = [stream.next() for _ in range(steps)]
    schedule = make_schedule(rule, limit)
    running = [schedule.push(delay) for delay in delays]
    return History(np.array(delays, np.int64), np.array(running, np.int64))


def characterise(
    law: Law | str,
    *,
    rule: str = "latest-generated",
    max_delay: int | None = None,
    streams: int = 64,
    steps: int = 2048,
    burn_in: int = 2048,
    seed: int = 0,
) -> Characteristics:
    """Simulate independent streams of a law and return their statistics.

    The default burn-in lets ``walk:25`` forget its start (its relaxation time is about 350 steps).
    A law that restarts in every episode gets no burn-in, and instead more streams of only
    :data:`EPISODE` steps. Traces are entered at random places, whatever their mode.

    Args:
        law: The law or its text. It must not look at observations or actions.
        rule: Which of the decisions that have arrived runs.
        max_delay: M, if it should be larger than the law's, or the law has none.
        streams: The number of independent streams.
        steps: The number of decisions counted per stream.
        burn_in: The number of delays per stream to discard before those.
        seed: Equal seeds give equal statistics.

    Raises:
        DelayError: The law needs an environment, or its largest delay is unbounded or too large.
    """
    law, limit = resolve_law(law, max_delay)
    if limit > LONGEST:
        raise DelayError(
            f"delays of up to {limit} steps are too long to simulate (at most {LONGEST}); "
            "use longer steps (@...ms) or a smaller max"
        )
    check_steps("streams", streams, low=1)
    check_steps("steps", steps, low=2)
    check_steps("burn_in", burn_in)
    if law.restarts:
        streams, steps, burn_in = streams * max(1, steps // EPISODE), min(steps, EPISODE), 0
    law = _entered_anywhere(law)
    # Before the counted decisions: enough steps to run the initial queue. After them: enough for
    # the last one to arrive and to be replaced.
    window = slice(2 * limit, 2 * limit + steps)
    total = 2 * limit + steps + 2 * (limit + 1)
    delays = np.empty((streams, steps), np.int64)
    ages = np.empty((streams, steps), np.int64)
    runs = np.empty((streams, steps), np.int64)
    seeds = np.random.SeedSequence(seed).generate_state(streams, np.uint64)
    for row, stream_seed in enumerate(seeds.tolist()):
        history = simulate(
            law, rule=rule, max_delay=limit, steps=total, burn_in=burn_in, seed=stream_seed
        )
        delays[row] = history.delays[window]
        ages[row] = (np.arange(total) - history.running)[window]
        runs[row] = np.bincount(history.running[history.running >= 0], minlength=total)[window]
    return _summary(delays, ages, runs)


def _summary(
    delays: NDArray[np.int64], ages: NDArray[np.int64], runs: NDArray[np.int64]
) -> Characteristics:
    """Summarise delays, ages of what runs, and numbers of runs, each ``[streams, steps]``."""
    p50, p95, p99 = np.quantile(delays, (0.5, 0.95, 0.99), method="inverted_cdf")
    holds = runs[runs > 0]
    if not holds.size:
        raise DelayError("none of the counted decisions ran; use more steps")
    return Characteristics(
        mean=float(delays.mean()),
        p50=int(p50),
        p95=int(p95),
        p99=int(p99),
        largest=int(delays.max()),
        delay_shares=tuple((np.bincount(delays.ravel()) / delays.size).tolist()),
        autocorrelation=_autocorrelation(delays),
        jump_rate=float((np.abs(np.diff(delays, axis=1)) > 1).mean()),
        drop_rate=float((runs == 0).mean()),
        # A decision that runs k times repeats k - 1 times. In the long run there are as many
        # counted decisions as steps that run them.
        repeat_rate=float((holds - 1).sum() / runs.sum()),
        hold_mean=float(holds.mean()),
        hold_p95=int(np.quantile(holds, 0.95, method="inverted_cdf")),
        hold_largest=int(holds.max()),
        hold_shares=tuple((np.bincount(holds)[1:] / holds.size).tolist()),
        effective_lag=float(ages.mean()),
    )


def _autocorrelation(delays: NDArray[np.int64]) -> float | None:
    """Return the lag-1 autocorrelation over all streams, around their common mean."""
    centred = delays - delays.mean()
    variance = float((centred**2).mean())
    if variance == 0:
        return None
    return float((centred[:, :-1] * centred[:, 1:]).mean()) / variance


def _entered_anywhere(law: Law) -> Law:
    """Make traces start at random places, so that streams cover different parts."""
    if isinstance(law, Trace) and law.mode == "loop":
        return replace(law, mode="offset")
    if isinstance(law, InSteps):
        return replace(law, latency=_entered_anywhere(law.latency))
    if isinstance(law, Sum):
        return replace(law, parts=tuple(_entered_anywhere(part) for part in law.parts))
    return law
