import json
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import datetime

import pytest

from delayzero.arguments import UsageError
from delayzero.cli import main
from delayzero.runs import machine, run_folder
from delayzero.runs.run_folder import RunFolder, changed_settings, command_line
from delayzero.settings import PlanningConfig
from delayzero.training.loop import train

from .small import metrics_of, small

PROMISED = {
    *("interactions", "updates", "seconds", "loss", "gradient/norm", "learning_rate"),
    *("policy/target_entropy", "policy/network_entropy", "value/target", "value/network"),
    *("value/error", "prefix/error", "consistency/cosine", "target/age"),
    *("loss/policy", "loss/value", "loss/prefix", "loss/consistency"),
    *("seconds/acting", "seconds/sweeping", "seconds/updating", "seconds/evaluating"),
    *("health/value_explained", "health/reward_recall"),  # its prefixes never vary
    *("health/weight_mean", "health/weight_effective", "health/dead_units"),
    *("health/latent_rank", "health/action_sensitivity", "seconds/checking"),
}


def test_the_files_of_a_finished_run(whole_run):
    config = small(whole_run)
    assert RunFolder(whole_run).config() == config
    (start,) = starts_of(whole_run)
    assert start["command"] == "delayzero train 'two words'"
    assert datetime.fromisoformat(start["time"]).tzinfo is not None
    versions = start["versions"]
    assert {"delayzero", "python", "jax", "numpy", "commit", "device"} <= set(versions)
    result = json.loads((whole_run / "result.json").read_text())
    episodes = [json.loads(s) for s in (whole_run / "episodes.jsonl").read_text().splitlines()]
    assert result["scores"] == [episode["score"] for episode in episodes]
    assert result["score"] == pytest.approx(sum(result["scores"]) / config.final_episodes)
    assert result["updates"] == config.total_updates
    assert 0 <= result["interactions"] - config.interactions < config.envs
    assert result["versions"] == versions


@pytest.mark.parametrize(("asked", "begun", "then"), [
    ("auto", "bfloat16", "bfloat16"),
    ("auto", "float32", "float32"),
    ("float32", "bfloat16", "float32"),
])  # fmt: skip
def test_a_resumed_run_keeps_its_data_type(asked, begun, then, tmp_path):
    """Whatever data type the next machine would choose for auto."""
    config = small(tmp_path)
    config = replace(config, model=replace(config.model, dtype=asked))
    folder = RunFolder(tmp_path)
    assert folder.as_begun(config) == config
    folder.open(config, ["delayzero"])
    (start,) = starts_of(tmp_path)
    assert start["dtype"] == "float32"
    given_up = {**start, "dtype": "float32" if begun == "bfloat16" else "bfloat16"}
    lines = [json.dumps(line) + "\n" for line in (given_up, {**start, "dtype": begun})]
    (tmp_path / "starts.jsonl").write_text("".join(lines))
    assert folder.as_begun(config) == config, "there is nothing to resume yet"
    (tmp_path / "checkpoints" / "3").mkdir(parents=True)
    assert folder.as_begun(config).model.dtype == then
    folder.close()
    folder.open(config, ["delayzero"])
    assert [start["dtype"] for start in starts_of(tmp_path)][1:] == [begun, then]
    assert folder.config() == config
    folder.close()


def test_the_commit_of_another_project_is_not_ours(tmp_path, monkeypatch):
    """Installed in an environment inside a repository that ignores it."""
    assert len((machine.commit() or "").rstrip("*")) in (0, 40)
    copy = tmp_path / "venv" / "machine.py"
    copy.parent.mkdir()
    copy.write_text("")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "other"], check=True)
    monkeypatch.setattr(machine, "__file__", str(copy))
    assert machine.commit() is None
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "ours"], check=True)
    assert len(machine.commit()) == 40


def test_every_line_of_metrics_has_what_was_promised(whole_run):
    lines = [json.loads(s) for s in (whole_run / "metrics.jsonl").read_text().splitlines()]
    learned = [line for line in lines if line["updates"]]
    assert len(lines) > len(learned) >= 5
    config = small()
    for line in learned:
        assert set(line) >= PROMISED
        assert len(line["value/error"]) == config.learner.unroll + 1
        assert len(line["prefix/error"]) == config.learner.unroll
        assert 0 <= line["target/age"] <= line["updates"]
        assert 0 < line["policy/target_entropy"] < 0.7
    assert all("selfplay/score" in line for line in learned)
    assert [line["interactions"] for line in lines] == sorted(
        line["interactions"] for line in lines
    )
    # The exact number of updates at every moment, and the tail at the end.
    for line in lines[:-1]:
        assert line["updates"] == config.updates_due(line["interactions"])
    assert lines[-1]["updates"] == config.total_updates


def test_tensorboard_reads_the_same(whole_run):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(whole_run / "tensorboard"))
    events.Reload()
    tags = set(events.Tags()["scalars"])
    assert PROMISED - {"interactions", "value/error", "prefix/error"} <= tags
    assert {"value/error_0", "value/error_2", "prefix/error_1"} <= tags
    losses = [
        (line["interactions"], line["loss"]) for line in metrics_of(whole_run) if "loss" in line
    ]
    read = [(event.step, event.value) for event in events.Scalars("loss")]
    assert [step for step, _ in read] == [step for step, _ in losses]
    assert [value for _, value in read] == pytest.approx([value for _, value in losses], rel=1e-6)


def contents(folder):
    return {p: (p.stat().st_mtime_ns, p.is_file() and p.read_bytes()) for p in folder.rglob("*")}


def test_a_finished_run_says_so_and_stays_as_it_is(whole_run, capsys):
    before = contents(whole_run)
    for free in ({}, {"log_every": 99}):
        assert train(small(whole_run, **free), ["delayzero", "train", "again"]).finished
        assert "is finished; its result is in" in capsys.readouterr().err
    with pytest.raises(UsageError, match=r"different settings: seed 0 \(now 1\)"):
        train(small(whole_run, seed=1), ["delayzero"])
    assert contents(whole_run) == before


def starts_of(folder):
    return [json.loads(line) for line in (folder / "starts.jsonl").read_text().splitlines()]


def opened(folder, config):
    run = RunFolder(folder)
    run.open(config, ["delayzero"])
    run._lock.close()


def test_other_settings_are_refused_by_name(tmp_path):
    config = small(tmp_path)
    opened(tmp_path, config)
    (tmp_path / "checkpoints" / "5").mkdir(parents=True)
    other = replace(config, envs=8, learner=replace(config.learner, learning_rate=0.5))
    with pytest.raises(
        UsageError, match=r"envs 4 \(now 8\), learner.learning_rate 0.001 \(now 0.5"
    ):
        RunFolder(tmp_path).open(other, ["delayzero"])
    assert RunFolder(tmp_path).config() == config
    free = replace(config, log_every=99, checkpoint_minutes=1.0, folder="elsewhere")
    opened(tmp_path, free)
    assert RunFolder(tmp_path).config() == free
    assert [start["command"] for start in starts_of(tmp_path)] == ["delayzero"] * 2


def test_scores_of_weights_that_are_gone_are_forgotten(tmp_path):
    """A run without a checkpoint begins again; those scores were of other weights."""
    config, scores = small(tmp_path), tmp_path / "by_delay.json"
    opened(tmp_path, config)
    (tmp_path / "checkpoints" / "5").mkdir(parents=True)
    scores.write_text('{"constant:0": [9.0]}')
    opened(tmp_path, config)
    assert scores.exists()
    shutil.rmtree(tmp_path / "checkpoints")
    opened(tmp_path, config)
    assert not scores.exists()


def test_changed_settings_are_listed_with_both_values():
    config = PlanningConfig()
    assert changed_settings(config, config) == []
    other = replace(config, seed=3, learner=replace(config.learner, unroll=9), label="x")
    assert changed_settings(config, other) == [
        f"seed {config.seed} (now 3)",
        f"learner.unroll {config.learner.unroll} (now 9)",
    ]


def test_the_versions_of_the_first_start_stay(tmp_path, monkeypatch):
    for version in ("1", "2"):
        monkeypatch.setattr(run_folder, "versions", lambda env, version=version: {"jax": version})
        opened(tmp_path, PlanningConfig())
    assert [start["versions"]["jax"] for start in starts_of(tmp_path)] == ["1", "2"]


def test_two_processes_are_refused(tmp_path):
    code = (
        "import sys, pathlib\n"
        "from delayzero.runs.run_folder import RunFolder\n"
        "from delayzero.settings.run import PlanningConfig\n"
        "run = RunFolder(pathlib.Path(sys.argv[1]))\n"
        "run.open(PlanningConfig(), ['other'])\n"
        "print('open', flush=True)\n"
        "sys.stdin.read()\n"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert other.stdout.readline() == "open\n"
        said = f"another process is training \\(process {other.pid} on .*\\) in {tmp_path};"
        with pytest.raises(UsageError, match=said):
            RunFolder(tmp_path).open(PlanningConfig(), ["mine"])
        (tmp_path / "checkpoints" / "3").mkdir(parents=True)  # one that the other is writing
        with pytest.raises(UsageError, match=said):
            train(small(tmp_path), ["mine"])
        shutil.rmtree(tmp_path / "checkpoints")
    finally:
        other.communicate(timeout=30)
    opened(tmp_path, PlanningConfig())
    assert [start["command"] for start in starts_of(tmp_path)] == ["other", "delayzero"]


def test_a_folder_that_is_a_file(tmp_path):
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(UsageError, match=f"--folder {place} is a file, or lies inside one"):
            RunFolder(place).open(PlanningConfig(), ["delayzero"])


DAMAGED = ("", '{"env": "Cart', "[]", "\x00\x00")


@pytest.mark.parametrize("text", DAMAGED, ids=["empty", "torn", "list", "zeros"])
def test_damaged_settings_and_results_are_one_line(text, tmp_path, capsys):
    config = PlanningConfig()
    opened(tmp_path, config)
    (tmp_path / "metrics.jsonl").write_text("")
    (tmp_path / "result.json").write_text(text)
    with pytest.raises(UsageError, match=r"result.json is damaged; delete it, and type the same"):
        RunFolder(tmp_path).finished(config)
    assert main(["curves", str(tmp_path)]) == 2
    assert "result.json is damaged; delete it" in capsys.readouterr().err
    (tmp_path / "result.json").write_text("{}")
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(UsageError, match=r"config.json is damaged; restore a copy"):
        RunFolder(tmp_path).finished(config)
    assert main(["evaluate", str(tmp_path)]) == 2
    assert "config.json is damaged; restore a copy" in capsys.readouterr().err


def test_invalid_settings_are_one_line(tmp_path):
    for values in ({"envs": 0}, {"envs": "four"}):
        (tmp_path / "config.json").write_text(json.dumps(values))
        with pytest.raises(
            UsageError,
            match=r"config.json: .*; if another version .*, restore a copy, or train in another",
        ):
            RunFolder(tmp_path).config()


def test_the_spaces_of_a_run(tmp_path):
    folder = RunFolder(tmp_path)
    assert folder.load_spaces() is None, "as in folders of older runs"
    spaces = {"shape": [4, 84, 84], "dtype": "uint8", "num_actions": 6}
    folder.save_spaces(spaces)
    assert [path.name for path in tmp_path.iterdir()] == ["spaces.json"]
    assert RunFolder(tmp_path).load_spaces() == spaces
    folder.save_spaces({"shape": []})
    assert folder.load_spaces() == {"shape": []}


@pytest.mark.parametrize("text", DAMAGED, ids=["empty", "torn", "list", "zeros"])
def test_damaged_spaces_are_one_line(text, tmp_path):
    (tmp_path / "spaces.json").write_text(text)
    with pytest.raises(UsageError, match=rf"{tmp_path}/spaces.json is damaged; delete it"):
        RunFolder(tmp_path).load_spaces()


def test_a_folder_without_a_run(tmp_path):
    with pytest.raises(UsageError, match="holds no run"):
        RunFolder(tmp_path / "nowhere").config()


def test_the_command_line_is_what_one_types(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/somewhere/__main__.py", "train", "cartpole"])
    assert command_line() == ["delayzero", "train", "cartpole"]


@pytest.mark.parametrize(("env", "code"), [("atari:Pong", "plane"), ("CartPole-v1", "one_hot")])
def test_settings_of_older_runs_are_what_they_were(env, code, tmp_path):
    """Before these settings existed, weights were relative and Atari's actions one number."""
    folder = RunFolder(tmp_path)
    config = small(tmp_path, env=env)
    folder.open(config, ["delayzero"])
    folder.close()
    written = json.loads((tmp_path / "config.json").read_text())
    del written["model"]["action_code"]
    del written["replay"]["weights"], written["replay"]["final_correction"]
    (tmp_path / "config.json").write_text(json.dumps(written))
    before = folder.config()
    assert (before.replay.weights, before.model.action_code) == ("relative", code)
    same = replace(
        config,
        replay=replace(config.replay, weights="relative", final_correction=1.0),
        model=replace(config.model, action_code=code),
    )
    assert before == same
    (tmp_path / "checkpoints" / "3").mkdir(parents=True)
    with pytest.raises(
        UsageError, match=r"different settings: .*replay\.weights relative \(now trunc"
    ):
        folder.open(config, ["delayzero"])
    folder.open(same, ["delayzero"])
    folder.close()
