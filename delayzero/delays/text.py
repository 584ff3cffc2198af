"""The text form of delay laws: ``walk:15``, ``uniform:0-5``, ``4g@10ms``, ``constant:1+wifi``.

The grammar::

    text  = term { "+" term } with  term = name [ ":" arguments ]
    a term in milliseconds is followed, at once or after further terms in milliseconds,
    by "@" PERIOD "ms" [ ",max=" STEPS ], which turns all of them together into steps
"""

from __future__ import annotations

import re

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
from delayzero.delays.law import DelayError, Law, nearest, number_text, parse_number, parse_whole
from delayzero.delays.settings import DEFAULT_PERIOD, LATENCY_SETTINGS, STEP_SETTINGS
from delayzero.delays.step_laws import (
    Callback,
    Categorical,
    Constant,
    GilbertElliott,
    MarkovChain,
    PerEpisode,
    Uniform,
    Walk,
)
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

_PLUS = re.compile(r"(?<!\de)\+")  # not the plus of 1e+20
_PERIOD = re.compile(r"(?P<period>[^,]*?)ms(?:,max=(?P<limit>.*))?")


def parse(text: str, max_delay: int | None = None) -> Law:
    """Read a delay law from its text.

    Args:
        text: Such as ``"walk:15"``; see the module's grammar and ``docs/delays.md``.
        max_delay: Clips a latency that has no largest delay of its own, as ``,max=`` does.

    Returns:
        The law, in steps; ``parse(str(law)) == law``.

    Raises:
        DelayError: The text is wrong; the message names the part that is, and a valid form.
    """
    if not isinstance(text, str):
        raise DelayError(f"a delay law is a text such as 'walk:15', not {text!r}")
    steps: list[Law] = []
    open_latencies: list[Law] = []
    for term in _PLUS.split(text.strip()):
        body, at, period = term.strip().rpartition("@")
        name = (body if at else term).strip()
        if not name:
            raise DelayError(f"delay law '{text}': a term is empty; valid: 'constant:1+walk:4'")
        setting = LATENCY_SETTINGS.get(name)
        try:
            if setting and not open_latencies and (not at or "max=" not in period):
                steps.append(setting.in_steps(_read_period(period)[0] if at else DEFAULT_PERIOD))
                continue
            law = parse_term(name)
            (open_latencies if law.unit == "ms" else steps).append(law)
            if at:
                if law.unit == "steps":
                    raise DelayError(f"'{name}' is in steps already: leave '@{period}' away")
                steps.append(InSteps(_total(open_latencies), *_read_period(period)))
                open_latencies = []
        except DelayError as error:
            raise DelayError(f"delay law '{text}': {error}") from None
    if open_latencies:
        missing = f"{text}@20ms" + (",max=10" if _total(open_latencies).largest is None else "")
        raise DelayError(
            f"delay law '{text}': '{open_latencies[-1]}' is in milliseconds; "
            f"say how long a step is: '{missing}'"
        )
    return _total([with_limit(law, max_delay) for law in steps])


def parse_term(text: str) -> Law:
    """Read one term of a text: a name and its arguments, with no sum and no ``@``."""
    name, colon, arguments = text.partition(":")
    if name in STEP_SETTINGS or name in LATENCY_SETTINGS:
        if colon:
            raise DelayError(f"'{name}' takes no arguments; valid: '{name}'")
        return STEP_SETTINGS.get(name) or LATENCY_SETTINGS[name].latency
    if name not in LAWS:
        names = [*LAWS, *STEP_SETTINGS, *LATENCY_SETTINGS]
        raise DelayError(f"'{name}' is no delay law{nearest(name, names)}")
    law = LAWS[name]
    try:
        return law.from_arguments(arguments)
    except DelayError as error:
        raise DelayError(f"{error}; valid: '{law.example}'") from None


def with_limit(law: Law, limit: int | None) -> Law:
    """Clip a latency in steps that has no largest delay to ``limit`` steps; others stay."""
    if isinstance(law, InSteps) and law.largest is None and limit is not None:
        return InSteps(law.latency, law.period, limit)
    return law


def format_law(law: Law) -> str:
    """The text of a law, the shortest that :func:`parse` reads back as the same law."""
    for name, known in STEP_SETTINGS.items():
        if law == known:
            return name
    if isinstance(law, Sum):
        return "+".join(format_law(part) for part in law.parts)
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
    return f"{law.name or type(law).__name__}:{arguments}" if arguments else law.name


def _read_period(text: str) -> tuple[float, int | None]:
    match = _PERIOD.fullmatch(text)
    if match is None:
        raise DelayError(f"'@{text}' should be the length of a step, such as '@20ms,max=10'")
    limit = match["limit"]
    period = parse_number(match["period"], "the step in milliseconds")
    return period, None if limit is None else parse_whole(limit, "max")


def _total(laws: list[Law]) -> Law:
    return laws[0] if len(laws) == 1 else Sum(tuple(laws))
