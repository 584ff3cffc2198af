import csv
import random
import socket
import struct
import threading
from contextlib import contextmanager

import pytest

from delayzero.delays import DelayError, network, parse
from delayzero.delays.network import Sample, parse_address, record, write_trace
from delayzero.delays.packets import NetworkError, answer
from delayzero.delays.responder import open_responder, serve

LONG = 20_000  # milliseconds; never waited for when all replies come


@contextmanager
def responder(reply_with=None):
    """A responder at a free port; ``reply_with(packet, number)`` gives what it sends back."""
    stop = threading.Event()
    with open_responder(0, "127.0.0.1") as listening:
        if reply_with is None:
            thread = threading.Thread(target=serve, args=(listening, stop))
        else:
            thread = threading.Thread(target=_serve_with, args=(listening, stop, reply_with))
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            stop.set()
            thread.join()


def _serve_with(listening, stop, reply_with):
    listening.settimeout(0.05)
    number = 0
    while not stop.is_set():
        try:
            packet, sender = listening.recvfrom(100)
        except TimeoutError:
            continue
        for reply in reply_with(packet, number):
            listening.sendto(reply, sender)
        number += 1


def measure(port, **changes):
    settings = {"packets": 5, "period_ms": 1, "timeout_ms": LONG, **changes}
    return record("127.0.0.1", port, **settings)


def test_every_packet_is_measured():
    steps = []
    with responder() as port:
        recording = measure(port, packets=20, progress=steps.append)
    assert recording.complete
    assert steps == [1] * 20
    assert len(recording.samples) == 20
    assert recording.lost == 0
    assert all(0 < sample.delay_ms < LONG for sample in recording.samples)
    sent = [sample.sent_s for sample in recording.samples]
    assert sent[0] == 0
    assert sent == sorted(sent)


def test_a_lost_packet_gets_the_timeout():
    def all_but_the_second(packet, number):
        return [] if number == 1 else [answer(packet)]

    with responder(all_but_the_second) as port:
        recording = measure(port, packets=3, timeout_ms=1000)
    assert [sample.lost for sample in recording.samples] == [False, True, False]
    assert recording.samples[1].delay_ms == 1000


def test_a_missing_reply_does_not_hold_up_the_next_packet():
    held = []

    def all_at_the_end(packet, number):
        held.append(answer(packet))
        return held[::-1] if number == 4 else []  # and in the wrong order

    # Waiting for each reply before the next packet would never get to the fifth.
    with responder(all_at_the_end) as port:
        recording = measure(port, packets=5)
    assert recording.lost == 0
    delays = [sample.delay_ms for sample in recording.samples]
    assert delays[0] > delays[4]


def test_stray_packets_and_duplicates_are_ignored():
    def with_strays(packet, number):
        reply = answer(packet)
        other_run = reply[:4] + b"otherrun" + reply[12:]
        unsent = reply[:12] + struct.pack("!Q", 999) + reply[20:]
        other_time = reply[:20] + struct.pack("!d", 0.0)
        strays = [b"", b"hello", reply + b"x", packet, other_run, unsent, other_time]
        return strays if number == 1 else [*strays, reply, reply]

    with responder(with_strays) as port:
        recording = measure(port, packets=3, timeout_ms=1000)
    assert [sample.lost for sample in recording.samples] == [False, True, False]


def test_replies_from_another_address_are_ignored(monkeypatch):
    """Even if the forger knows every byte of the reply."""
    senders = []
    connect = network._connect

    def connected(host, port):
        senders.append(connect(host, port))
        return senders[-1]

    monkeypatch.setattr(network, "_connect", connected)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as forger:

        def forged(packet, number):
            forger.sendto(answer(packet), senders[0].getsockname())
            return [answer(packet)] if number == 0 else []

        with responder(forged) as port:
            recording = measure(port, packets=3, timeout_ms=1000)
    assert [sample.lost for sample in recording.samples] == [False, True, True]


def test_forged_replies_are_ignored():
    """Random bytes, and replies with one byte changed."""
    rng = random.Random(0)

    def forged(packet, number):
        reply = answer(packet)
        changed = []
        for place in range(len(reply)):
            other = bytearray(reply)
            other[place] ^= rng.randrange(1, 256)
            changed.append(bytes(other))
        noise = [rng.randbytes(rng.randrange(60)) for _ in range(20)]
        return [*changed, *noise, *([reply] if number == 0 else [])]

    with responder(forged) as port:
        recording = measure(port, packets=3, timeout_ms=1000)
    assert [sample.lost for sample in recording.samples] == [False, True, True]


def test_ctrl_c_keeps_what_was_measured():
    answered, calls = threading.Event(), []

    def two_replies(packet, number):
        if number < 2:
            return [answer(packet)]
        answered.set()  # both replies are out when the third packet is looked at
        return []

    def interrupt_after_the_fourth(_):
        calls.append(1)
        if len(calls) == 3:
            assert answered.wait(20)
        if len(calls) == 4:
            raise KeyboardInterrupt

    with responder(two_replies) as port:
        recording = measure(port, packets=50, period_ms=100, progress=interrupt_after_the_fourth)
    assert not recording.complete
    assert len(recording.samples) == 2  # what became of the others is not known
    assert recording.lost == 0


def test_ctrl_c_before_any_reply_keeps_nothing():
    def interrupt(_):
        raise KeyboardInterrupt

    with responder(lambda packet, number: []) as port:
        recording = measure(port, timeout_ms=1e-6, progress=interrupt)
    assert recording.samples == ()


def test_silence_is_an_error_that_names_the_responder():
    with (
        responder(lambda packet, number: []) as port,
        pytest.raises(NetworkError, match=f"echo --port {port}` running"),
    ):
        measure(port, packets=2, timeout_ms=20)


def test_nobody_there_is_the_same_error():
    with open_responder(0, "127.0.0.1") as listening:
        port = listening.getsockname()[1]
    with pytest.raises(NetworkError, match=f"echo --port {port}` running"):
        measure(port, packets=2, timeout_ms=50)


def test_silence_of_another_machine_names_the_option_for_it():
    with open_responder(0, "127.0.0.2") as listening:
        port = listening.getsockname()[1]
    with pytest.raises(NetworkError, match=f"echo --host ADDRESS --port {port}` running"):
        record("127.0.0.2", port, packets=2, period_ms=1, timeout_ms=50)


def test_unknown_host():
    with pytest.raises(NetworkError, match=r"'no\.such\.host\.invalid' can't be found"):
        record("no.such.host.invalid", 1, packets=1, period_ms=1, timeout_ms=1)


@pytest.mark.parametrize("name", ["packets", "period_ms", "timeout_ms"])
def test_numbers_are_checked(name):
    with pytest.raises(DelayError, match="above 0"):
        measure(1, **{name: 0})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"period_ms": 1e30}, r"the period should be at most 86400000 ms \(a day\), not 1e\+30"),
        ({"timeout_ms": 1e30}, "the timeout should be at most 86400000 ms"),
        ({"timeout_ms": float("nan")}, "the timeout should be above 0, not nan"),
        ({"packets": 10**400}, "packets should be at most 1000000000, not 1000"),
    ],
)
def test_numbers_that_are_too_large(changes, message):
    with pytest.raises(DelayError, match=message):
        measure(1, **changes)


def test_no_faster_than_responders_answer():
    with pytest.raises(DelayError, match=r"at least 1 ms, not 0\.5"):
        measure(1, period_ms=0.5)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("robot.local:9720", ("robot.local", 9720)),
        ("10.0.0.1:1", ("10.0.0.1", 1)),
        ("[::1]:80", ("::1", 80)),
    ],
)
def test_addresses(text, address):
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "host", "host:", ":5", "host:0", "host:65536", "h:-1", "h:x"])
def test_bad_addresses_show_a_good_one(text):
    with pytest.raises(DelayError, match=r"should be HOST:PORT, such as 192\.168\.1\.20:9720"):
        parse_address(text)


def test_a_bare_ipv6_address_needs_brackets():
    with pytest.raises(DelayError, match=r"\[HOST\]:PORT"):
        parse_address("::1:80")


def test_the_trace_is_read_by_the_trace_law(tmp_path):
    path = tmp_path / "trace.csv"
    write_trace((Sample(0.0, 12.5, False), Sample(0.02, 100.0, True)), path)
    with path.open() as file:
        assert list(csv.reader(file)) == [
            ["sent_s", "delay_ms", "lost"],
            ["0.000000", "12.5000", "0"],
            ["0.020000", "100.0000", "1"],
        ]
    assert parse(f"trace:{path}@20ms").max_delay == 5
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text("old")
    broken = Sample(0.0, "no number", False)
    with pytest.raises(ValueError, match="format"):
        write_trace((broken,), path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
