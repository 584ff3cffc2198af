"""``delayzero delays``: statistics and pictures of delay laws; the delay of a real network."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from delayzero.arguments import Parser, UsageError, check_verb, positive, whole
from delayzero.delays import demo
from delayzero.delays.channel import resolve_law
from delayzero.delays.latency import InSteps
from delayzero.delays.law import DelayError, Law
from delayzero.delays.network import Recording, parse_address, record, write_trace
from delayzero.delays.packets import DEFAULT_PORT, LOOPBACK, is_loopback, shown
from delayzero.delays.pictures import law_picture, picture_name
from delayzero.delays.responder import RATE, TOTAL_RATE, echo
from delayzero.delays.schedule import RULES
from delayzero.delays.settings import DEFAULT_PERIOD, LATENCY_SETTINGS, STEP_SETTINGS
from delayzero.delays.statistics import Characteristics, characterise
from delayzero.delays.text import LAWS, parse
from delayzero.delays.trace import Trace
from delayzero.files import named
from delayzero.progress import progress

TRACE_FORMAT = """\
trace files:
  A CSV file whose first line names the columns. The delays are in one column:
  delay_steps (whole steps; use trace:FILE) or delay_ms (milliseconds; use
  trace:FILE@20ms, where a step takes 20 ms). Other columns are ignored. There
  is one line per decision, in order, and after the last the trace begins again:

    delay_ms
    31.5
    48.0
"""

RECORDED_FORMAT = """\
the file:
  A CSV file with the columns sent_s (seconds since the first packet), delay_ms
  (round trip in milliseconds; the timeout for a lost packet) and lost (0 or 1).
  `delayzero delays show trace:FILE@20ms` reads it as a delay law.
"""


def main(arguments: Sequence[str]) -> int:
    """Run the verb ``delays``."""
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

    _show_options(
        verbs.add_parser(
            "show",
            help="print the statistics of a law; draw it with --save",
            epilog=TRACE_FORMAT,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
    )
    verbs.add_parser("list", help="list all laws, with an example of each")
    demo.add_options(
        verbs.add_parser("demo", help="balance CartPole under delay, ignoring and predicting it")
    )
    _record_options(
        verbs.add_parser(
            "record",
            help="measure round trips to a host and write them as a trace",
            epilog=RECORDED_FORMAT,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
    )
    respond = verbs.add_parser("echo", help="answer the packets of `delays record`")
    respond.add_argument(
        "--port",
        metavar="N",
        type=whole(0, 65535),
        default=DEFAULT_PORT,
        help="port to listen on; 0 takes a free one (%(default)s)",
    )
    respond.add_argument(
        "--host",
        metavar="ADDRESS",
        default=LOOPBACK,
        help="address to listen on; 0.0.0.0 for all, open to other machines (%(default)s, "
        "this machine only)",
    )
    return parser


def _show_options(parser: Parser) -> None:
    parser.add_argument(
        "law", metavar="LAW", help="a delay law such as walk:15; see `delayzero delays list`"
    )
    parser.add_argument(
        "--max-delay",
        metavar="M",
        type=whole(0),
        help="length of the queue in steps (the law's largest delay)",
    )
    parser.add_argument(
        "--rule", default=RULES[0], help=f"which decision runs: {', '.join(RULES)} (%(default)s)"
    )
    parser.add_argument(
        "--seed", metavar="S", type=whole(0), default=0, help="seed of the simulation (%(default)s)"
    )
    parser.add_argument("--save", metavar="PATH", help="draw the law into this file (.png, .svg)")


def _record_options(parser: Parser) -> None:
    parser.add_argument(
        "address", metavar="HOST:PORT", help="the machine where `delayzero delays echo` runs"
    )
    parser.add_argument(
        "--packets",
        metavar="N",
        type=whole(1),
        default=1000,
        help="number of packets (%(default)s)",
    )
    parser.add_argument(
        "--period",
        metavar="MS",
        type=positive,
        default=20.0,
        help="milliseconds between packets, at least 1 (%(default)s)",
    )
    parser.add_argument(
        "--timeout",
        metavar="MS",
        type=positive,
        default=1000.0,
        help="milliseconds until a packet without a reply counts as lost (%(default)s)",
    )
    parser.add_argument(
        "--save", metavar="PATH", default="trace.csv", help="file for the trace (%(default)s)"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace the file if it exists")


def _show(options: Any) -> None:
    law, limit = resolve_law(options.law, options.max_delay)
    arguments: dict[str, Any] = {"rule": options.rule, "max_delay": limit, "seed": options.seed}
    values = characterise(law, **arguments)
    print(f"{law}, rule {options.rule}, M = {limit}\n")
    print(statistics_table(values))
    if options.save is None:
        print(f"\nfor a picture, add: --save {picture_name(law)}")
        return
    figure = law_picture(law, characteristics=values, **arguments)
    try:
        with named(options.save):
            figure.savefig(options.save)
    except ValueError as error:  # an unknown picture format
        raise UsageError(f"--save {options.save}: {error}") from None
    print(f"\npicture: {options.save}")


def statistics_table(values: Characteristics) -> str:
    """Format the statistics of a law as aligned text: name, value and meaning."""
    correlation = values.autocorrelation
    rows = [
        ("mean delay", f"{values.mean:.2f}", "steps"),
        ("p50, p95, p99", f"{values.p50}, {values.p95}, {values.p99}", "steps"),
        ("largest drawn", f"{values.largest}", "steps"),
        (
            "autocorrelation",
            "-" if correlation is None else f"{correlation:.3f}",
            "the delay never changes" if correlation is None else "of successive delays",
        ),
        (
            "jumps",
            f"{values.jump_rate:.1%}",
            "of the delays differ from the one before by more than 1",
        ),
        ("dropped", f"{values.drop_rate:.1%}", "of the decisions never run"),
        ("repeated", f"{values.repeat_rate:.1%}", "of the steps run a decision again"),
        (
            "hold mean, p95, max",
            f"{values.hold_mean:.2f}, {values.hold_p95}, {values.hold_largest}",
            "steps for which a decision runs, if it runs",
        ),
        (
            "effective lag",
            f"{values.effective_lag:.2f}",
            "steps, the mean age of the decision that runs",
        ),
    ]
    return _aligned(rows)


def _list(options: Any) -> None:
    print("laws\n")
    laws = [(law.example, _summary(law)) for law in LAWS.values()]
    print(_aligned([*laws, ("constant:1+walk:4", "The sum of several delays")]))
    print("\nnamed settings\n")
    settings = [(name, f"{law.name}:{law.arguments()}") for name, law in STEP_SETTINGS.items()]
    for name, setting in LATENCY_SETTINGS.items():
        settings.append((name, f"{setting.latency}{setting.in_steps().arguments()}"))
    print(_aligned(settings))
    print(f"\nrules (--rule): {', '.join(RULES)}")
    print(
        f"Named latencies assume steps of {DEFAULT_PERIOD:g} ms; to change that: 4g@10ms\n"
        "To see what a law does: delayzero delays show walk:15"
    )


def _summary(law: type[Law]) -> str:
    """Return the first line of a law's docstring, without its example."""
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
        raise UsageError("stopped before the first measurement; nothing was saved")
    write_trace(recording.samples, path)
    print(_recorded(recording, path, options.period))


def _check_target(path: Path, overwrite: bool) -> None:
    """Fail before the measurement if the trace can't be written after it."""
    if path.suffix != ".csv":
        raise UsageError(f"--save {path} should end in .csv")
    if not path.parent.is_dir():
        raise UsageError(f"--save {path}: there is no folder '{path.parent}'")
    if path.exists() and not overwrite:
        raise UsageError(f"'{path}' exists; choose another file with --save, or add --overwrite")


def _recorded(recording: Recording, path: Path, period: float) -> str:
    """Summarise a measurement, with the command that shows it."""
    delays = [sample.delay_ms for sample in recording.samples]
    middle, late = np.quantile(delays, (0.5, 0.99), method="inverted_cdf")
    stopped = "" if recording.complete else "stopped early; "
    law = InSteps(Trace(str(path)), period)
    return (
        f"{stopped}{len(delays)} packets, {recording.lost} lost; "
        f"round trip p50 {middle:.2f} ms, p99 {late:.2f} ms\n"
        f"saved {path}; to see it: delayzero delays show {shlex.quote(_text(law))}"
    )


def _text(law: Law) -> str:
    text = str(law)
    if parse(text) != law:
        raise DelayError(f"'{text}' can't be read back; save the trace under a simpler name")
    return text


def _echo(options: Any) -> None:
    def ready(address: str, port: int) -> None:
        print(_listening(address, port), flush=True)

    try:
        echo(options.port, options.host, ready=ready)
    except KeyboardInterrupt:
        print("stopped")


def _listening(address: str, port: int) -> str:
    """Say where the responder listens, who can reach it, and how to measure."""
    where = shown(address, port)
    if is_loopback(address):
        return (
            f"answering on {where}, for this machine only (others: --host 0.0.0.0); "
            f"to measure: delayzero delays record {where}   (stop with Ctrl-C)"
        )
    return (
        f"answering on {where}; on the other machine: "
        f"delayzero delays record THIS_HOST:{port}   (stop with Ctrl-C)\n"
        f"open to every machine that can reach UDP port {port}: it sends their measuring packets "
        f"back (at most {RATE} per second and address, {TOTAL_RATE} in all) and does nothing else"
    )


def _aligned(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  "
        + "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


_VERBS = {"show": _show, "list": _list, "demo": demo.show, "record": _record, "echo": _echo}
