"""Power cuts, as far as they can be simulated: files cut short, names lost, halves left behind.

A run that is resumed after one has exactly the state of one of its two checkpoints, or is refused
in one line. And what a run promises to keep is brought to the disk in an order that no cut breaks.
"""

import hashlib
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest

from delayzero.arguments import UsageError
from delayzero.replay import arrays_of
from delayzero.training import loop
from delayzero.training.loop import train

from .small import EVERY_ROUND, Crash, NotCompiled, crash_after, small

COMMAND = ["delayzero", "train", "test"]
WHOLE = (
    "config.json",
    "spaces.json",
    "starts.jsonl",
    "metrics.jsonl",
    "checkpoints/checksums.json",
)
RESULTS = ("result.json", "episodes.jsonl")
BEGUN_AGAIN = "begun again"
FINISHED = "finished"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The settings of a run that crashed after some checkpoints, and of one that finished."""
    config = small(
        tmp_path_factory.mktemp("power") / "interrupted",
        checkpoint_minutes=EVERY_ROUND,
        final_episodes=1,
        final_max_steps=4,
    )
    finished = replace(config, folder=str(Path(config.folder).parent / "finished"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "Programs", NotCompiled)
        crash_after(patch, 30)
        with pytest.raises(Crash):
            train(config, COMMAND)
        shutil.copytree(config.folder, finished.folder)
        train(finished, COMMAND)
    return {"interrupted": config, "finished": finished}


def digest(trainer, rounds):
    """A digest of everything that a run continues with."""
    playing, environments = trainer.collector.state()
    trees = (
        trainer.learning.state,
        arrays_of(trainer.learning.replay, frames=True),
        playing,
    )
    made = hashlib.sha256(json.dumps([rounds, environments], sort_keys=True).encode())
    made.update(json.dumps(trainer.learning.numbers(), sort_keys=True).encode())
    for leaf in jax.tree.leaves(trees):
        if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        made.update(np.ascontiguousarray(leaf).tobytes())
    return made.hexdigest()


def resumed(config, monkeypatch):
    """The state that a run resumes with."""
    seen = []

    def run(self):
        begun = self.checkpoints.latest() is not None
        seen.append(digest(self, self.checkpoints.restore()) if begun else BEGUN_AGAIN)
        return False

    with monkeypatch.context() as patch:
        patch.setattr(loop, "Programs", NotCompiled)
        patch.setattr(loop.Trainer, "run", run)
        train(config, COMMAND)
    return seen[0] if seen else FINISHED


def newest_two(folder):
    found = [path for path in (folder / "checkpoints").iterdir() if path.name.isdigit()]
    return sorted(found, key=lambda path: int(path.name))


def some(rng, choices):
    return choices[int(rng.integers(len(choices)))]


def cut(rng, folder):
    """Cut a file short, perhaps to nothing."""
    files = sorted(path for path in newest_two(folder)[-1].rglob("*") if path.is_file())
    others = [folder / name for name in (*WHOLE, *RESULTS) if (folder / name).exists()]
    path = some(rng, files if rng.random() < 0.4 else others)
    size = path.stat().st_size
    length = 0 if rng.random() < 0.3 else int(rng.integers(max(1, size)))
    os.truncate(path, length)
    return f"{path.relative_to(folder)} cut to {length} of {size} bytes"


def lose_file(rng, folder):
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "lock"]
    path = some(rng, files)
    path.unlink()
    return f"{path.relative_to(folder)} lost"


def lose_folder(rng, folder):
    """Lose a folder: of a checkpoint, or inside the newest."""
    newest = newest_two(folder)[-1]
    inside = sorted(path for path in newest.rglob("*") if path.is_dir())
    path = some(rng, [*newest_two(folder), *inside, folder / "tensorboard"])
    shutil.rmtree(path)
    return f"{path.relative_to(folder)} lost"


def leave_unfinished(rng, folder):
    """Leave the newest checkpoint as orbax leaves one that it has not finished."""
    newest = newest_two(folder)[-1]
    newest.rename(newest.with_name(f"{newest.name}.orbax-checkpoint-tmp"))
    sums = folder / "checkpoints" / "checksums.json"
    sealed = json.loads(sums.read_text())
    if rng.random() < 0.7:
        del sealed[newest.name]
        sums.write_text(json.dumps(sealed))
    return f"{newest.name} unfinished, {'not ' if newest.name not in sealed else ''}sealed"


def leave_halves(rng, folder):
    """Leave temporary files half written, and a checkpoint that was never sealed."""
    names = [name for name in (*WHOLE, *RESULTS) if (folder / name).exists()]
    for name in names:
        path = folder / name
        half = path.read_bytes()[: int(rng.integers(path.stat().st_size + 1))]
        path.with_name(f".{path.name}.unfinished").write_bytes(half)
    newest = newest_two(folder)[-1]
    later = newest.with_name(str(int(newest.name) + 1))
    shutil.copytree(newest, later)
    largest = max((path for path in later.rglob("*") if path.is_file()), key=os.path.getsize)
    os.truncate(largest, largest.stat().st_size // 2)
    return "temporary files left"


CUTS = (cut, cut, cut, lose_file, lose_folder, leave_unfinished, leave_halves)


def check(runs, which, tmp_path, monkeypatch, cuts):
    """Resume after each cut."""
    folder = tmp_path / "run"
    config = replace(runs[which], folder=str(folder))

    def fresh():
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(runs[which].folder, folder)

    fresh()
    (folder / "result.json").unlink(missing_ok=True)
    states = [resumed(config, monkeypatch)]
    shutil.rmtree(newest_two(folder)[-1])
    states.append(resumed(config, monkeypatch))
    assert len({*states, BEGUN_AGAIN, FINISHED}) == 4
    allowed = {*states, FINISHED} if which == "finished" else set(states)
    told, wrong = [], []
    for what, rng in cuts:
        fresh()
        how = what(rng, folder)
        try:
            state = resumed(config, monkeypatch)
            wrong += [] if state in allowed else [f"{how}: resumed with {state}"]
        except UsageError as error:
            told.append(str(error))
            helps = any(word in told[-1] for word in ("delete", "restore", "type"))
            wrong += [] if helps and "\n" not in told[-1] else [f"{how}: {error}"]
        except Exception as error:
            wrong.append(f"{how}: {error!r}")
    assert not wrong, "\n".join(wrong)
    return told


def drawn(count, seed):
    rng = np.random.default_rng(seed)
    return [(some(rng, CUTS), rng) for _ in range(count)]


@pytest.mark.slow
def test_a_power_cut(runs, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    cuts = [(what, rng) for what in (cut, lose_file, leave_unfinished, leave_halves)]
    check(runs, "interrupted", tmp_path, monkeypatch, cuts)


@pytest.mark.slow
@pytest.mark.parametrize("which", ["interrupted", "finished"])
def test_many_power_cuts(which, runs, tmp_path, monkeypatch):
    told = check(runs, which, tmp_path, monkeypatch, drawn(100, seed=1))
    assert len(told) > (20 if which == "interrupted" else 3)


class Recorder:
    """Notes what reaches the disk, and in which order.

    Attributes:
        events: ``("fsync", path)``, and ``("replace", path)`` for the new name of a file.
    """

    def __init__(self, monkeypatch):
        self.events = []
        fsync, move = os.fsync, os.replace

        def note_fsync(handle):
            self.events.append(("fsync", Path(os.readlink(f"/proc/self/fd/{handle}"))))
            fsync(handle)

        def note_replace(source, target, **options):
            self.events.append(("replace", Path(target)))
            move(source, target, **options)

        monkeypatch.setattr(os, "fsync", note_fsync)
        monkeypatch.setattr(os, "replace", note_replace)

    def at(self, kind, path, after=-1):
        """The place of the first such event after another."""
        for place, event in enumerate(self.events):
            if place > after and event == (kind, path):
                return place
        raise AssertionError(f"{path}: no {kind} after event {after}")


def test_what_a_run_promises_reaches_the_disk_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "Programs", NotCompiled)
    folder = tmp_path / "new" / "run"
    config = small(folder, agent="random", final_episodes=1, final_max_steps=4)
    recorder = Recorder(monkeypatch)
    assert train(config, COMMAND).finished
    checkpoints = folder / "checkpoints"
    sums = checkpoints / "checksums.json"
    for path in (
        folder / "config.json",
        folder / "spaces.json",
        sums,
        *map(folder.joinpath, RESULTS),
    ):
        moved = recorder.at("replace", path)
        written = recorder.at("fsync", path.with_name(f".{path.name}.unfinished"))
        assert written < moved, f"{path} has its name before its text"
        recorder.at("fsync", path.parent, after=moved)
    told = [recorder.at("replace", folder / name) for name in reversed(RESULTS)]
    assert told == sorted(told), "the episodes are there before the result"
    recorder.at("fsync", folder.parent)
    recorder.at("fsync", tmp_path)
    recorder.at("fsync", folder, after=recorder.at("fsync", folder / "starts.jsonl"))
    (newest,) = newest_two(folder)
    sealed = max(i for i, event in enumerate(recorder.events) if event == ("replace", sums))
    inside = [newest, *newest.rglob("*")]
    assert len(inside) > 5
    for path in (folder / "metrics.jsonl", *inside, checkpoints, folder):
        assert recorder.at("fsync", path) < sealed, f"{path} is not on the disk when sealed"
