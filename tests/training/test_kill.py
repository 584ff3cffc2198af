"""Runs that are killed without warning, again and again, end with the same bits as whole ones."""

import json
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
POLL = 0.01
"""Seconds."""
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
    with (tmp_path / "log").open("ab") as log:
        return subprocess.Popen(command, env=variables, stdout=log, stderr=log)


def touched(path, since):
    """Whether something happened to a file or folder after a time."""
    try:
        return path.stat().st_ctime_ns >= since
    except FileNotFoundError:
        return False


def being_written(folder, since):
    """Whether a checkpoint is on its way to the disk, begun after a time."""
    unfinished = folder.glob("checkpoints/*orbax-checkpoint-tmp*")
    return any(touched(path, since) for path in unfinished)


def sealed(folder):
    """The numbers of the checkpoints that are complete."""
    try:
        return set(json.loads((folder / "checkpoints" / "checksums.json").read_text()))
    except FileNotFoundError:
        return set()


def kill(words, folder, tmp_path, rng):
    """Start a run and kill it; None if it ends before, or whether a checkpoint was left unfinished.

    Some are killed at any moment from the start on: while they import, compile and restore. Those
    take far longer than a round, so the time of the others counts from their first checkpoint; most
    of them are killed while they write one.
    """
    since, process = time.time_ns(), begin(words, folder, tmp_path)
    kind = rng.choice(["starting", "working", "writing"], p=[0.2, 0.2, 0.6])
    after, into = rng.uniform(0, 10 if kind == "starting" else 2), rng.uniform(0, 0.3)
    works, sums = kind == "starting", folder / "checkpoints" / "checksums.json"
    while process.poll() is None:
        works = works or touched(sums, since)
        works = works or (not sums.exists() and being_written(folder, since))  # the very first
        after -= POLL if works else 0
        if after < 0 and (kind != "writing" or being_written(folder, since)):
            break
        time.sleep(POLL)
    if kind == "writing":
        time.sleep(into)
    if process.poll() is not None:
        assert process.returncode == 0, f"it ended with {process.returncode} by itself"
        return None
    process.send_signal(signal.SIGKILL)
    process.wait()
    found = {path.name for path in folder.glob("checkpoints/*") if path.name.isdigit()}
    return being_written(folder, since) or not found <= sealed(folder)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_killed_runs_end_with_the_same_bits(case, tmp_path):
    rng, words = np.random.default_rng(0), CASES[case]
    whole, kills, runs = tmp_path / "whole", [], 0
    assert begin(words, whole, tmp_path).wait(600) == 0
    while len(kills) < KILLS:
        folder, runs = tmp_path / f"run{runs}", runs + 1
        while len(kills) < KILLS:
            writing = kill(words, folder, tmp_path, rng)
            if writing is None:
                break
            kills.append(writing)
        assert begin(words, folder, tmp_path).wait(600) == 0, (tmp_path / "log").read_text()[-2000:]
        assert_same_runs(whole, folder)
        assert runs <= len(kills), "runs end before they can be killed"
    resumed = (tmp_path / "log").read_text().count("resumed at")
    print(f"{case}: {len(kills)} kills in {runs} runs, {sum(kills)} of them while a checkpoint was")
    print(f"written; {resumed} resumptions")
    assert sum(kills) >= KILLS // 4, "too few while a checkpoint was written"
    assert resumed >= KILLS // 2, "too few after the first checkpoint"
