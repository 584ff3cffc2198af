"""Checkpoints that are read while a run writes them, and broken ones."""

import json
import shutil
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import asdict

import jax
import numpy as np
import pytest

from delayzero.cli import main
from delayzero.playing.environments import make_training_env
from delayzero.playing.system import build_system
from delayzero.replay import arrays_of, create
from delayzero.runs.checkpoint import Checkpoints, examples_of
from delayzero.runs.run_folder import RunFolder
from delayzero.runs.weights import load_weights
from delayzero.spaces import Spaces
from delayzero.training import loop
from delayzero.training.checkpointing import SCHEMA

from ..made import spaces_of
from .small import NotCompiled, equal_trees, newest, small, stored, trainer


@pytest.fixture(scope="module")
def learner():
    """The first state of a small run's learner."""
    config = small()
    with closing(make_training_env(config)) as env:
        system = build_system(config, Spaces.of(env))
    return jax.jit(system.first_state)(jax.random.key(0))


@pytest.fixture
def run(tmp_path, learner):
    """The folder of a run with checkpoint 1, all of whose parts are there."""
    folder = RunFolder(tmp_path / "run")
    folder.open(small(tmp_path / "run"), ["delayzero"])
    folder.close()
    save(folder.path, 1, learner)
    return folder.path


def numbers():
    """Of a checkpoint that this version can resume."""
    made = {"environments": {"steps": 0}, "frames": "stored"}
    return {"schema": SCHEMA, "config": asdict(small()), **made}


def save(run, step, learner):
    with closing(Checkpoints(run / "checkpoints")) as checkpoints:
        checkpoints.save(step, {"learner": learner}, numbers())


def test_a_checkpoint_of_another_version_is_refused_in_one_line(run, learner, capsys, monkeypatch):
    monkeypatch.setattr(loop, "Programs", NotCompiled)
    with closing(Checkpoints(run / "checkpoints")) as checkpoints:
        checkpoints.save(2, {"learner": learner}, {"environments": {"steps": 0}})
    assert main(command(run)) == 2
    told = capsys.readouterr().err.splitlines()[-1]
    assert "was begun by another version of delayzero" in told
    assert str(run / "starts.jsonl") in told
    _, variables = load_weights(run)
    assert equal_trees(variables, learner.variables), "its weights load"


def listing(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_a_reader_leaves_what_is_being_written(run, learner):
    half = run / "checkpoints" / "2.orbax-checkpoint-tmp"
    shutil.copytree(newest(run), half)
    before = listing(run)
    _, variables = load_weights(run)
    assert equal_trees(variables, learner.variables)
    time.sleep(0.3)  # what orbax deletes it deletes in the background
    assert listing(run) == before
    save(run, 3, learner)
    assert not half.exists(), "the run itself cleans up"


def test_a_reader_takes_the_newer_one_if_its_own_has_gone(run, learner, monkeypatch):
    original, newer = Checkpoints.restore, learner._replace(updates=learner.updates + 7)

    def restore(self, examples):
        monkeypatch.setattr(Checkpoints, "restore", original)
        save(run, 2, newer)
        save(run, 3, newer)
        assert newest(run).name == "3"
        assert not (run / "checkpoints" / "1").exists()
        return original(self, examples)

    monkeypatch.setattr(Checkpoints, "restore", restore)
    _, variables = load_weights(run)
    assert equal_trees(variables, learner.variables)


def test_readers_are_closed_when_they_fail(run, monkeypatch):
    closed, original = [], Checkpoints.close
    monkeypatch.setattr(Checkpoints, "close", lambda self: (closed.append(1), original(self)))
    shutil.rmtree(newest(run) / "learner")
    assert main(["evaluate", str(run)]) == 2
    assert closed
    shutil.rmtree(newest(run))
    del closed[:]
    assert main(["evaluate", str(run)]) == 2
    assert closed


def truncate(run):
    for path in newest(run).rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def lose_weights(run):
    for path in (newest(run) / "learner").rglob("*"):
        if path.is_file() and path.parent.name == "d":
            path.unlink()


DAMAGE = {
    "truncated": truncate,
    "no-weights": lose_weights,
    "no-learner": lambda run: shutil.rmtree(newest(run) / "learner"),
    "no-parts": lambda run: [shutil.rmtree(p) for p in newest(run).iterdir() if p.is_dir()],
    "bad-progress": lambda run: (newest(run) / "progress" / "metadata").write_text('{"act'),
}


@pytest.mark.parametrize("verb", ["train", "evaluate"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_broken_checkpoint_is_one_line(damage, verb, run, capsys, monkeypatch):
    monkeypatch.setattr(loop, "Programs", NotCompiled)
    if verb == "evaluate" and damage == "bad-progress":
        pytest.skip("it is not read")
    words = ["evaluate", str(run)] if verb == "evaluate" else command(run)
    DAMAGE[damage](run)
    before = listing(run / "checkpoints" / "1")
    capsys.readouterr()
    assert main(words) == 2
    told = capsys.readouterr().err
    assert "Traceback" not in told
    last = told.splitlines()[-1]
    assert f"the checkpoint {run / 'checkpoints' / '1'} " in last
    assert "is damaged" in last or "cannot be read" in last
    assert "train in another --folder" in last
    assert listing(run / "checkpoints" / "1") == before


def test_reads_that_orbax_gave_up_are_not_shown(run):
    """In a process of its own: pytest keeps what Python cannot raise to itself."""
    lose_weights(run)
    (run / "checkpoints" / "checksums.json").unlink()  # older versions kept none
    words = [sys.executable, "-m", "delayzero", "evaluate", str(run)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=100)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "cannot be read" in done.stderr


def command(run):
    """The command of the small run, whose settings are those in its folder."""
    values = json.loads((run / "config.json").read_text())
    return ["train", "cartpole", "debug", *flags(values)]


def flags(values, path=""):
    words = []
    for name, value in values.items():
        if isinstance(value, dict):
            words += flags(value, f"{path}{name}.")
        else:
            words += [f"--{path}{name}".replace("_", "-"), str(value)]
    return words


def test_examples_take_no_memory():
    shown = examples_of({"host": np.zeros((1000, 1000)), "device": jax.numpy.ones(3)})
    assert shown["host"].base.nbytes == 8
    assert shown["device"] == jax.ShapeDtypeStruct((3,), np.float32)


def test_a_whole_atari_run_fits_in_small_files(tmp_path):
    """The replay of 130 000 interactions with 18 actions, without frames, filled with noise."""
    rng = np.random.default_rng(0)
    empty = create(8960, 16, spaces_of((1,), np.uint8, 18))
    replay = jax.tree.map(
        lambda x: (
            rng.random(x.shape).astype(x.dtype)
            if x.dtype == np.float32
            else rng.integers(0, 2, x.shape).astype(x.dtype)
        ),
        arrays_of(empty, frames=False),
    )
    weights = rng.random((2304, 3000)).astype(np.float32)
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, {"replay": replay, "learner": {"weights": weights}}, {})
    sizes = {path: path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()}
    assert max(sizes.values()) < 16e6
    assert 8e6 < sum(size for path, size in sizes.items() if "replay" in path.parts) < 20e6
    examples = examples_of({"replay": replay, "learner": {"weights": weights}})
    back = checkpoints.restore(examples)
    np.testing.assert_array_equal(back["learner"]["weights"], weights)
    np.testing.assert_array_equal(back["replay"].targets.policy, replay.targets.policy)
    checkpoints.close()


@pytest.mark.slow
def test_a_finished_run_plays_with_its_average(tmp_path):
    folder = tmp_path / "run"
    config = small(folder, learner={"average": 0.9, "target_period": 1})
    run = trainer(config)
    run.run()
    played = run.learning.variables()
    run.close()
    state = stored(folder, "learner")
    _, loaded = load_weights(folder)
    assert equal_trees(loaded, state["target"])
    assert equal_trees(played, state["target"])
    assert not equal_trees(loaded, state["variables"])
