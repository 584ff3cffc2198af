"""Damaged and incomplete run folders: refused in one line, never resumed as something else."""

import json
import shutil
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from delayzero.arguments import UsageError
from delayzero.cli import main
from delayzero.runs.checkpoint import BrokenCheckpointError, Checkpoints
from delayzero.runs.checksums import Checksums
from delayzero.runs.run_folder import RunFolder
from delayzero.runs.weights import load_weights
from delayzero.training import loop
from delayzero.training.loop import train

from .small import (
    EVERY_ROUND,
    Crash,
    NotCompiled,
    crash_after,
    metrics_of,
    newest,
    small,
    stored,
)

COMMAND = ["delayzero", "train", "test"]


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A run that crashed after some checkpoints."""
    config = small(
        tmp_path_factory.mktemp("damage") / "run",
        checkpoint_minutes=EVERY_ROUND,
        evaluate_every=60,
        evaluate_episodes=1,
        evaluate_max_steps=4,
        final_episodes=1,
        final_max_steps=4,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "Programs", NotCompiled)
        crash_after(patch, 30)
        with pytest.raises(Crash):
            train(config, COMMAND)
    return config


@pytest.fixture
def interrupted(begun, tmp_path, monkeypatch):
    """The settings of a copy of it, which resumes."""
    monkeypatch.setattr(loop, "Programs", NotCompiled)
    shutil.copytree(begun.run_folder, tmp_path / "run")
    return replace(begun, folder=str(tmp_path / "run"))


def checkpoints_of(config):
    folder = RunFolder(config_path(config)).checkpoints
    return sorted((p for p in folder.iterdir() if p.name.isdigit()), key=lambda p: int(p.name))


def config_path(config):
    return Path(config.run_folder)


def test_the_newest_two_checkpoints_are_kept(interrupted):
    numbers = [int(path.name) for path in checkpoints_of(interrupted)]
    assert len(numbers) == 2
    assert numbers[1] == numbers[0] + 1


def test_every_file_of_a_checkpoint_is_protected(interrupted):
    rng, latest = np.random.default_rng(0), checkpoints_of(interrupted)[-1]
    files = sorted(path for path in latest.rglob("*") if path.is_file() and path.stat().st_size)
    assert len(files) > 8
    for path in files:
        content = path.read_bytes()
        flip(rng, path)
        assert Checksums(latest.parent).damaged(int(latest.name)) == str(path.relative_to(latest))
        path.write_bytes(content)
    assert Checksums(latest.parent).damaged(int(latest.name)) is None


def flip(rng, path):
    """Flip one bit."""
    content = bytearray(path.read_bytes())
    content[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
    path.write_bytes(content)


@pytest.mark.parametrize(
    "part",
    [
        "replay",
        *(pytest.param(p, marks=pytest.mark.slow) for p in ("learner", "collector", "progress")),
    ],
)
def test_a_damaged_checkpoint_is_refused_and_the_one_before_it_resumes(part, interrupted):
    older, latest = checkpoints_of(interrupted)
    largest = max((latest / part).rglob("*"), key=lambda p: p.is_file() and p.stat().st_size)
    flip(np.random.default_rng(1), largest)
    with pytest.raises(BrokenCheckpointError, match="has changed since it was written") as told:
        train(interrupted, COMMAND)
    assert f"delete {latest.absolute()} to resume from {older.absolute()}" in str(told.value)
    if part == "replay":
        shutil.rmtree(latest)
        assert train(interrupted, COMMAND).finished


@pytest.mark.parametrize("which", ["older", "newest"])
@pytest.mark.parametrize("metadata", ['{"item_handlers": "x"}', "[]", "{", None])
def test_damaged_notes_of_orbax_are_one_line(which, metadata, interrupted, capfd):
    older, latest = checkpoints_of(interrupted)
    damaged, intact = (older, latest) if which == "older" else (latest, older)
    path = damaged / "_CHECKPOINT_METADATA"
    path.write_text(metadata) if metadata is not None else path.unlink()
    code = main(["evaluate", str(config_path(interrupted)), "--episodes", "1", "--max-steps", "2"])
    told = capfd.readouterr().err
    if code == 0:
        assert which == "older", "it is not read"
        assert len(told.splitlines()) <= 3
    else:
        assert f"delete {damaged.absolute()} to resume from {intact.absolute()}" in told
        assert len(told.splitlines()) == 1


def test_weights_of_a_damaged_checkpoint_are_not_loaded(interrupted):
    latest = checkpoints_of(interrupted)[-1]
    path = max((latest / "learner").rglob("*"), key=lambda p: p.is_file() and p.stat().st_size)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)
    with pytest.raises(BrokenCheckpointError, match="is damaged: its file learner/"):
        load_weights(config_path(interrupted))


def test_a_checkpoint_that_was_never_sealed_is_not_used(interrupted, capsys):
    """As if power failed between the checkpoint and its checksums."""
    older, latest = checkpoints_of(interrupted)
    sums = latest.parent / "checksums.json"
    values = json.loads(sums.read_text())
    del values[latest.name]
    sums.write_text(json.dumps(values))
    with closing(Checkpoints(latest.parent)) as opened:
        assert opened.latest() == int(older.name)
    assert not latest.exists()
    assert f"{latest.name} was not written to its end, and is deleted" in capsys.readouterr().err
    assert train(interrupted, COMMAND).finished


def test_a_checkpoint_that_cannot_be_verified_is_told(interrupted, capsys):
    path = config_path(interrupted)
    load_weights(path)
    assert "no checksums" not in capsys.readouterr().err
    (path / "checkpoints" / "checksums.json").unlink()
    load_weights(path)
    assert "checkpoints has no checksums: whether the checkpoint" in capsys.readouterr().err


def test_a_run_all_of_whose_checkpoints_are_missing_does_not_begin_again(interrupted):
    """Unless one deletes their folder."""
    for path in checkpoints_of(interrupted):
        shutil.rmtree(path)
    folder = path.parent.absolute()
    with pytest.raises(BrokenCheckpointError, match=rf"{folder} \(.*\) are missing; .* or delete"):
        train(interrupted, COMMAND)


def test_a_run_that_lost_its_starts_keeps_its_data_type(interrupted, monkeypatch):
    """The checkpoint has it too."""
    path = config_path(interrupted)
    (path / "starts.jsonl").unlink()
    config = replace(interrupted, folder="elsewhere")
    assert config.model.dtype == "auto"
    assert RunFolder(path).as_begun(config).model.dtype == "float32"
    (path / "starts.jsonl").write_text('{"dtype": "float64"}\n')
    with pytest.raises(UsageError, match=r"starts\.jsonl is damaged; restore a copy, or delete it"):
        RunFolder(path).as_begun(config)


def test_without_its_settings_a_run_goes_on_as_what_it_is(interrupted):
    """They are in the checkpoint too."""
    path = config_path(interrupted)
    (path / "config.json").unlink()
    with pytest.raises(UsageError, match=r"different settings: seed 0 \(now 9\)"):
        train(replace(interrupted, seed=9), COMMAND)
    assert not (path / "config.json").exists()
    assert train(interrupted, COMMAND).finished
    assert json.loads((path / "config.json").read_text())["seed"] == 0


def test_settings_that_disagree_with_the_checkpoint_are_refused(interrupted):
    path = config_path(interrupted) / "config.json"
    path.write_text(path.read_text().replace('"seed": 0', '"seed": 9'))
    with pytest.raises(UsageError, match=r"checkpoint .* different settings: seed 0 \(now 9\)"):
        train(replace(interrupted, seed=9), COMMAND)


@pytest.mark.parametrize(
    ("name", "old", "new", "told"),
    [
        ("config.json", '"seed": 0', '"seed": 9', r"seed 0 \(now 9\)"),
        ("config.json", '"simulations": ', '"simulations": 1', r"search.simulations \d+ \(now"),
        ("config.json", '"width": ', '"width": 1', r"model.width \d+ \(now 1"),
        ("spaces.json", "float32", "uint8", r".*'float32'.* \(now, in spaces.json, .*'uint8'"),
        ("spaces.json", '"actions": 2', '"actions": 3', r".*'actions': 2.* \(now, .*'actions': 3"),
    ],
)
def test_weights_are_not_played_under_other_settings(interrupted, name, old, new, told):
    path = config_path(interrupted) / name
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(UsageError, match=f"checkpoint in .* different settings: {told}"):
        load_weights(path.parent)


def test_weights_of_another_run_are_not_played(interrupted, tmp_path):
    """As if its checkpoints were copied here."""
    path = config_path(interrupted)
    other = json.loads((path / "config.json").read_text()) | {"seed": 4}
    (path / "config.json").write_text(json.dumps(other))
    assert main(["evaluate", str(path), "--episodes", "1"]) == 2


@pytest.mark.parametrize("damage", ["deleted", pytest.param("cut", marks=pytest.mark.slow)])
def test_lost_metrics_are_told_and_evaluations_restored(interrupted, damage, capsys):
    path = config_path(interrupted) / "metrics.jsonl"
    before = [line for line in metrics_of(path.parent) if "evaluation/score" in line]
    assert before
    path.unlink() if damage == "deleted" else path.write_text(path.read_text()[:50])
    assert train(interrupted, COMMAND).finished
    assert "metrics.jsonl is missing or was cut off" in capsys.readouterr().err
    after = [line for line in metrics_of(path.parent) if "evaluation/score" in line]
    assert after[: len(before)] == before


@pytest.mark.slow
def test_metrics_that_have_changed_are_told_and_kept(interrupted, capsys):
    """One digit of a score is enough."""
    path = config_path(interrupted) / "metrics.jsonl"
    before = [line for line in metrics_of(path.parent) if "evaluation/score" in line]
    changed = path.read_bytes().replace(b'"evaluation/score": ', b'"evaluation/score": 9', 1)
    path.write_bytes(changed)
    assert train(interrupted, COMMAND).finished
    told = capsys.readouterr().err
    assert "metrics.jsonl has changed since the checkpoint and is kept as metrics.jsonl.d" in told
    assert path.with_name("metrics.jsonl.damaged").read_bytes() == changed
    after = [line for line in metrics_of(path.parent) if "evaluation/score" in line]
    assert after[: len(before)] == before


def test_another_environment_is_not_taken_for_the_runs(interrupted, monkeypatch):
    path = config_path(interrupted) / "spaces.json"
    path.write_text(path.read_text().replace('"actions": 2', '"actions": 3'))
    before = (config_path(interrupted) / "starts.jsonl").read_text()
    with pytest.raises(UsageError, match="holds a run of another environment"):
        train(interrupted, COMMAND)
    assert (config_path(interrupted) / "starts.jsonl").read_text() == before


@pytest.mark.slow
def test_a_full_disk_leaves_the_checkpoint_before(interrupted, monkeypatch):
    def full(self, step):
        raise OSError(28, "No space left on device")

    kept = newest(config_path(interrupted))
    with monkeypatch.context() as patch:
        patch.setattr("delayzero.runs.checksums.Checksums.seal", full)
        with pytest.raises(UsageError, match=rf"no space left .*\({kept.name} is intact\)"):
            train(interrupted, COMMAND)
    assert kept.exists()
    assert train(interrupted, COMMAND).finished
    assert int(stored(config_path(interrupted), "learner")["updates"]) > 0


CODE = "import pathlib\npathlib.Path('ran').touch()\n\ndef late(context):\n    return 1\n"


@pytest.mark.parametrize("setting", ["delay", pytest.param("env", marks=pytest.mark.slow)])
def test_code_that_a_folder_names_is_not_run_without_trust(
    setting, interrupted, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "stranger", raising=False)
    (tmp_path / "stranger.py").write_text(CODE)
    path = config_path(interrupted) / "config.json"
    values = json.loads(path.read_text())
    values[setting] = "callback:stranger.late,max=3" if setting == "delay" else "stranger:Env-v0"
    path.write_text(json.dumps(values))
    assert main(["evaluate", str(path.parent), "--episodes", "1"]) == 2
    told = capsys.readouterr().err
    assert f"name Python code that would be run: {values[setting]}" in told
    assert "type --trust" in told
    # Reading a law runs its code; that of an environment runs later, when it is made.
    refusal = "would be run: .*" if setting == "delay" else "different settings: env stranger:.*"
    with pytest.raises(UsageError, match=f"{refusal}; use the run's settings"):
        train(interrupted, COMMAND)  # it has no --trust
    assert not (tmp_path / "ran").exists()
    main(["evaluate", str(path.parent), "--episodes", "1", "--max-steps", "2", "--trust"])
    if setting == "delay":
        assert (tmp_path / "ran").exists()
    else:  # trusted, but the weights are of another environment
        assert "different settings: env CartPole-v1 (now stranger" in capsys.readouterr().err
