"""The packets of ``delays record`` and ``delays echo``, and the addresses they go to.

A packet has 28 bytes, in network byte order:

* 4: the mark ``DZ1?`` of a request or ``DZ1!`` of a reply; 1 is the version of this format;
* 8: the random token of a measurement;
* 8: the number of the packet, an unsigned integer;
* 8: the sender's clock in seconds, a finite float.

A reply is its request with the other mark. So no reply is longer than its request, and two
responders never answer each other.
"""

from __future__ import annotations

import ipaddress
import math
import socket
import struct
from typing import Any, NamedTuple

DEFAULT_PORT = 9720
LOOPBACK = "127.0.0.1"
SHORTEST_PERIOD_MS = 1.0
"""The fastest that ``delays record`` sends. The responder allows for it."""
_REQUEST, _REPLY = b"DZ1?", b"DZ1!"
_PACKET = struct.Struct("!4s8sQd")
READ_SIZE = _PACKET.size + 1
"""Bytes to read of a packet: one more than it should have shows that it is too long."""


class NetworkError(OSError):
    """A network operation failed; the message says what to try."""


class Content(NamedTuple):
    """What a packet carries besides its mark."""

    token: bytes
    number: int
    sent: float


def request(token: bytes, number: int, now: float) -> bytes:
    """Return the request with these contents."""
    return _PACKET.pack(_REQUEST, token, number, now)


def answer(packet: bytes) -> bytes | None:
    """Return the reply to a well-formed request, which is as long. Otherwise None."""
    return None if _content(packet, _REQUEST) is None else _REPLY + packet[len(_REPLY) :]


def read_reply(packet: bytes) -> Content | None:
    """Return the content of a well-formed reply. Otherwise None."""
    return _content(packet, _REPLY)


def _content(packet: bytes, wanted: bytes) -> Content | None:
    if len(packet) != _PACKET.size:
        return None
    mark, token, number, sent = _PACKET.unpack(packet)
    return Content(token, number, sent) if mark == wanted and math.isfinite(sent) else None


def resolve(host: str, port: int) -> tuple[socket.AddressFamily, Any]:
    """Return the family and the address of a host, IPv4 if it has one.

    Raises:
        NetworkError: The host can't be found.
    """
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        raise NetworkError(f"the host '{host}' can't be found; check its name") from None
    addresses.sort(key=lambda entry: entry[0] != socket.AF_INET)
    family, *_, address = addresses[0]
    return family, address


def is_loopback(address: str) -> bool:
    """Whether only this machine can send to a numeric address."""
    return ipaddress.ip_address(address).is_loopback


def shown(host: str, port: int) -> str:
    """Return ``HOST:PORT`` as ``delays record`` reads it, with brackets for IPv6."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
