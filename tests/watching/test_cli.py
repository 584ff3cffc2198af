"""The command: what it writes, and one clear line for what it cannot do."""

import json
import sys

import pytest

from delayzero import files
from delayzero.cli import main
from delayzero.runs.run_folder import RunFolder
from delayzero.watching import cli

from ..training.small import begun_run, small


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of the agent that decides at random."""
    folder = tmp_path_factory.mktemp("watched") / "run"
    return begun_run(folder, agent="random", delay="walk:2")


def told(words, capsys):
    """The one line that a command answers with."""
    capsys.readouterr()
    assert main(["watch", *map(str, words)]) == 2
    (line,) = [
        line for line in capsys.readouterr().err.splitlines() if not line.startswith("play ")
    ]
    return line.removeprefix("delayzero: error: ")


def test_the_files_are_written_into_the_run(run, capsys):
    before = set(run.iterdir())
    assert main(["watch", str(run), "--steps", "4", "--episodes", "2", "--fps", "5"]) == 0
    captured = capsys.readouterr()
    names = [f"watch.{kind}" for kind in ("mp4", "gif", "html")]
    assert captured.out.splitlines() == [str(run / name) for name in names]
    assert "random: 4 (goes on after 4 steps), 4 (goes on after 4 steps)" in captured.err
    assert {path.name for path in set(run.iterdir()) - before} == set(names)
    for path, mark in zip(names, (b"ftyp", b"GIF89a", b"<!doctype html>"), strict=True):
        assert mark in (run / path).read_bytes()[:20]


def test_beside_another_run(run, tmp_path):
    """Both play under the delays of the first, with its seed."""
    other = begun_run(tmp_path / "other", agent="random", delay="constant:1", seed=9)
    out = tmp_path / "new" / "page.html"
    words = [str(run), "--beside", str(other), "--steps", "6", "--out", str(out)]
    assert main(["watch", *words]) == 0
    text = out.read_text()
    data = json.loads(text.split('id="data">')[1].split("</script>")[0])
    first, second = (episodes[0] for episodes in data["runs"])
    assert (first["run"], second["run"]) == ("run", "other")
    assert first["law"] == second["law"] == "walk:2"
    assert first["frames"][0] == second["frames"][0], "the same seed of the environment"
    assert [m["delay"] for m in first["moments"]] == [m["delay"] for m in second["moments"]]
    assert f"--beside {other}" in text


def test_another_law(run, tmp_path):
    out = tmp_path / "page.html"
    words = ["watch", str(run), "--delay", "constant:4", "--steps", "3", "--out", str(out)]
    assert main(words) == 0
    assert '"law":"constant:4"' in out.read_text()


def test_folders_that_hold_nothing_to_watch(run, tmp_path, capsys):
    assert "holds no run" in told([tmp_path / "nowhere"], capsys)
    assert not (tmp_path / "nowhere").exists()
    begun = RunFolder(tmp_path / "begun")
    begun.open(small(tmp_path / "begun"), ["delayzero"])
    assert "has no checkpoint yet" in told([tmp_path / "begun"], capsys)
    assert "holds no run" in told([run, "--beside", tmp_path], capsys)


def test_a_run_of_another_version(tmp_path, capsys):
    run = begun_run(tmp_path, agent="random")
    settings = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps({**settings, "warp": 9}))
    line = told([run], capsys)
    assert "warp" in line
    assert "another version" in line


def test_a_file_is_no_run(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert (
        told([tmp_path / "file"], capsys)
        == f"{tmp_path / 'file'} is a file; type the folder of a run"
    )


def test_runs_that_do_not_go_together(run, tmp_path, capsys):
    other = begun_run(tmp_path / "other", agent="random", env="MountainCar-v0")
    assert "plays MountainCar-v0, and" in told([run, "--beside", other], capsys)


@pytest.mark.slow
def test_delays_that_an_agent_cannot_act_under(tmp_path, capsys):
    augmented = begun_run(tmp_path / "augmented", agent="augmented", delay="walk:1")
    hidden = begun_run(tmp_path / "hidden", agent="random", delay="walk:1", reveal="never")
    assert "must know the delay" in told([hidden, "--beside", augmented], capsys)
    late = begun_run(
        tmp_path / "late", agent="random", delay="walk:1", observation_delay="constant:1"
    )
    assert "cannot act on late observations" in told([late, "--beside", augmented], capsys)
    assert "sees no longer queue" in told([augmented, "--delay", "constant:3"], capsys)


def test_an_environment_without_pictures(tmp_path, capsys):
    run = begun_run(tmp_path, agent="random", env="delayzero/Identity-v0", delay="walk:1")
    before = set(run.iterdir())
    assert "'delayzero/Identity-v0' has no pictures" in told([run], capsys)
    assert set(run.iterdir()) == before


def test_code_is_run_for_those_who_trust_it(tmp_path, monkeypatch, capsys):
    (tmp_path / "mine.py").write_text(
        "import gymnasium as gym\n"
        "def make(render_mode=None):\n"
        "    return gym.make('CartPole-v1', render_mode=render_mode)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    run = begun_run(tmp_path / "run", agent="random", env="mine:make")
    assert "type --trust" in told([run], capsys)
    assert main(["watch", str(run), "--trust", "--steps", "2", "--out", "a.html"]) == 0


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--out", "a.avi"], "--out a.avi has '.avi'; type a name that ends in .mp4, .gif, .html"),
        (["--out", "a"], "--out a has no ending; type a name that ends in .mp4, .gif, .html"),
        (["--out", "folder.gif"], "--out folder.gif is a folder; type the name of a file"),
        (["--out", "file/a/b.gif"], "--out file/a/b.gif lies inside a file; type another folder"),
        (["--episodes", "0"], "should be at least 1"),
        (["--fps", "0"], "should be between 1 and 60"),
        (["--seed", "9" * 23], "should be between 0 and 2147483647"),
        (["--delay", "wlk:5"], "wlk"),
        (["--delay", "callback:os:getcwd"], "callback"),
    ],
)
def test_wrong_words(words, line, run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.gif").mkdir()
    (tmp_path / "file").touch()
    assert line in told([run, *words], capsys)


def test_what_cannot_be_written_leaves_the_old_file(run, tmp_path, monkeypatch, capsys):
    out = tmp_path / "a.html"
    out.write_text("old")

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    assert main(["watch", str(run), "--steps", "2", "--out", str(out)]) == 2
    assert "there is no space left on the disk for" in capsys.readouterr().err
    assert out.read_text() == "old"
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("missing", ["av", "PIL"])
def test_without_the_extra(missing, run, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.setattr(cli, "require_training", lambda: None)
    monkeypatch.setitem(sys.modules, "PIL.Image", None) if missing == "PIL" else None
    line = told([run], capsys)
    assert line == f"{missing} is not installed; type: pip install 'delayzero[watch]'"
