"""What a delay law does to decisions, in figures: how late, how bursty, how many are dropped.

Everything is simulated, with the same streams and schedules that the wrappers use.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from delayzero.delays.channel import resolve_law
from delayzero.delays.latency import InSteps
from delayzero.delays.law import DelayError, Law, check_steps
from delayzero.delays.schedule import make_schedule
from delayzero.delays.stream import DelayStream
from delayzero.delays.sums import Sum
from delayzero.delays.trace import Trace

LONGEST = 2000
"""Above this many steps of delay the simulation would take minutes, and is refused."""

EPISODE = 64
"""Length of an episode, in steps, for laws that begin anew in every episode."""


@dataclass(frozen=True)
class History:
    """One stream of delays and what it made of the decisions; entry t belongs to step t.

    Attributes:
        delays: z_t, the delay of the decision made at t, as the law gave it. Shape ``[steps]``.
        running: tau_t, the time of the decision that ran at t; negative where it was made before
            the history begins. Shape ``[steps]``.
    """

    delays: NDArray[np.int64]
    running: NDArray[np.int64]


@dataclass(frozen=True)
class Characteristics:
    """What a delay law does, over many steps.

    Attributes:
        mean: Mean delay of a decision, in steps.
        p50: Median delay.
        p95: 95th percentile of the delay.
        p99: 99th percentile of the delay.
        largest: The largest delay seen.
        delay_shares: Share of the decisions whose delay is 0, 1, ...; shape ``[largest + 1]``.
        autocorrelation: Correlation of successive delays; None where the delay never changes.
        jump_rate: How often the delay changes by more than 1 from one decision to the next.
        drop_rate: Share of the decisions that never run.
        repeat_rate: Share of the steps that run a decision that has already run.
        hold_mean: Mean number of steps that a decision runs, if it runs.
        hold_p95: 95th percentile of that number.
        hold_largest: The largest such number seen.
        hold_shares: Share of the decisions that ran for 1, 2, ... steps; shape ``[hold_largest]``.
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
        steps: How many steps to run.
        burn_in: Delays to draw and leave unused before the first step.
        seed: Equal seeds give equal histories.

    Returns:
        The history. It begins with decisions from before its beginning, for M steps or so (at
        most 2 M, with ``rule="latest-arrival"``).

    Raises:
        DelayError: The law needs an environment, or has no largest delay.
    """
    law, limit = resolve_law(law, max_delay)
    if law.closed_loop:
        raise DelayError(
            f"'{law}' looks at observations or actions and can't be simulated by itself; "
            "use it in DelayedExecution and look at info['delay']"
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
    """Measure what a law does, over independent streams.

    The default burn-in lets ``walk:25`` forget its beginning (its relaxation time is about 350
    steps). A law that begins anew in every episode gets none, and as many more and shorter streams
    of :data:`EPISODE` steps. A trace is entered at random places, whatever its mode.

    Args:
        law: The law or its text. It must not look at observations or actions.
        rule: Which of the decisions that have arrived runs.
        max_delay: M, if it should be larger than the law's, or the law has none.
        streams: How many independent streams.
        steps: How many decisions of each stream are counted.
        burn_in: How many delays of each stream are left unused before that.
        seed: Equal seeds give equal figures.

    Raises:
        DelayError: The law needs an environment, has no largest delay, or one too large.
    """
    law, limit = resolve_law(law, max_delay)
    if limit > LONGEST:
        raise DelayError(
            f"delays of up to {limit} steps are too long to simulate (at most {LONGEST}); "
            "give a longer step (@...ms) or a smaller max"
        )
    check_steps("streams", streams, low=1)
    check_steps("steps", steps, low=2)
    check_steps("burn_in", burn_in)
    if law.restarts:
        streams, steps, burn_in = streams * max(1, steps // EPISODE), min(steps, EPISODE), 0
    law = _entered_anywhere(law)
    # Before the counted decisions, enough steps for the initial queue to have run; after them, as
    # many as the last one can take to land and then to be replaced.
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
    """Put delays, ages of what runs, and numbers of runs together; each ``[streams, steps]``."""
    p50, p95, p99 = np.quantile(delays, (0.5, 0.95, 0.99), method="inverted_cdf")
    holds = runs[runs > 0]
    if not holds.size:
        raise DelayError("not one of the decisions counted ever ran; give more steps")
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
        # Each decision that runs k times repeats k - 1 times; over a long time the decisions
        # counted here and the steps that run them are equally many.
        repeat_rate=float((holds - 1).sum() / runs.sum()),
        hold_mean=float(holds.mean()),
        hold_p95=int(np.quantile(holds, 0.95, method="inverted_cdf")),
        hold_largest=int(holds.max()),
        hold_shares=tuple((np.bincount(holds)[1:] / holds.size).tolist()),
        effective_lag=float(ages.mean()),
    )


def _autocorrelation(delays: NDArray[np.int64]) -> float | None:
    """The lag-1 autocorrelation over all streams together, around their common mean."""
    centred = delays - delays.mean()
    variance = float((centred**2).mean())
    if variance == 0:
        return None
    return float((centred[:, :-1] * centred[:, 1:]).mean()) / variance


def _entered_anywhere(law: Law) -> Law:
    """The law with its traces entered at random places, so that streams see different parts."""
    if isinstance(law, Trace) and law.mode == "loop":
        return replace(law, mode="offset")
    if isinstance(law, InSteps):
        return replace(law, latency=_entered_anywhere(law.latency))
    if isinstance(law, Sum):
        return replace(law, parts=tuple(_entered_anywhere(part) for part in law.parts))
    return law
