import errno
import os
import queue
import random
import socket
import threading
from contextlib import contextmanager

import pytest

from delayzero.delays import DelayError, responder
from delayzero.delays.network import record
from delayzero.delays.packets import LOOPBACK, SHORTEST_PERIOD_MS, NetworkError, answer, request
from delayzero.delays.responder import RateLimit, echo, open_responder, serve

SECOND = 10**9
NOW = 5 * SECOND


class Clock:
    """A clock that stands still until it is moved."""

    now = NOW

    def __call__(self):
        return self.now


def probe(number):
    return request(b"8 bytes.", number, 1.5)


@contextmanager
def client(limit=None):
    """A socket that sends to a running responder."""
    stop = threading.Event()
    with open_responder(0) as listening:
        thread = threading.Thread(target=serve, args=(listening, stop, limit))
        thread.start()
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                sender.settimeout(20)
                sender.connect(listening.getsockname())
                yield sender
        finally:
            stop.set()
            thread.join()


def test_it_listens_on_the_loopback_address():
    with open_responder(0) as listening:
        assert listening.getsockname()[0] == LOOPBACK
    with open_responder(0, "127.0.0.2") as listening:
        assert listening.getsockname()[0] == "127.0.0.2"


def test_malformed_packets_get_no_answer():
    rng = random.Random(0)
    good = probe(0)
    bad = [b"", good[:-1], good + b"x", 50 * good, b"XYZ?" + good[4:], answer(good)]
    bad += [rng.randbytes(rng.choice((len(good), rng.randrange(1400)))) for _ in range(50)]
    with client() as sender:
        for packet in bad:
            sender.send(packet)
        sender.send(good)
        assert sender.recv(2000) == answer(good)  # the first thing that comes


def test_requests_above_the_limit_get_no_answer_until_time_passes():
    clock, decisions = Clock(), queue.SimpleQueue()

    class Watched(RateLimit):
        def allows(self, source):
            allowed = super().allows(source)
            decisions.put((source, allowed))
            return allowed

    with client(Watched(rate=4, clock=clock)) as sender:
        for number in range(6):
            sender.send(probe(number))
        made = [decisions.get(timeout=20) for _ in range(6)]
        assert made == [(LOOPBACK, True)] * 4 + [(LOOPBACK, False)] * 2
        clock.now += SECOND // 4
        sender.send(probe(6))
        replies = [sender.recv(100) for _ in range(5)]
    assert replies == [answer(probe(number)) for number in (0, 1, 2, 3, 6)]


def test_echo_says_where_it_listens_and_can_be_stopped():
    places, listening, stop = [], threading.Event(), threading.Event()

    def ready(*place):
        places.append(place)
        listening.set()

    thread = threading.Thread(target=echo, args=(0,), kwargs={"ready": ready, "stop": stop})
    thread.start()
    try:
        assert listening.wait(20)
        ((address, port),) = places
        assert address == LOOPBACK
        recording = record(address, port, packets=5, period_ms=1, timeout_ms=20_000)
        assert recording.lost == 0
    finally:
        stop.set()
        thread.join()


def test_port_in_use():
    with open_responder(0) as listening:
        port = listening.getsockname()[1]
        with pytest.raises(NetworkError, match=f"127.0.0.1:{port}: the port is in use.* --port"):
            open_responder(port)


def test_an_address_of_another_machine():
    with pytest.raises(NetworkError, match=r"not an address of this machine.* --host 0\.0\.0\.0"):
        open_responder(0, "192.0.2.1")


@pytest.mark.parametrize(
    ("port", "number", "message"),
    [
        (80, errno.EACCES, "ports below 1024 need permission; try --port 9720"),
        (9720, errno.EACCES, "can't listen on 127.0.0.1:9720: Permission denied"),
        (9720, errno.ENETDOWN, "can't listen on 127.0.0.1:9720: Network is down"),
    ],
)
def test_what_the_system_refuses(port, number, message, monkeypatch):
    class Refused(socket.socket):
        def bind(self, address):
            raise OSError(number, os.strerror(number))

    monkeypatch.setattr(responder.socket, "socket", Refused)
    with pytest.raises(NetworkError, match=message):
        open_responder(port)


@pytest.mark.parametrize("port", [-1, 65536])
def test_no_such_port(port):
    with pytest.raises(DelayError, match=f"between 0 and 65535, not {port}"):
        open_responder(port)


def test_each_source_has_its_own_limit_and_recovers():
    clock = Clock()
    limit = RateLimit(rate=10, clock=clock)
    assert sum(limit.allows("a") for _ in range(50)) == 10
    assert sum(limit.allows("b") for _ in range(50)) == 10
    clock.now += SECOND // 10
    assert sum(limit.allows("a") for _ in range(50)) == 1
    clock.now += 3600 * SECOND
    assert sum(limit.allows("a") for _ in range(50)) == 10, "no more than a second's worth"


def test_the_fastest_client_is_never_refused():
    clock = Clock()
    limit = RateLimit(clock=clock)
    for _ in range(10_000):
        assert limit.allows("fast")
        clock.now += int(SHORTEST_PERIOD_MS * 10**6)


def test_all_sources_together_are_limited():
    clock = Clock()
    limit = RateLimit(rate=10, total_rate=100, clock=clock)
    assert sum(limit.allows(f"source {i}") for i in range(1000)) == 100
    clock.now += SECOND // 2
    assert sum(limit.allows(f"source {i}") for i in range(1000)) == 50


def test_memory_is_bounded_however_many_sources_come():
    clock = Clock()
    limit = RateLimit(total_rate=SECOND, clock=clock)
    for i in range(100_000):
        assert limit.allows(f"10.{i >> 16}.{i >> 8 & 255}.{i & 255}")
        assert len(limit) <= responder.SOURCES
    assert len(limit) == responder.SOURCES


def test_the_source_silent_the_longest_is_forgotten():
    clock = Clock()
    limit = RateLimit(rate=1, sources=2, clock=clock)
    assert limit.allows("flood")
    assert limit.allows("b")
    assert not limit.allows("flood"), "refused, but heard"
    assert limit.allows("c")
    assert not limit.allows("flood")
    assert limit.allows("b"), "forgotten"
