"""The responder that ``delays record`` measures against: ``delayzero delays echo``.

It answers well-formed requests (:mod:`delayzero.delays.packets`) and nothing else, at a limited
rate, and listens on the loopback address unless it is given another.
"""

from __future__ import annotations

import errno
import select
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from delayzero.delays.law import DelayError
from delayzero.delays.packets import (
    DEFAULT_PORT,
    LOOPBACK,
    READ_SIZE,
    NetworkError,
    answer,
    resolve,
    shown,
)

RATE = 2000
"""Requests answered per second for each source address: two of the fastest clients."""
TOTAL_RATE = 20_000
"""Requests answered per second for all addresses together."""
SOURCES = 4096
"""Source addresses remembered."""
_SECOND = 10**9  # in nanoseconds


class RateLimit:
    """A limit on requests per second: for each source address, and for all together.

    A source that has been silent may send the requests of one second at once. For each source, one
    number is kept: the time up to which its allowance is spent. If there are too many sources, the
    one that was silent the longest is forgotten. An attacker who has sources forgotten on purpose
    still meets the limit for all together.
    """

    def __init__(
        self,
        rate: int = RATE,
        total_rate: int = TOTAL_RATE,
        sources: int = SOURCES,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """Start with a full allowance.

        Args:
            rate: Requests per second of one source.
            total_rate: Requests per second of all sources.
            sources: The number of sources to remember.
            clock: Returns the time in nanoseconds.
        """
        self._interval, self._total_interval = _SECOND // rate, _SECOND // total_rate
        self._most, self._clock = sources, clock
        self._spent: OrderedDict[str, int] = OrderedDict()  # the most recent source is the last
        self._total_spent = 0

    def __len__(self) -> int:
        """The number of sources remembered."""
        return len(self._spent)

    def allows(self, source: str) -> bool:
        """Whether to answer a request of this source now; if so, it is counted."""
        now = self._clock()
        spent = max(self._spent.get(source, now), now) + self._interval
        total_spent = max(self._total_spent, now) + self._total_interval
        allowed = max(spent, total_spent) <= now + _SECOND
        if allowed:
            self._spent[source], self._total_spent = spent, total_spent
            if len(self._spent) > self._most:
                self._spent.popitem(last=False)
        if source in self._spent:
            self._spent.move_to_end(source)
        return allowed


def open_responder(port: int, host: str = LOOPBACK) -> socket.socket:
    """Open a socket that listens for requests; port 0 takes any free port.

    Raises:
        DelayError: There is no such port.
        NetworkError: The port is in use or not allowed, or the address is not this machine's.
    """
    if not 0 <= port <= 65535:
        raise DelayError(f"the port should be between 0 and 65535, not {port}")
    family, address = resolve(host, port)
    responder = None
    try:
        responder = socket.socket(family, socket.SOCK_DGRAM)
        responder.bind(address)
    except OSError as error:
        if responder is not None:
            responder.close()
        raise NetworkError(_why(host, port, error)) from None
    return responder


def _why(host: str, port: int, error: OSError) -> str:
    """Say why a responder can't listen, and what to type."""
    another = port + 1 if port < 65535 else DEFAULT_PORT
    start = f"can't listen on {shown(host, port)}: "
    if error.errno == errno.EADDRINUSE:
        return f"{start}the port is in use, perhaps by another responder; try --port {another}"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{start}not an address of this machine; for all of its addresses: --host 0.0.0.0"
    if error.errno in (errno.EACCES, errno.EPERM) and port < 1024:
        return f"{start}ports below 1024 need permission; try --port {DEFAULT_PORT}"
    return f"{start}{error.strerror}"


def serve(
    responder: socket.socket,
    stop: threading.Event | None = None,
    limit: RateLimit | None = None,
) -> None:
    """Answer requests within the limit until ``stop`` is set, or forever."""
    limit = RateLimit() if limit is None else limit
    while stop is None or not stop.is_set():
        if not select.select([responder], [], [], 0.1)[0]:
            continue
        try:
            packet, sender = responder.recvfrom(READ_SIZE)
            reply = answer(packet)
            if reply is not None and limit.allows(sender[0]):
                responder.sendto(reply, sender)
        except OSError:
            continue  # this sender can't be reached any more; others may be


def echo(
    port: int = DEFAULT_PORT,
    host: str = LOOPBACK,
    *,
    ready: Callable[[str, int], None] = lambda address, port: None,
    stop: threading.Event | None = None,
) -> None:
    """Run the responder.

    Args:
        port: The port to listen on; 0 takes any free port.
        host: The address of this machine to listen on. By default only this machine can send to
            it; ``0.0.0.0`` means all addresses (IPv4).
        ready: Called once with the numeric address and the port, when the responder listens.
        stop: Stops the responder when set; by default it runs forever.

    Raises:
        DelayError: There is no such port.
        NetworkError: The port is in use or not allowed, or the address is not this machine's.
    """
    with open_responder(port, host) as responder:
        ready(*responder.getsockname()[:2])
        serve(responder, stop)
