"""The engine of Ray: without Ray, on a cluster of this process, and on one of two nodes."""

import importlib.util
import json
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from delayzero.arguments import UsageError
from delayzero.campaigns import cluster
from delayzero.campaigns.cluster import Cluster, Share, cluster_of, connected, work
from delayzero.campaigns.engine import run_all
from delayzero.campaigns.engines import Where
from delayzero.cli import main
from delayzero.extras import MissingExtraError

from .conftest import NAMES, with_path

needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="type: pip install 'delayzero[ray]'"
)


@pytest.mark.parametrize(
    ("share", "resources", "runs"),
    [
        (Share(gpus=0.33), {"CPU": 16, "GPU": 2}, 6),
        (Share(gpus=0.33, cores=4), {"CPU": 16, "GPU": 2}, 4),
        (Share(gpus=1), {"CPU": 16}, 0),
        (Share(cores=3), {"CPU": 16, "GPU": 2}, 5),
        (Share(), {"CPU": 16}, 16),
        (Share(), {}, 0),
    ],
)
def test_how_many_runs_fit_on_a_node(share, resources, runs):
    assert share.fits(resources) == runs


def fake_ray(*nodes):
    return SimpleNamespace(nodes=lambda: [{"Alive": alive, "Resources": r} for alive, r in nodes])


def test_only_nodes_that_are_alive_have_room(tmp_path):
    ray = fake_ray((True, {"CPU": 4}), (False, {"CPU": 8}), (True, {"CPU": 3}))
    engine = cluster_of(ray, Share(cores=2), 99, tmp_path, {})
    assert engine.room() == 3
    assert engine.has_room(2)
    assert not engine.has_room(3)
    assert Cluster(ray, Share(cores=2), 1, {}).room() == 1
    assert engine.variables["NPROC"] == "2"


def test_a_cluster_without_room_for_a_run_is_refused(tmp_path):
    ray = fake_ray((True, {"CPU": 4}))
    for share, message in (
        (Share(gpus=0.33), "no node of the cluster has 0.33 GPUs, which each run should have"),
        (Share(cores=5), "no node of the cluster has 5 cores"),
        (Share(0.5, 2), "has 0.5 GPUs and 2 cores"),
    ):
        with pytest.raises(UsageError, match=message):
            cluster_of(ray, share, 9, tmp_path, {})


def test_runs_that_share_a_gpu_share_its_memory(tmp_path):
    ray = fake_ray((True, {"CPU": 4, "GPU": 1}))
    half = cluster_of(ray, Share(gpus=0.5), 9, tmp_path, {"PIPE": "here"}).variables
    assert (half["XLA_PYTHON_CLIENT_MEM_FRACTION"], half["PIPE"]) == ("0.4500", "here")
    whole = cluster_of(ray, Share(gpus=1), 9, tmp_path, {}).variables
    assert "XLA_PYTHON_CLIENT_MEM_FRACTION" not in whole
    assert "JAX_PLATFORMS" not in whole
    assert cluster_of(ray, Share(), 9, tmp_path, {}).variables["JAX_PLATFORMS"] == "cpu"
    assert whole["JAX_COMPILATION_CACHE_DIR"] == str(tmp_path)


def test_without_ray_a_line_says_what_to_type(monkeypatch, stubs, capsys):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError), connected(None):
        pass
    assert main(["campaign", "tiny.toml", "--engine", "ray"]) == 2
    assert "type: pip install 'delayzero[ray]'" in capsys.readouterr().err


def test_an_address_means_ray():
    assert Where(address="auto").on_ray
    assert Where("ray").on_ray
    assert not Where().on_ray
    with pytest.raises(UsageError, match="or --engine processes"):
        Where("processes", "auto")


def test_a_process_that_is_connected_keeps_its_cluster(monkeypatch):
    ray = SimpleNamespace(is_initialized=lambda: True)  # it cannot connect, nor shut down
    monkeypatch.setitem(sys.modules, "ray", ray)
    for address in (None, "auto"):
        with connected(address) as found:
            assert found is ray


@needs_ray
@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.0.0.1:99999999", "no such host:6379"])
def test_where_no_cluster_answers_a_line_says_what_to_type(address):
    with pytest.raises(UsageError, match="no Ray cluster answers there"), connected(address):
        pass


def test_sigterm_interrupts_while_a_cluster_is_connected(monkeypatch):
    def init(*_, **__):
        signal.signal(signal.SIGTERM, lambda *_: None)  # as Ray does

    ray = SimpleNamespace(
        is_initialized=lambda: False,
        init=init,
        shutdown=lambda: None,
        exceptions=SimpleNamespace(RayError=NoToken),
    )
    monkeypatch.setitem(sys.modules, "ray", ray)
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), connected("auto"):
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


class NoToken(Exception):
    """Ray's, in the following test."""


@pytest.mark.parametrize("kind", [ConnectionError, NoToken])
@pytest.mark.parametrize(
    ("mode", "remedy"),
    [("", "type: export RAY_AUTH_MODE=token"), ("token", "copy ~/.ray/auth_token from its head")],
)
def test_a_cluster_that_refuses_may_have_a_token(kind, mode, remedy, monkeypatch):
    def refuse(*_, **__):
        raise kind("failed to connect\nand so on")

    errors = SimpleNamespace(RayError=NoToken)
    ray = SimpleNamespace(is_initialized=lambda: False, init=refuse, exceptions=errors)
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setenv("RAY_AUTH_MODE", mode)
    said = "--address auto: failed to connect; start one as docs/scale.md shows"
    with pytest.raises(UsageError, match=said) as error, connected("auto"):
        pass
    assert str(error.value).endswith(remedy)


def test_a_task_that_is_cancelled_lets_its_command_save(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster.time, "sleep", interrupt_when(tmp_path / "log.txt", "ready"))
    (tmp_path / "slow.py").write_text(SLOW)
    path = {"PYTHONPATH": with_path(tmp_path)}
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert work(("slow",), tmp_path / "log.txt", path, tmp_path) == 130
    assert (tmp_path / "log.txt").read_text() == "ready\nsaved\n"


SLOW = (
    "import signal, sys, time\n"
    "def stop(*_):\n    time.sleep(0.2); print('saved', flush=True); sys.exit(130)\n"
    "signal.signal(signal.SIGTERM, stop)\n"
    "print('ready', flush=True)\n"
    "time.sleep(60)\n"
)


def interrupt_when(log, text):
    pause = time.sleep

    def sleep(seconds):
        pause(0.02)
        if text in log.read_text():
            raise KeyboardInterrupt

    return sleep


def listeners():
    """The addresses on which this machine listens: pairs of a hexadecimal address and a port."""
    found = set()
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A":
                found.add(tuple(words[1].split(":")))
    return found


def is_loopback(address):
    packed = b"".join(
        int(address[i : i + 8], 16).to_bytes(4, sys.byteorder) for i in range(0, len(address), 8)
    )
    if len(packed) == 4:
        return packed[0] == 127
    mapped = packed[:12] == b"\0" * 10 + b"\xff\xff"
    return packed == socket.inet_pton(socket.AF_INET6, "::1") or (mapped and packed[12] == 127)


@needs_ray
def test_commands_on_a_cluster_of_this_machine(program, tmp_path, capsys, monkeypatch):
    """Started here, on the loopback address alone: a success, a second attempt, an interrupt."""
    make, _ = program
    monkeypatch.setenv("PYTHONPATH", with_path(tmp_path))
    once = f"import pathlib, sys; p = pathlib.Path({str(tmp_path / 'was-here')!r})\n"
    good = make("good", "print('done')")
    flaky = make("flaky", once + "if not p.exists():\n    p.touch(); sys.exit('lost')")
    slow = make("slow", SLOW)
    before = listeners()
    with connected(None) as ray:
        new = listeners() - before
        assert new
        assert all(is_loopback(address) for address, _ in new)
        engine = cluster_of(ray, Share(cores=1), 2, tmp_path / "compiled", {})
        boards = []
        assert run_all([good, flaky], engine, boards.append) == []
        assert boards[-1].attempts == {"good": 1, "flaky": 2}
        assert good.log.read_text() == "done\n"

        def look(board):
            if slow.log.exists() and "ready" in slow.log.read_text():
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(5)

        with pytest.raises(KeyboardInterrupt):
            run_all([slow], engine, look)
        assert slow.log.read_text() == "ready\nsaved\n"


@needs_ray
@pytest.mark.slow
def test_a_campaign_on_two_nodes_one_of_which_is_lost(stubs, capsys):
    os.environ.update(cluster.LOOPBACK_ALONE)
    from ray.cluster_utils import Cluster as Nodes

    nodes = Nodes(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        lost = nodes.add_node(num_cpus=1)
        (stubs / f"{NAMES[0]}.wait").touch()
        (stubs / f"{NAMES[1]}.wait").touch()
        take_away(nodes, lost, stubs)
        words = ["campaign", "tiny.toml", "--engine", "ray", "--address", nodes.address]
        assert main(words) == 0
    finally:
        nodes.shutdown()
    assert "tiny: 4 of 4 done" in capsys.readouterr().out
    results = [Path(f"campaigns/tiny/{name}/result.json") for name in NAMES]
    assert sum(json.loads(path.read_text())["resumed"] for path in results) == 1
    record = json.loads(Path("campaigns/tiny/campaign.json").read_text())
    attempts = [run["attempts"] for run in record["runs"].values()]
    assert sorted(attempts) == [1, 1, 1, 2]


def take_away(nodes, lost, stubs):
    """When both runs wait on their nodes, remove one; when its run has failed, let both go on."""
    begun = [Path(f"campaigns/tiny/{name}/metrics.jsonl").absolute() for name in NAMES[:2]]

    record = Path("campaigns/tiny/campaign.json").absolute()

    def act():
        while not all(path.exists() for path in begun):
            time.sleep(0.05)
        nodes.remove_node(lost, allow_graceful=False)
        while not any(run["reason"] for run in json.loads(record.read_text())["runs"].values()):
            time.sleep(0.05)
        for name in NAMES[:2]:
            (stubs / f"{name}.wait").unlink()

    threading.Thread(target=act).start()
