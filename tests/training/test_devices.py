"""Runs on several devices, in a process of their own."""

from pathlib import Path

import jax
import pytest

from delayzero.arguments import UsageError
from delayzero.runs.run_folder import RunFolder

from ..on_devices import run_on_four
from .small import small

FILE = Path(__file__).with_name("on_devices.py")


@pytest.mark.slow
@pytest.mark.parametrize("words", ["checkpoint", "not checkpoint"])
def test_runs_on_four_devices(words):
    run_on_four(FILE, words)


def test_devices_that_are_not_there_leave_no_folder(tmp_path):
    config = small(tmp_path / "run", devices=64)
    with pytest.raises(UsageError, match=r"--devices is 64; JAX finds 1 here"):
        RunFolder(tmp_path / "run").open(config, ["delayzero"])
    assert not (tmp_path / "run").exists()


def test_another_number_of_devices_is_said_when_a_run_resumes(tmp_path, monkeypatch, capsys):
    folder, config = RunFolder(tmp_path / "run"), small(tmp_path / "run")
    folder.open(config, ["delayzero"])
    folder.close()
    monkeypatch.setattr(jax, "local_device_count", lambda: 4)
    monkeypatch.setattr(RunFolder, "has_begun", lambda _: True)
    folder.open(config, ["delayzero"])
    folder.close()
    assert "last trained with devices 1 (now 4)" in capsys.readouterr().err
