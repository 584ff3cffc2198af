"""A disk that is really full: a small file system of memory, which only root can mount.

Every command says so in one line, and works when it is typed again after space was freed.
"""

import json
import subprocess
from dataclasses import replace

import pytest

from delayzero.cli import main
from delayzero.runs.checksums import Checksums
from delayzero.tabular import theory
from delayzero.training import evaluating, loop

from .evaluation.compare.test_run import WORDS, started  # noqa: F401
from .evaluation.test_paper import finished_run
from .training.small import (
    EVERY_ROUND,
    SharedPrograms,
    act_after,
    assert_same_runs,
    begun_run,
    newest,
    small,
)
from .training.test_checkpoint import flags

SPACE = 16 << 20
"""Bytes of the disk."""


class Disk:
    """A disk that can be filled."""

    def __init__(self, path):
        self.path = path
        self._ballast = path / "ballast"

    def fill(self):
        """Leave no space."""
        with self._ballast.open("ab", buffering=0) as file:
            try:
                while file.write(bytes(4096)) == 4096:
                    pass
            except OSError as error:
                assert error.errno == 28  # noqa: PT017

    def free(self):
        self._ballast.unlink()


@pytest.fixture
def disk(tmp_path):
    place = tmp_path / "disk"
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", f"size={SPACE}", "tmpfs", str(place)]
    try:
        subprocess.run(words, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"a file system cannot be mounted here: {error}")
    yield Disk(place)
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def command(config):
    """The command line of a small run."""
    settings = {"env": config.env, "agent": config.agent, "folder": config.folder}
    settings |= {name: getattr(config, name) for name in ("interactions", "checkpoint_minutes")}
    settings |= {"final_episodes": 1, "final_max_steps": 4, "log_every": config.log_every}
    if config.agent == "dez":
        model = {"latent": 8, "width": 16, "lstm": 8, "support": 10, "channels": 8, "head": 8}
        settings |= {"model": model, "prediction_rows": 0}
    return ["train", "cartpole", "debug", *flags(settings)]


def refused(words, capfd):
    """The one line that a command prints when it finds no space."""
    capfd.readouterr()
    assert main(words) == 2
    told = capfd.readouterr().err
    errors = [line for line in told.splitlines() if "rror" in line or "Traceback" in line]
    assert len(errors) == 1, told
    assert errors[0].startswith("delayzero: error: there is no space left on the disk for ")
    assert "free some, and type the same command" in errors[0]
    return errors[0]


@pytest.mark.parametrize("agent", ["random", pytest.param("dez", marks=pytest.mark.slow)])
def test_a_checkpoint_that_does_not_fit(agent, disk, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(loop, "Programs", SharedPrograms)
    config = small(tmp_path / "whole", agent=agent, checkpoint_minutes=EVERY_ROUND)
    assert main(command(config)) == 0
    run = disk.path / "run"
    words = command(replace(config, folder=str(run)))
    with monkeypatch.context() as patch:
        act_after(patch, 30, disk.fill)
        told = refused(words, capfd)
    kept = newest(run)
    assert f"for a checkpoint in {run / 'checkpoints'} ({kept.name} is intact)" in told
    assert Checksums(kept.parent).damaged(int(kept.name)) is None
    refused(words, capfd)
    assert newest(run) == kept
    disk.free()
    assert main(words) == 0
    assert "resumed at" in capfd.readouterr().err
    assert_same_runs(tmp_path / "whole", run)


@pytest.mark.parametrize("name", ["metrics.jsonl", "tensorboard"])
def test_metrics_that_do_not_fit(name, disk, tmp_path, capfd, monkeypatch):
    """They alone are on the full disk."""
    config = small(tmp_path / "whole", agent="random", log_every=1, interactions=1000)
    assert main(command(config)) == 0
    run, place = tmp_path / "run", disk.path / name
    place.touch() if "." in name else place.mkdir()
    run.mkdir()
    (run / name).symlink_to(place)
    words = command(replace(config, folder=str(run)))
    with monkeypatch.context() as patch:
        act_after(patch, 10, disk.fill)
        assert f"'{run}/{name}" in refused(words, capfd)
    disk.free()
    assert main(words) == 0
    assert_same_runs(tmp_path / "whole", run)


def test_a_result_that_does_not_fit(disk, tmp_path, capfd, monkeypatch):
    config = small(tmp_path / "whole", agent="random")
    assert main(command(config)) == 0
    run, play = disk.path / "run", evaluating.Evaluator.play
    words = command(replace(config, folder=str(run)))

    def fill_and_play(*arguments):
        disk.fill()
        return play(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(evaluating.Evaluator, "play", fill_and_play)
        told = refused(words, capfd)
    assert f"'{run}/episodes.jsonl'" in told
    assert not (run / "result.json").exists()
    assert not list(run.glob(".*")), "what was not finished is deleted"
    disk.free()
    assert main(words) == 0
    assert_same_runs(tmp_path / "whole", run)
    (run / "result.json").unlink()
    write = evaluating.write_json

    def fill_and_write(*arguments):
        disk.fill()
        write(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(evaluating, "write_json", fill_and_write)
        assert f"'{run}/result.json'" in refused(words, capfd)
    disk.free()
    assert main(words) == 0
    assert_same_runs(tmp_path / "whole", run)


def test_a_run_that_cannot_begin(disk, capfd):
    disk.fill()
    words = command(small(disk.path / "run", agent="random"))
    refused(words, capfd)
    disk.free()
    assert main(words) == 0


def test_curves_that_do_not_fit(disk, tmp_path, capfd):
    (tmp_path / "metrics.jsonl").write_text('{"interactions": 1, "selfplay/score": 2.0}\n')
    words = ["curves", str(tmp_path), "--save", str(disk.path / "curves.png")]
    disk.fill()
    assert f"'{disk.path}/curves.png'" in refused(words, capfd)
    disk.free()
    assert main(words) == 0


@pytest.mark.slow
def test_theory_that_does_not_fit(disk, capfd, monkeypatch):
    monkeypatch.setattr(theory, "SIZES", theory.SIZES[:1])
    monkeypatch.setattr(theory, "FAMILIES", ("deterministic",))
    monkeypatch.setattr(theory, "SWEEP_LAWS", ("constant:1",))
    folder = disk.path / "theory"
    words = ["theory", "--problems", "2", "--save", str(folder)]
    disk.fill()
    assert f"'{folder}" in refused(words, capfd)
    disk.free()
    folder.mkdir(exist_ok=True)
    disk.fill()
    assert f"'{folder}/theorem_1.csv'" in refused(words, capfd)
    assert list(folder.iterdir()) == []
    disk.free()
    assert main(words) == 0
    assert len(list(folder.iterdir())) == 5


def test_a_comparison_that_does_not_fit(disk, started, capfd, monkeypatch):  # noqa: F811
    monkeypatch.chdir(disk.path)
    words = ["compare", *WORDS, "--evaluate-delays"]
    assert main(words) == 0
    place = disk.path / "here" / "compare.json"
    before = place.read_text()
    disk.fill()
    assert "'here/compare.json'" in refused(words, capfd)
    assert place.read_text() == before
    disk.free()
    assert main(words) == 0
    assert json.loads(place.read_text()) == json.loads(before)


@pytest.mark.slow
def test_records_that_do_not_fit(disk, tmp_path, capfd):
    run, records = finished_run(tmp_path / "run"), disk.path / "records"
    words = ["results", "add", str(run), "--folder", str(records)]
    disk.fill()
    assert f"'{records}" in refused(words, capfd)
    disk.free()
    assert main(words) == 0
    for words, place in (
        (["report", str(records), "--out", str(disk.path / "r.html")], disk.path / "r.html"),
        (["results", "figures", str(records), "--out", str(disk.path / "f")], disk.path / "f"),
    ):
        disk.fill()
        assert f"'{place}" in refused(words, capfd)
        assert not list(disk.path.rglob(".*")), "what was not finished is deleted"
        disk.free()
        assert main(words) == 0
    page = disk.path / "results.md"
    words = ["results", "table", str(records), "--out", str(page)]
    disk.fill()
    assert f"'{page}'" in refused(words, capfd)
    disk.free()
    assert main(words) == 0


@pytest.mark.parametrize("kind", ["mp4", "gif", "html"])
def test_a_video_that_does_not_fit(kind, disk, tmp_path, capfd):
    run, out = begun_run(tmp_path / "run", agent="random"), disk.path / f"watch.{kind}"
    words = ["watch", str(run), "--steps", "3", "--out", str(out)]
    disk.fill()
    assert f"'{out}'" in refused(words, capfd)
    assert [path.name for path in disk.path.iterdir()] == ["ballast"]
    disk.free()
    assert main(words) == 0
