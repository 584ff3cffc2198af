"""Runs that are killed without warning, again and again, end with the same bits as whole ones."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from .small import assert_same_runs

KILLS = 20
"""For each case: a hundred in all."""
SMALL = ("--model.latent", "8", "--model.width", "16", "--model.lstm", "8", "--model.support", "10")
SMALL += ("--prediction-rows", "0")
CARTPOLE = ("cartpole", "debug", "--delay", "walk:3")
CASES = {
    "dez": (*CARTPOLE, *SMALL),
    "overlap": (*CARTPOLE, "--overlap", "True", *SMALL),
    "late": (*CARTPOLE, "--observation-delay", "uniform:0-2", *SMALL),
    "delayed-q": (*CARTPOLE, "--agent", "delayed-q"),
    "atari": ("atari", "debug", "--delay", "walk:3", "--model.kind", "mlp", *SMALL),
}


def begin(words, folder, tmp_path):
    """Start a run in a process of its own; compiled programs are shared by all."""
    variables = {**os.environ, "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "compiled")}
    command = [sys.executable, "-m", "delayzero", "train", *words, "--folder", str(folder)]
    command += ["--checkpoint-minutes", "1e-9", "--interactions", "400"]
    log = (tmp_path / "log").open("ab")
    return subprocess.Popen(command, env=variables, stdout=log, stderr=log)


def being_written(folder):
    """Whether a checkpoint is on its way to the disk."""
    return any("orbax-checkpoint-tmp" in path.name for path in folder.glob("checkpoints/*"))


def kill(process, folder, rng):
    """Kill a run at a random moment, often while it writes; return False if it ends before."""
    writing, after = rng.random() < 0.7, rng.uniform(0, 3)
    while process.poll() is None:
        if (folder / "checkpoints").exists():
            after -= 0.01
            if (writing and being_written(folder)) or after < 0:
                break
        time.sleep(0.01)
    if process.poll() is not None:
        assert process.returncode == 0, f"it ended with {process.returncode} by itself"
        return False
    process.send_signal(signal.SIGKILL)
    process.wait()
    return True


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_killed_runs_end_with_the_same_bits(case, tmp_path):
    rng, words = np.random.default_rng(0), CASES[case]
    whole, killed, runs = tmp_path / "whole", 0, 0
    assert begin(words, whole, tmp_path).wait(600) == 0
    while killed < KILLS:
        folder, runs = tmp_path / f"run{runs}", runs + 1
        while killed < KILLS and kill(begin(words, folder, tmp_path), folder, rng):
            killed += 1
        assert begin(words, folder, tmp_path).wait(600) == 0, (tmp_path / "log").read_text()[-2000:]
        assert_same_runs(whole, folder)
        assert runs <= killed, "runs end before they can be killed"
