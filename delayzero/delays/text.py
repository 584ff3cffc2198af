"""The text form of delay laws: ``walk:15``, ``uniform:0-5``, ``4g@10ms``, ``constant:1+wifi``.

The grammar::

    text = term { "+" term }    with    term = name [ ":" arguments ]

After one or more terms in milliseconds comes ``"@" PERIOD "ms" [ ",max=" STEPS ]``. It converts
their sum to steps.
"""

from __future__ import annotations

import math
import re

from delayzero.delays.callback import Callback
from delayzero.delays.independent import Categorical, Constant, PerEpisode, Uniform
from delayzero.delays.latency import (
    MM1,
    Exponential,
    Gamma,
    HyperExponential,
    InSteps,
    Jitter,
    LogNormal,
    Outage,
)
from delayzero.delays.law import (
    DelayError,
    Law,
    check_range,
    check_steps,
    nearest,
    number_text,
    parse_number,
    parse_whole,
)
from delayzero.delays.markov import GilbertElliott, MarkovChain, Walk
from delayzero.delays.settings import DEFAULT_PERIOD, LATENCY_SETTINGS, STEP_SETTINGS
from delayzero.delays.sums import Sum
from delayzero.delays.trace import Trace

LAWS: dict[str, type[Law]] = {
    law.name: law
    for law in (
        Constant,
        Uniform,
        Categorical,
        Walk,
        MarkovChain,
        GilbertElliott,
        Trace,
        Callback,
        PerEpisode,
        Exponential,
        Gamma,
        LogNormal,
        HyperExponential,
        Jitter,
        MM1,
        Outage,
    )
}

_PLUS = re.compile(r"(?<!\d[eE])\+")  # not the plus of 1e+20
_PERIOD = re.compile(r"(?P<period>[^,]*?)ms(?:,max=(?P<limit>.*))?")


def parse(text: str, max_delay: int | None = None) -> Law:
    """Read a delay law from its text.

    Args:
        text: Such as ``"walk:15"``; see the module's grammar and ``docs/delays.md``.
        max_delay: Clips a latency that has no largest delay (:func:`clipped`).

    Returns:
        The law, in steps; ``parse(str(law)) == law``.

    Raises:
        DelayError: The text is invalid; the message names the invalid part and a valid form.
    """
    if not isinstance(text, str):
        raise DelayError(f"expected a text such as 'walk:15', not {text!r}")
    try:
        law = _total(_parse_terms(text))
        return law if max_delay is None else clipped(law, max_delay)
    except DelayError as error:
        raise DelayError(f"delay law '{text}': {error}") from None


def _parse_terms(text: str) -> list[Law]:
    """Parse the terms of a text; return them in steps."""
    steps: list[Law] = []
    latencies: list[Law] = []  # in milliseconds, before their period
    names: list[str] = []  # their texts
    for term in _PLUS.split(text.strip()):
        body, at, period = term.strip().rpartition("@")
        name = (body if at else term).strip()
        if not name:
            raise DelayError("a term is empty; example: 'constant:1+walk:4'")
        law = parse_term(name)
        if law.unit == "steps":
            if at:
                raise DelayError(f"'{name}' is in steps already; remove '@{period}'")
            steps.append(law)
            continue
        latencies.append(law)
        names.append(name)
        if at:
            steps.append(_in_steps(latencies, names, *_read_period(period)))
            latencies, names = [], []
    if latencies:
        if not all(name in LATENCY_SETTINGS for name in names):
            bound = ",max=10" if _total(latencies).largest is None else ""
            raise DelayError(
                f"'{'+'.join(names)}' is in milliseconds; "
                f"give the length of a step: '{'+'.join(names)}@20ms{bound}'"
            )
        steps.append(_in_steps(latencies, names, DEFAULT_PERIOD, None))
    return steps


def _in_steps(latencies: list[Law], names: list[str], period: float, limit: int | None) -> Law:
    """Convert latencies to steps; named settings have a largest delay."""
    law = InSteps(_total(latencies), period, limit)
    if limit is None and all(name in LATENCY_SETTINGS for name in names):
        longest = sum(LATENCY_SETTINGS[name].longest for name in names)
        return InSteps(law.latency, period, math.ceil(longest / period))
    return law


def parse_term(text: str) -> Law:
    """Parse one term: a name and its arguments, without a sum or ``@``."""
    name, colon, arguments = text.partition(":")
    if name in STEP_SETTINGS or name in LATENCY_SETTINGS:
        if colon:
            raise DelayError(f"'{name}' takes no arguments; type '{name}'")
        return STEP_SETTINGS.get(name) or LATENCY_SETTINGS[name].latency
    if name.isdigit():
        raise DelayError(f"'{name}' is a number; a constant delay is 'constant:{name}'")
    if name not in LAWS:
        names = [*LAWS, *STEP_SETTINGS, *LATENCY_SETTINGS]
        raise DelayError(f"unknown name '{name}'{nearest(name, names)}")
    law = LAWS[name]
    try:
        return law.from_arguments(arguments)
    except DelayError as error:
        raise DelayError(f"{error}; example: '{law.example}'") from None


def clipped(law: Law, max_delay: int) -> Law:
    """Clip an unbounded latency in a law, so that the law stays within ``max_delay``.

    Laws that have a largest delay are returned unchanged.

    Raises:
        DelayError: Several parts of a sum are unbounded, or the others exceed ``max_delay``.
    """
    if isinstance(law, InSteps) and law.largest is None:
        return InSteps(law.latency, law.period, max_delay)
    if isinstance(law, Sum) and law.largest is None:
        bounds = [part.largest for part in law.parts if part.largest is not None]
        left = max_delay - int(sum(bounds))
        if len(bounds) < len(law.parts) - 1 or left < 0:
            raise DelayError(
                f"max_delay={max_delay} can't be divided among the parts of '{law}'; "
                f"{law.how_to_bound()}"
            )
        return Sum(tuple(clipped(part, left) for part in law.parts))
    return law


def format_law(law: Law) -> str:
    """Return the shortest text of a law that :func:`parse` reads back as the same law."""
    for name, named in STEP_SETTINGS.items():
        if law == named:
            return name
    if isinstance(law, Sum):
        # The period keeps a named latency separate from a later one.
        return "+".join(
            f"{text}@20ms" if text in LATENCY_SETTINGS else text
            for text in map(format_law, law.parts)
        )
    if isinstance(law, InSteps):
        for name, setting in LATENCY_SETTINGS.items():
            if law == setting.in_steps():
                return name
            if law == setting.in_steps(law.period):
                return f"{name}@{number_text(law.period)}ms"
            if law.latency == setting.latency and law.limit is not None:
                return f"{name}{law.arguments()}"
        return f"{format_law(law.latency)}{law.arguments()}"
    arguments = law.arguments()
    return f"{law.name or type(law).__name__}" + (f":{arguments}" if arguments else "")


def _read_period(text: str) -> tuple[float, int | None]:
    match = _PERIOD.fullmatch(text)
    if match is None:
        raise DelayError(f"'@{text}' should be the length of a step; example: '@20ms,max=10'")
    try:
        period = parse_number(match["period"], "the step in milliseconds")
        check_range("the step in milliseconds", period, 1e-3)
        limit = None if match["limit"] is None else parse_whole(match["limit"], "max")
        if limit is not None:
            check_steps("max", limit)
    except DelayError as error:
        raise DelayError(f"{error}; example: '@20ms,max=10'") from None
    return period, limit


def _total(laws: list[Law]) -> Law:
    return laws[0] if len(laws) == 1 else Sum(tuple(laws))
