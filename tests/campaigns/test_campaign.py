"""Campaigns from the command line, with stubs in the place of runs."""

import json
import os
import signal
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from delayzero.campaigns import engines
from delayzero.campaigns.campaign import locked
from delayzero.campaigns.cluster import Share
from delayzero.campaigns.engines import jobs_of
from delayzero.cli import main

from .conftest import NAMES, PLAN


def attempts(name):
    return Path(f"campaigns/tiny/logs/{name}.txt").read_text().count("attempt of")


def record():
    return json.loads(Path("campaigns/tiny/campaign.json").read_text())


def test_a_campaign_runs_everything_once(stubs, capsys):
    assert main(["campaign", "tiny.toml"]) == 0
    shown = capsys.readouterr()
    assert "tiny: 4 of 4 done, 0 running, 0 waiting, 0 failed\n" in shown.out
    assert "CartPole-v1  walk:2      random  2 of 2  10.5  0.7\n" in shown.out
    assert f"{NAMES[0]}: done, score 10.0\n" in shown.err
    assert list(record()["runs"]) == NAMES
    assert record()["ended"] is True
    written = {
        name: Path(f"campaigns/tiny/{name}/result.json").stat().st_mtime_ns for name in NAMES
    }

    assert main(["campaign", "tiny.toml"]) == 0
    assert "4 of 4 done" in capsys.readouterr().out
    assert [attempts(name) for name in NAMES] == [1, 1, 1, 1]
    for name, when in written.items():
        assert Path(f"campaigns/tiny/{name}/result.json").stat().st_mtime_ns == when


@pytest.mark.parametrize("words", [("--engine", "ray"), ("--address", "auto")])
def test_without_ray_the_error_says_what_to_type_and_no_folder_is_left(
    words, stubs, monkeypatch, capsys
):
    monkeypatch.setitem(sys.modules, "ray", None)
    error = fails(capsys, "tiny.toml", *words)
    assert error == "delayzero: error: ray is not installed; type: pip install 'delayzero[ray]'"
    assert not Path("campaigns").exists()


@pytest.mark.parametrize("gpu", [True, False])
def test_a_line_says_that_there_is_no_gpu(gpu, stubs, monkeypatch, capsys):
    monkeypatch.setattr(engines, "gpus", lambda: ["0"] * gpu)
    Path("tiny.toml").write_text(PLAN + "gpus = 0.5\n")
    assert main(["campaign", "tiny.toml", "--seeds", "0"]) == 0
    assert ("there is none: runs use the CPU\n" in capsys.readouterr().err) is not gpu


def test_a_failed_run_stops_no_other_and_is_tried_twice_more(stubs, capsys):
    (stubs / f"{NAMES[0]}.fail").write_text("xxx")
    (stubs / f"{NAMES[1]}.fail").write_text("x")
    assert main(["campaign", "tiny.toml", "--jobs", "1"]) == 2
    shown = capsys.readouterr()
    assert "tiny: 3 of 4 done, 0 running, 0 waiting, 1 failed" in shown.out
    lines = [line for line in shown.err.splitlines() if line.startswith(f"{NAMES[0]}: attempt")]
    assert lines == [
        f"{NAMES[0]}: attempt 1 failed: the device was lost; it will be tried again",
        f"{NAMES[0]}: attempt 2 failed: the device was lost; it will be tried again",
        f"{NAMES[0]}: attempt 3 failed: the device was lost",
    ]
    assert shown.err.splitlines()[-1].startswith("delayzero: error: 1 of 4 runs failed")
    assert [attempts(name) for name in NAMES] == [3, 2, 1, 1]
    entry = record()["runs"][NAMES[0]]
    assert (entry["state"], entry["attempts"]) == ("failed", 3)
    assert entry["reason"] == "the device was lost"

    assert main(["campaign", "status", "campaigns/tiny"]) == 0
    shown = capsys.readouterr().out
    assert "attempt 3 failed: the device was lost" in shown
    assert "; type: delayzero" in shown

    assert main(["campaign", "tiny.toml"]) == 0, "what has failed is tried again"
    assert attempts(NAMES[0]) == 4


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_leaves_everything_resumable(stubs, how, capsys):
    (stubs / f"{NAMES[1]}.wait").touch()
    begun = Path(f"campaigns/tiny/{NAMES[1]}/metrics.jsonl")

    def interrupt():
        while not begun.exists():
            time.sleep(0.02)
        time.sleep(0.2)
        os.kill(os.getpid(), how)

    threading.Thread(target=interrupt).start()
    assert main(["campaign", "tiny.toml", "--jobs", "1"]) == 130
    assert "type the same command to resume" in capsys.readouterr().err
    assert main(["campaign", "status", "campaigns/tiny"]) == 0
    shown = capsys.readouterr().out
    assert "tiny: 1 of 4 done, 0 running, 3 waiting (1 half-finished), 0 failed" in shown
    row = next(line for line in shown.splitlines() if line.startswith(NAMES[1]))
    assert row.split()[1:4] == ["waiting", "51", "%"]
    assert main(["campaign", "tiny.toml", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert f"{NAMES[0]}  done\n" in shown
    assert f"{NAMES[1]}  resume at 51%, 24 s of a stub\n" in shown
    assert f"{NAMES[2]}  new, 50 s of a stub\n" in shown

    (stubs / f"{NAMES[1]}.wait").unlink()
    assert main(["campaign", "tiny.toml"]) == 0
    assert [attempts(name) for name in NAMES] == [1, 2, 1, 1]
    resumed = json.loads(Path(f"campaigns/tiny/{NAMES[1]}/result.json").read_text())["resumed"]
    assert resumed is True


def test_status_beside_a_campaign_at_work(stubs, capsys):
    assert main(["campaign", "tiny.toml", "--seeds", "0"]) == 0
    stored = record()
    Path(f"campaigns/tiny/{NAMES[1]}/result.json").unlink()
    stored["runs"][NAMES[1]] |= {"state": "running", "attempts": 2, "reason": "the device was lost"}
    stored |= {"ended": False, "updated": datetime.now(UTC).isoformat()}
    Path("campaigns/tiny/campaign.json").write_text(json.dumps(stored))
    capsys.readouterr()
    assert main(["campaign", "status", "campaigns/tiny"]) == 0
    shown = capsys.readouterr().out
    assert "tiny: 1 of 2 done, 1 running, 0 waiting, 0 failed; about 3 s left\n" in shown
    row = next(line for line in shown.splitlines() if line.startswith(NAMES[1]))
    assert row.split()[1:7] == ["running", "51", "%", "3", "s", "4.0"]
    assert "attempt 1 failed: the device was lost" in row
    assert "not running" not in shown

    stored["updated"] = (datetime.now(UTC) - timedelta(minutes=5)).isoformat()
    Path("campaigns/tiny/campaign.json").write_text(json.dumps(stored))
    assert main(["campaign", "status", "campaigns/tiny"]) == 0
    shown = capsys.readouterr().out
    assert "0 running, 1 waiting (1 half-finished)" in shown
    assert "not running since" in shown


def test_a_dry_run_starts_and_writes_nothing(stubs, tmp_path, capsys):
    before = sorted(tmp_path.rglob("*"))
    assert main(["campaign", "tiny.toml", "--dry-run", "--laws", "walk:2"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown == [
        f"{NAMES[0]}  new, time unknown",
        f"{NAMES[2]}  new, time unknown",
        "tiny: 0 of 2 done, 0 running, 2 waiting, 0 failed",
        "unknown: the time of 2 of them; no past run is like those",
    ]
    assert sorted(tmp_path.rglob("*")) == before


def test_runs_of_a_campaign_may_have_actors(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    settings = 'envs = 8\nengine = "ray"\nactors = 2\n'
    Path("actors.toml").write_text(f"{PLAN}\n[settings]\n{settings}")
    assert main(["campaign", "actors.toml", "--dry-run"]) == 0
    assert "4 waiting" in capsys.readouterr().out


def fails(capsys, *words):
    assert main(["campaign", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_settings_that_have_changed_are_refused(stubs, capsys):
    assert main(["campaign", "tiny.toml"]) == 0
    capsys.readouterr()
    Path("tiny.toml").write_text(PLAN + "settings.interactions = 400\n")
    error = fails(capsys, "tiny.toml")
    assert "holds a run with different settings: interactions 156 (now 400)" in error


def test_agents_are_checked_in_every_environment_before_anything_starts(stubs, tmp_path, capsys):
    with_dez = PLAN.replace('["random"]', '["random", "dez"]')
    Path("tiny.toml").write_text(with_dez + 'settings.reveal = "never"\n')
    error = fails(capsys, "tiny.toml")
    assert error.startswith("delayzero: error: dez in CartPole-v1: ")
    assert not (tmp_path / "campaigns").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["papr"], "unknown plan 'papr'; did you mean 'paper'?"),
        (["missing.toml"], "'missing.toml': No such file"),
        (["tiny.toml", "--games", "Asterix"], "--games Asterix: the plan does not have it"),
        (["tiny.toml", "--agents", "randm"], "did you mean 'random'?"),
        (["tiny.toml", "--seeds", "7"], "--seeds 7: the plan does not have it. It has 0, 1"),
        (["tiny.toml", "--jobs", "0"], "should be at least 1"),
        (["status", "nowhere"], "nowhere holds no campaign; type: delayzero campaign PLAN"),
        (["status"], "type: delayzero campaign status --help"),
    ],
)
def test_errors_are_one_line_and_start_nothing(words, message, stubs, tmp_path, capsys):
    assert message in fails(capsys, *words)
    assert not (tmp_path / "campaigns").exists()


RECORD = {
    **{"plan": "tiny", "command": "delayzero campaign", "jobs": 1, "ended": True, "runs": {}},
    "updated": "2026-01-31T12:00:00+00:00",
}


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        ("{", "damaged"),
        ("{}", "plan is missing"),
        (json.dumps({**RECORD, "updated": "noon"}), "updated is 'noon'"),
        (json.dumps({**RECORD, "updated": "2026-01-31T12:00"}), "updated is '2026-01-31T12:00'"),
        (json.dumps({**RECORD, "runs": {"a": {}}}), "runs.a.state is missing"),
    ],
)
def test_a_damaged_record_says_what_to_do(content, wrong, tmp_path, capsys):
    (tmp_path / "campaign.json").write_text(content)
    error = fails(capsys, "status", str(tmp_path))
    assert wrong in error
    assert "type the campaign's command again" in error


def test_one_process_at_a_time_does_a_campaign(stubs, capsys):
    Path("campaigns/tiny").mkdir(parents=True)
    with locked(Path("campaigns/tiny")):
        error = fails(capsys, "tiny.toml")
    assert f"another process runs the campaign in campaigns/tiny (process {os.getpid()} " in error
    assert not Path("campaigns/tiny/campaign.json").exists()


def test_the_number_of_runs_at_a_time(monkeypatch):
    monkeypatch.setattr(engines.os, "sched_getaffinity", lambda _: set(range(7)))
    for there, gpus, cores, jobs in (
        (1, 0.33, None, 3),
        (1, 0.25, 4, 4),
        (1, 1, None, 1),
        (4, 1, None, 4),
        (2, 0.33, None, 6),
        (0, 0.33, None, 2),
        (0, 0.33, 2, 3),
        (1, None, 8, 1),
        (1, None, None, 2),
    ):
        monkeypatch.setattr(engines, "gpus", lambda there=there: list(map(str, range(there))))
        assert jobs_of(Share(gpus, cores)) == jobs


@pytest.mark.slow
def test_a_real_campaign_interrupted_once(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("real.toml").write_text(
        'presets = ["cartpole", "debug"]\nlaws = ["walk:2"]\nagents = ["random", "oblivious"]\n'
        "seeds = [0]\ncores = 1\nsettings.checkpoint-minutes = 0.0001\n"
    )
    folder = Path("campaigns/real/CartPole-v1-oblivious-walk-2-seed0-debug")

    def interrupt():
        while not (folder / "metrics.jsonl").exists():
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    assert main(["campaign", "real.toml", "--jobs", "1"]) == 130
    assert not (folder / "result.json").exists()
    assert main(["campaign", "real.toml", "--jobs", "1"]) == 0
    assert len((folder / "starts.jsonl").read_text().splitlines()) == 2
    assert "real: 2 of 2 done" in capsys.readouterr().out
