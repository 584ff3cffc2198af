"""Runs on several devices; test_devices.py starts these tests in a process that has four."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from delayzero.replay import HostFrames, arrays_of
from delayzero.training.loop import train

from .mortal import needs_ray, remotely
from .small import (
    EVERY_ROUND,
    Crash,
    crash_after,
    metrics_of,
    progress_of,
    small,
    stored,
    trainer,
)

COMMAND = ["delayzero", "train"]


def by_name(tree):
    """The arrays of a tree by their path; named tuples and orbax's dictionaries have the same."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="/"): x for path, x in leaves}


@pytest.mark.parametrize(
    ("first", "then", "frames"), [(4, 1, "device"), (1, 4, "device"), (4, 2, "host")]
)
def test_a_checkpoint_resumes_on_other_devices(first, then, frames, tmp_path, monkeypatch):
    config = small(tmp_path / "run", checkpoint_minutes=EVERY_ROUND, devices=first)
    if frames == "host":
        config = replace(config, replay=replace(config.replay, device_gigabytes=0.0))
    crash_after(monkeypatch, 40)
    with pytest.raises(Crash):
        train(config, COMMAND)
    updates = int(stored(config.folder, "learner")["updates"])
    assert 0 < updates < config.total_updates
    config = replace(config, devices=then)
    resumed = trainer(config)
    try:
        resumed.checkpoints.restore()
        learning = resumed.learning
        assert isinstance(learning.replay.frames, HostFrames) == (frames == "host")
        assert len(learning.replay.priority.sharding.device_set) == then
        for part, tree in (("learner", learning.state), ("replay", arrays_of(learning.replay))):
            before, now = by_name(stored(config.folder, part)), by_name(tree)
            assert before.keys() <= now.keys() | {"frames"}
            assert len(before) > 8
            for name in before:
                np.testing.assert_array_equal(before[name], np.asarray(now[name]), err_msg=name)
        if frames == "device":  # they are played again, in their places
            assert np.asarray(learning.replay.frames).any(axis=(0, 2)).all()
    finally:
        resumed.close()
        resumed.folder.close()
    assert train(config, COMMAND).finished
    assert progress_of(config.folder)["environments"]["steps"] > 40
    assert int(stored(config.folder, "learner")["updates"]) == config.total_updates


def test_a_run_on_four_devices_is_a_run_on_one(tmp_path):
    """As long as rounding changes no decision, which it does not in so short a run.

    The searches of sweeps have no noise here, in which devices differ.
    """
    search = {"method": "puct", "dirichlet_fraction": 0.0}
    runs = {n: small(tmp_path / str(n), search=search, devices=n) for n in (1, 4)}
    for config in runs.values():
        assert train(config, COMMAND).finished
    one, four = (metrics_of(config.folder) for config in runs.values())
    assert len(one) == len(four) > 3
    for a, b in zip(one, four, strict=True):
        assert a.keys() == b.keys()
        for name in a.keys() & {"loss", "interactions", "updates", "score", "gradient/norm"}:
            assert a[name] == pytest.approx(b[name], rel=1e-2), name
    columns = [stored(config.folder, "replay")["transitions"] for config in runs.values()]
    np.testing.assert_array_equal(columns[0]["action"], columns[1]["action"])


@pytest.mark.parametrize(
    ("agent", "changes"),
    [("dez", {"overlap": True, "evaluate_every": 40, "prediction_rows": 8}), ("delayed-q", {})],
)
def test_other_runs_on_four_devices(agent, changes, tmp_path):
    delay = {"delay": "walk:3", "devices": 4}
    config = small(tmp_path / "run", agent=agent, **delay, **changes)
    assert train(config, COMMAND).finished
    assert int(stored(config.folder, "learner")["updates"]) == config.total_updates


@needs_ray
def test_actors_beside_a_learner_on_four_devices(mortal, capsys):
    """One is killed while the learner is at work; nothing is lost or counted twice."""
    (mortal / "kill-30").touch()
    config = remotely(mortal / "run", devices=4, overlap=True, checkpoint_minutes=EVERY_ROUND)
    assert train(config, COMMAND).finished
    said = capsys.readouterr().err
    assert "the learner uses 4 devices" in said
    assert said.count("was lost (") == 1
    assert int(stored(config.folder, "learner")["updates"]) == config.total_updates
    length = int(stored(config.folder, "replay")["length"])
    assert [one["steps"] for one in progress_of(config.folder)["environments"]] == [length] * 2
    assert metrics_of(config.folder)[-1]["interactions"] >= config.interactions
