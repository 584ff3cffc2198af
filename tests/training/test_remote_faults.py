"""Whole runs with actors: what they lose on the way changes no bit of what they end with."""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from delayzero.campaigns.cluster import LOOPBACK_ALONE
from delayzero.training import loop
from delayzero.training.loop import train
from delayzero.training.reporting import Callbacks

from .mortal import mortal_in, needs_ray, remotely
from .small import (
    EVERY_ROUND,
    SharedPrograms,
    assert_same_runs,
    equal_trees,
    metrics_of,
    small,
    stored,
)

COMMAND = ["delayzero", "train", "test"]
pytestmark = [needs_ray, pytest.mark.slow]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The folder of a run with two actors that nothing happened to."""
    folder = tmp_path_factory.mktemp("undisturbed")
    with pytest.MonkeyPatch.context() as patch:
        mortal_in(folder, patch)
        patch.setattr(loop, "Programs", SharedPrograms)
        assert train(remotely(folder / "run"), COMMAND).finished
    return folder / "run"


@contextlib.contextmanager
def cluster_of_nodes(*cores, **options):
    """A cluster with a head and further nodes, each with so many cores."""
    os.environ.update(LOOPBACK_ALONE)
    from ray.cluster_utils import Cluster

    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": cores[0], **options})
    try:
        yield nodes, [nodes.add_node(num_cpus=count) for count in cores[1:]]
    finally:
        nodes.shutdown()


def then(condition, *steps):
    """Do something in a thread once a condition is met."""

    def act():
        while not condition():
            time.sleep(0.02)
        for step in steps:
            step()

    threading.Thread(target=act, daemon=True).start()


@pytest.mark.parametrize("overlap", [False, True])
def test_one_actor_trains_as_the_local_engine_does(mortal, monkeypatch, overlap):
    monkeypatch.setenv("NPROC", "1")
    one = remotely(mortal / "one", actors=1, overlap=overlap)
    local = small(mortal / "local", env="mortal:make", delay="walk:2", overlap=overlap)
    assert train(one, COMMAND).finished
    assert train(local, COMMAND).finished
    for part in ("learner", "replay"):
        assert equal_trees(stored(mortal / "one", part), stored(mortal / "local", part)), part
    assert metrics_of(mortal / "one") == metrics_of(mortal / "local")


def test_a_run_whose_actors_are_killed_ends_with_the_same_bits(undisturbed, mortal, capsys):
    for step in (12, 25, 26, 33):
        (mortal / f"kill-{step}").touch()
    assert train(remotely(mortal / "run"), COMMAND).finished
    assert not list(mortal.glob("kill-*"))
    assert capsys.readouterr().err.count("was lost (ActorDiedError") == 4
    assert_same_runs(undisturbed, mortal / "run")


def test_a_run_that_loses_a_node_ends_with_the_same_bits(undisturbed, mortal, capsys):
    """Both actors wait in the middle of a round until one of their nodes is gone; one is spare."""
    (mortal / "wait-18").touch()

    def remove_one(nodes, others):
        pids = {node.all_processes["raylet"][0].process.pid: node for node in others}
        (first, _) = (pids[int(path.suffix[1:])] for path in mortal.glob("waits.*"))
        nodes.remove_node(first, allow_graceful=False)

    with cluster_of_nodes(0, 1, 1, 1) as (nodes, others):
        then(
            lambda: len(list(mortal.glob("waits.*"))) == 2,
            lambda: remove_one(nodes, others),
            (mortal / "wait-18").unlink,
        )
        config = remotely(mortal / "run", address=nodes.address, actor_cores=1.0)
        assert train(config, COMMAND).finished
    assert capsys.readouterr().err.count("was lost (") == 1
    assert_same_runs(undisturbed, mortal / "run")


def test_a_run_survives_a_full_object_store(undisturbed, mortal, capsys):
    """It is filled after a round, and freed when the run has noticed."""
    held = []

    def fill(done):
        import ray

        if done.number == 6:
            for size in (2**23, 2**20, 2**17, 2**14, 2**12):
                with contextlib.suppress(ray.exceptions.OutOfDiskError):
                    while len(held) < 1000:
                        held.append(ray.put(np.zeros(size, np.uint8)))
            threading.Timer(5, held.clear).start()

    full = {"automatic_object_spilling_enabled": False, "local_fs_capacity_threshold": 0.001}
    with cluster_of_nodes(2, object_store_memory=80 * 2**20, _system_config=full) as (nodes, _):
        config = remotely(mortal / "run", address=nodes.address)
        assert train(config, COMMAND, Callbacks(fill)).finished
    assert "object store is full" in capsys.readouterr().err
    assert_same_runs(undisturbed, mortal / "run")


TRAIN = """
import json
from pathlib import Path
from delayzero.settings.stored import from_json
from delayzero.training.loop import train
train(from_json(json.loads(Path("config.json").read_text())), ["delayzero", "train", "test"])
"""


def test_after_the_loss_of_the_head_the_same_command_resumes(undisturbed, mortal, capsys):
    """The head ends with everything on it, in the middle of a round; another one is started."""
    config = remotely(mortal / "run", checkpoint_minutes=EVERY_ROUND)
    (mortal / "wait-25").touch()
    with cluster_of_nodes(2) as (nodes, _), (mortal / "log").open("ab") as log:
        Path("config.json").write_text(json.dumps(asdict(replace(config, address=nodes.address))))
        process = subprocess.Popen([sys.executable, "-c", TRAIN], stdout=log, stderr=log)
        while not list(mortal.glob("waits.*")):
            assert process.poll() is None, (mortal / "log").read_text()
            time.sleep(0.1)
    process.kill()
    process.wait()
    (mortal / "wait-25").unlink()
    assert train(config, COMMAND).finished
    assert "resumed at " in capsys.readouterr().err
    assert_same_runs(undisturbed, mortal / "run")
