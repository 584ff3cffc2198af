"""Measuring the delay of a real network: round trips of UDP packets, written as a trace."""

from __future__ import annotations

import csv
import math
import os
import secrets
import select
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from delayzero.delays.law import DelayError
from delayzero.delays.packets import (
    DEFAULT_PORT,
    LOOPBACK,
    READ_SIZE,
    SHORTEST_PERIOD_MS,
    NetworkError,
    read_reply,
    request,
    resolve,
    shown,
)
from delayzero.files import named

LONGEST_MS = 86_400_000
"""The longest period and timeout: a day."""
MOST_PACKETS = 10**9
_PATIENCE = 3.0  # seconds (or three timeouts) to wait for the first reply


@dataclass(frozen=True)
class Sample:
    """One packet: when it was sent, in seconds since the first, and its round trip."""

    sent_s: float
    delay_ms: float
    lost: bool


@dataclass(frozen=True)
class Recording:
    """The result of a measurement; ``complete`` is False if Ctrl-C stopped it early."""

    samples: tuple[Sample, ...]
    complete: bool

    @property
    def lost(self) -> int:
        """The number of packets without a reply in time."""
        return sum(sample.lost for sample in self.samples)


def parse_address(text: str) -> tuple[str, int]:
    """Read ``HOST:PORT``, or ``[HOST]:PORT`` for an IPv6 address."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise DelayError(f"'{text}' should be [HOST]:PORT for an IPv6 address")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise DelayError(f"'{text}' should be HOST:PORT, such as 192.168.1.20:{DEFAULT_PORT}")
    return host, int(port)


def record(
    host: str,
    port: int,
    *,
    packets: int,
    period_ms: float,
    timeout_ms: float,
    progress: Callable[[int], None] = lambda units: None,
) -> Recording:
    """Measure round trips to a responder (:func:`delayzero.delays.responder.echo`).

    One packet is sent per period, whether or not earlier ones have been answered. A packet without
    a reply in time counts as lost, with the timeout as its delay. Ctrl-C stops the measurement and
    keeps all packets that have been answered or have timed out.

    Args:
        host: The name or address of the responder.
        port: Its port.
        packets: The number of packets to send.
        period_ms: Milliseconds between two packets, at least 1: responders limit their rate. At
            most a day.
        timeout_ms: Milliseconds to wait for each reply, at most a day.
        progress: Called with 1 after each packet sent.

    Raises:
        DelayError: A number is out of range.
        NetworkError: The host can't be resolved or reached, or never replies.
    """
    _check("packets", packets, MOST_PACKETS, "")
    _check("the period", period_ms, LONGEST_MS, " ms (a day)")
    _check("the timeout", timeout_ms, LONGEST_MS, " ms (a day)")
    if period_ms < SHORTEST_PERIOD_MS:
        raise DelayError(
            f"the period should be at least {SHORTEST_PERIOD_MS:g} ms, not {period_ms:g}: "
            "responders limit their rate"
        )
    with _connect(host, port) as sender:
        run = _Run(sender, shown(host, port), port, packets, period_ms / 1e3, timeout_ms / 1e3)
        try:
            run.measure(progress)
            complete = True
        except KeyboardInterrupt:
            complete = False
    return Recording(run.samples(), complete)


def _check(what: str, value: float, most: int, unit: str) -> None:
    """Check a number of a measurement."""
    if not 0 < value <= most:
        bounds = f"at most {most}{unit}" if value > most else "above 0"
        raise DelayError(f"{what} should be {bounds}, not {value}")


class _Run:
    """One measurement: when packets were sent, and which replies came."""

    def __init__(
        self,
        sender: socket.socket,
        target: str,
        port: int,
        packets: int,
        period: float,
        timeout: float,
    ) -> None:
        self._socket, self._target, self._port = sender, target, port
        self._packets, self._period, self._timeout = packets, period, timeout
        self._token = secrets.token_bytes(8)
        self._sent: list[float] = []
        self._round_trips: dict[int, float] = {}
        self._ended = math.inf

    def measure(self, progress: Callable[[int], None]) -> None:
        """Send all packets and wait for the replies."""
        begin = due = time.perf_counter()
        patience = max(_PATIENCE, 3 * self._timeout)
        try:
            while True:
                now = time.perf_counter()
                if not self._round_trips and now - begin > patience:
                    break
                if len(self._sent) < self._packets and now >= due:
                    self._send()
                    progress(1)
                    self._receive(0.0)  # read replies even if the period is tiny
                    due = max(due + self._period, now)  # no burst after a pause
                elif len(self._sent) == self._packets and self._all_settled(now):
                    break
                else:
                    self._receive(self._until(now, due))
        finally:
            self._ended = time.perf_counter()
        if not self._round_trips:
            raise self._no_reply()

    def samples(self) -> tuple[Sample, ...]:
        """Return all packets that were answered or timed out; none if no reply came at all."""
        if not self._round_trips:
            return ()
        samples = []
        for number, sent in enumerate(self._sent):
            since_begin, round_trip = sent - self._sent[0], self._round_trips.get(number)
            if round_trip is not None and round_trip <= self._timeout:
                samples.append(Sample(since_begin, round_trip * 1e3, False))
            elif round_trip is not None or self._ended - sent >= self._timeout:
                samples.append(Sample(since_begin, self._timeout * 1e3, True))
        return tuple(samples)

    def _send(self) -> None:
        number, now = len(self._sent), time.perf_counter()
        self._sent.append(now)
        try:
            self._socket.send(request(self._token, number, now))
        except ConnectionRefusedError:
            self._refused()
        except OSError as error:
            if not self._round_trips:
                raise NetworkError(f"can't send to {self._target}: {error.strerror}") from None
            # Once replies have come, a link that fails is part of the measurement: a lost packet.

    def _receive(self, seconds: float) -> None:
        """Wait for a reply for at most ``seconds``, and record it."""
        if not select.select([self._socket], [], [], seconds)[0]:
            return
        try:
            reply = read_reply(self._socket.recv(READ_SIZE))
        except ConnectionRefusedError:
            self._refused()
            return
        except OSError:
            return
        now = time.perf_counter()
        if reply is None or reply.token != self._token or reply.number >= len(self._sent):
            return
        if reply.sent == self._sent[reply.number]:
            self._round_trips.setdefault(reply.number, now - reply.sent)

    def _until(self, now: float, due: float) -> float:
        """Return the seconds until there is something to do besides receiving."""
        if len(self._sent) < self._packets:
            return max(0.0, due - now)
        return max(0.0, self._sent[-1] + self._timeout - now)

    def _all_settled(self, now: float) -> bool:
        all_replied = len(self._round_trips) == self._packets
        return all_replied or now - self._sent[-1] >= self._timeout

    def _refused(self) -> None:
        if not self._round_trips:
            raise self._no_reply()

    def _no_reply(self) -> NetworkError:
        host = "" if self._socket.getpeername()[0] == LOOPBACK else "--host ADDRESS "
        return NetworkError(
            f"no reply from {self._target}: "
            f"is `delayzero delays echo {host}--port {self._port}` running there?"
        )


def write_trace(samples: tuple[Sample, ...], path: Path) -> None:
    """Write a measurement as CSV for ``trace:FILE@...ms``, atomically.

    The columns are ``sent_s``, ``delay_ms`` and ``lost`` (0 or 1).
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with named(path), part.open("w", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(("sent_s", "delay_ms", "lost"))
            for sample in samples:
                rows.writerow((f"{sample.sent_s:.6f}", f"{sample.delay_ms:.4f}", int(sample.lost)))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _connect(host: str, port: int) -> socket.socket:
    family, address = resolve(host, port)
    sender = socket.socket(family, socket.SOCK_DGRAM)
    try:
        sender.connect(address)
    except OSError as error:
        sender.close()
        raise NetworkError(f"can't reach {shown(host, port)}: {error.strerror}") from None
    return sender
