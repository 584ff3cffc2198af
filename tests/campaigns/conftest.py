"""Small programs, and stubs in the place of runs."""

import json
import os
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest

from delayzero.campaigns import engine
from delayzero.campaigns.engine import Command
from delayzero.campaigns.processes import Processes
from delayzero.campaigns.run import Run

PLAN = """
presets = ["cartpole", "debug"]
laws = ["walk:2", "constant:1"]
agents = ["random"]
seeds = [0, 1]
"""
NAMES = [
    f"CartPole-v1-random-{law}-seed{seed}-debug"
    for seed in (0, 1)
    for law in ("walk-2", "constant-1")
]


def with_path(folder):
    """PYTHONPATH with a folder before what is in it."""
    return os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])


@pytest.fixture
def stubs(tmp_path, monkeypatch):
    """A folder with a plan ``tiny.toml``; the folder of the stubs' switches."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(engine, "SECONDS_BETWEEN_LOOKS", 0.02)
    switches = tmp_path / "switches"
    switches.mkdir()
    shutil.copy(Path(__file__).parent / "stub.py", switches)
    monkeypatch.setenv("PYTHONPATH", with_path(switches))
    Path("tiny.toml").write_text(PLAN)

    def command(run, logs):
        config = switches / f"{run.name}.json"
        config.write_text(json.dumps(asdict(run.config)))
        words = ("stub", str(run.folder.path.absolute()), str(config))
        return Command(run.name, words, logs / f"{run.name}.txt")

    monkeypatch.setattr(Run, "command", command)
    return switches


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Makes commands that run Python text, and an engine for them."""
    monkeypatch.setattr(engine, "SECONDS_BETWEEN_LOOKS", 0.02)
    variables = {**os.environ, "PYTHONPATH": with_path(tmp_path)}

    def make(name, text):
        (tmp_path / f"{name}.py").write_text(text)
        return Command(name, (name,), tmp_path / "logs" / f"{name}.txt")

    return make, lambda jobs: Processes(jobs, variables)
