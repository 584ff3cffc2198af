"""``delayzero delays``: look at delay laws, and measure the delay of a real network."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from delayzero.arguments import Parser, UsageError, check_verb, positive, whole
from delayzero.delays import demo
from delayzero.delays.channel import resolve_law
from delayzero.delays.latency import InSteps
from delayzero.delays.law import DelayError, Law
from delayzero.delays.network import (
    DEFAULT_PORT,
    Recording,
    echo,
    parse_address,
    record,
    write_trace,
)
from delayzero.delays.schedule import RULES
from delayzero.delays.settings import DEFAULT_PERIOD, LATENCY_SETTINGS, STEP_SETTINGS
from delayzero.delays.statistics import Characteristics, characterise
from delayzero.delays.text import LAWS, parse
from delayzero.delays.trace import Trace
from delayzero.extras import MissingExtraError
from delayzero.progress import progress


def main(arguments: Sequence[str]) -> int:
    """The verb ``delays``."""
    parser = _parser()
    if not arguments:
        parser.print_help()
        return 0
    if not arguments[0].startswith("-"):
        check_verb(arguments[0], _VERBS, "delayzero delays")
    options = parser.parse_args(arguments)
    _VERBS[options.verb](options)
    return 0


def _parser() -> Parser:
    parser = Parser(prog="delayzero delays", description="Delay laws and measured delays.")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=Parser)

    show = verbs.add_parser("show", help="what a law does to decisions: figures and a picture")
    show.add_argument("law", metavar="LAW", help="such as walk:15; see `delayzero delays list`")
    show.add_argument(
        "--max-delay", metavar="M", type=whole(0), help="length of the queue, in steps"
    )
    show.add_argument("--rule", default=RULES[0], help=f"which decision runs: {', '.join(RULES)}")
    show.add_argument("--seed", metavar="S", type=whole(0), default=0, help="of the simulation")
    show.add_argument("--save", metavar="FILE.png", help="picture; named after the law by default")

    verbs.add_parser("list", help="all laws, with an example of each")

    demo.add_options(verbs.add_parser("demo", help="CartPole: ignoring the delay, and predicting"))

    measure = verbs.add_parser("record", help="measure round trips to a host, as a trace")
    measure.add_argument("address", metavar="HOST:PORT", help="where `delays echo` runs")
    measure.add_argument("--packets", metavar="N", type=whole(1), default=1000, help="how many")
    measure.add_argument(
        "--period", metavar="MS", type=positive, default=20.0, help="milliseconds between packets"
    )
    measure.add_argument(
        "--timeout", metavar="MS", type=positive, default=1000.0, help="then a packet is lost"
    )
    measure.add_argument("--save", metavar="FILE.csv", default="trace.csv", help="the trace")
    measure.add_argument("--overwrite", action="store_true", help="replace the file if it exists")

    respond = verbs.add_parser("echo", help="answer the packets of `delays record`")
    respond.add_argument("--port", metavar="N", type=whole(0, 65535), default=DEFAULT_PORT)
    respond.add_argument("--host", metavar="H", default="0.0.0.0", help="the address to listen at")
    return parser


def _show(options: Any) -> None:
    law, limit = resolve_law(options.law, options.max_delay)
    arguments: dict[str, Any] = {"rule": options.rule, "max_delay": limit, "seed": options.seed}
    values = characterise(law, **arguments)
    print(f"{law}, rule {options.rule}, M = {limit}\n")
    print(statistics_table(values))
    try:
        from delayzero.delays.pictures import law_picture, picture_name

        figure = law_picture(law, characteristics=values, **arguments)
    except MissingExtraError as error:
        print(f"\nno picture: {error}")
        return
    path = Path(options.save or picture_name(law))
    try:
        figure.savefig(path)
    except ValueError as error:  # a suffix that is no picture's
        raise UsageError(f"--save {path}: {error}") from None
    print(f"\npicture: {path}")


def statistics_table(values: Characteristics) -> str:
    """The figures of a law as aligned text: what, how much, and what it means."""
    correlation = values.autocorrelation
    rows = [
        ("mean delay", f"{values.mean:.2f}", "steps"),
        ("p50, p95, p99", f"{values.p50}, {values.p95}, {values.p99}", "steps"),
        ("largest seen", f"{values.largest}", "steps"),
        (
            "autocorrelation",
            "-" if correlation is None else f"{correlation:.3f}",
            "the delay never changes" if correlation is None else "of successive delays",
        ),
        ("jumps", f"{values.jump_rate:.1%}", "of the delays differ by more than 1 from the last"),
        ("dropped", f"{values.drop_rate:.1%}", "of the decisions never run"),
        ("repeated", f"{values.repeat_rate:.1%}", "of the steps run a decision again"),
        (
            "hold mean, p95, max",
            f"{values.hold_mean:.2f}, {values.hold_p95}, {values.hold_largest}",
            "steps that a decision runs, if it does",
        ),
        ("effective lag", f"{values.effective_lag:.2f}", "steps, mean age of what runs"),
    ]
    return _aligned(rows)


def _list(options: Any) -> None:
    print("laws\n")
    laws = [(law.example, _summary(law)) for law in LAWS.values()]
    print(_aligned([*laws, ("constant:1+walk:4", "A sum of delays, one after the other")]))
    print("\nnamed settings\n")
    settings = [(name, f"{law.name}:{law.arguments()}") for name, law in STEP_SETTINGS.items()]
    for name, setting in LATENCY_SETTINGS.items():
        settings.append((name, f"{setting.latency}{setting.in_steps().arguments()}"))
    print(_aligned(settings))
    print(f"\nrules (--rule): {', '.join(RULES)}")
    print(
        f"A step is {DEFAULT_PERIOD:g} ms for named latencies unless you say another: 4g@10ms.\n"
        "See what one does: delayzero delays show walk:15"
    )


def _summary(law: type[Law]) -> str:
    """The first line of a law's docstring, without its example."""
    first = (law.__doc__ or "").strip().partition("\n")[0]
    return first.partition(": ``")[0].replace("``", "").rstrip(".")


def _record(options: Any) -> None:
    host, port = parse_address(options.address)
    path = Path(options.save)
    _check_target(path, options.overwrite)
    with progress(f"packets to {host}:{port}", options.packets) as advance:
        recording = record(
            host,
            port,
            packets=options.packets,
            period_ms=options.period,
            timeout_ms=options.timeout,
            progress=advance,
        )
    if not recording.samples:
        raise UsageError("stopped before anything was measured; nothing is saved")
    write_trace(recording.samples, path)
    print(_recorded(recording, path, options.period))


def _check_target(path: Path, overwrite: bool) -> None:
    """Fail before the measurement where the trace could not be written after it."""
    if path.suffix != ".csv":
        raise UsageError(f"--save {path} should end in .csv")
    if not path.parent.is_dir():
        raise UsageError(f"--save {path}: there is no folder '{path.parent}'")
    if path.exists() and not overwrite:
        raise UsageError(f"'{path}' exists; give another name with --save, or --overwrite")


def _recorded(recording: Recording, path: Path, period: float) -> str:
    """What was measured, and the line to use it."""
    delays = sorted(sample.delay_ms for sample in recording.samples)
    middle, late = delays[len(delays) // 2], delays[int(0.99 * (len(delays) - 1))]
    stopped = "" if recording.complete else "stopped early; "
    law = InSteps(Trace(str(path)), period)
    return (
        f"{stopped}{len(delays)} packets, {recording.lost} lost; "
        f"round trip p50 {middle:.2f} ms, p99 {late:.2f} ms\n"
        f"saved {path}; look at it: delayzero delays show {shlex.quote(_text(law))}"
    )


def _text(law: Law) -> str:
    text = str(law)
    if parse(text) != law:
        raise DelayError(f"'{text}' can't be read back; save the trace under a plainer name")
    return text


def _echo(options: Any) -> None:
    def ready(port: int) -> None:
        print(
            f"answering at {options.host}:{port}; on the other machine: "
            f"delayzero delays record THIS_HOST:{port}   (Ctrl-C ends)",
            flush=True,
        )

    try:
        echo(options.port, options.host, ready=ready)
    except KeyboardInterrupt:
        print("ended")


def _aligned(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  "
        + "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


_VERBS = {"show": _show, "list": _list, "demo": demo.show, "record": _record, "echo": _echo}
