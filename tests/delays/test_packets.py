import math
import random

import pytest

from delayzero.delays.network import parse_address
from delayzero.delays.packets import answer, is_loopback, read_reply, request, shown

TOKEN = b"8 bytes."


def test_a_reply_has_the_content_of_its_request_and_its_length():
    sent = request(TOKEN, 7, 1.5)
    reply = answer(sent)
    assert len(reply) == len(sent) == 28
    assert read_reply(reply) == (TOKEN, 7, 1.5)


def test_a_request_is_no_reply_and_a_reply_no_request():
    sent = request(TOKEN, 7, 1.5)
    assert read_reply(sent) is None
    assert answer(answer(sent)) is None  # two responders never answer each other


def malformed(good):
    rng = random.Random(0)
    mark, rest = good[:4], good[4:]
    yield from (b"", mark, good[:-1], good + b"x", 2 * good, bytes(len(good)))
    yield from (other + rest for other in (b"DZ0" + mark[3:], b"DZ2" + mark[3:], b"dz1" + mark[3:]))
    yield b"GET / HTTP/1.1 ............."
    for clock in (math.nan, math.inf, -math.inf):
        yield mark + request(TOKEN, 7, clock)[4:]
    for _ in range(1000):
        yield rng.randbytes(rng.choice((len(good), rng.randrange(2000))))


def test_anything_else_is_malformed():
    good = request(TOKEN, 7, 1.5)
    assert [packet for packet in malformed(good) if answer(packet) is not None] == []
    assert [packet for packet in malformed(answer(good)) if read_reply(packet) is not None] == []


@pytest.mark.parametrize(
    ("address", "loopback"),
    [
        *(("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("0.0.0.0", False)),
        *(("::", False), ("192.168.1.20", False), ("fe80::1%eth0", False)),
    ],
)
def test_loopback(address, loopback):
    assert is_loopback(address) == loopback


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "robot.local"])
def test_addresses_are_shown_as_they_are_read(host):
    assert parse_address(shown(host, 80)) == (host, 80)
