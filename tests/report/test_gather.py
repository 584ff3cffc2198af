import json
import os
from pathlib import Path

import pytest

from delayzero.arguments import UsageError
from delayzero.campaigns.record import write_record
from delayzero.report.gather import gather

from .made import WARNING, make_run

RESULTS = Path(__file__).parents[2] / "results"


def test_a_finished_run(tmp_path):
    make_run(tmp_path / "run", seed=3, level=50.0)
    gathered = gather([tmp_path / "run"])
    (run,) = gathered.runs
    assert gathered.problems == []
    assert (run.name, run.env, run.agent, run.delay, run.seed) == (
        *("run", "CartPole-v1", "dez", "walk:5"),
        3,
    )
    assert run.finished
    assert run.share == 1
    assert run.left is None
    assert run.evaluations[-1][1] == pytest.approx(sum(run.scores) / 4)
    assert run.starts[0].commit == "0123456"
    assert run.starts[0].command == "delayzero train cartpole --seed 3"
    assert set(run.health) == {"health/dead_units", "policy/target_entropy"}
    assert run.prediction["policy_agreement"] == [0.9, 0.8, None]


def test_an_unfinished_run_has_progress_and_warnings(tmp_path):
    make_run(tmp_path / "run", finished=False, warned=True)
    (run,) = gather([tmp_path / "run"]).runs
    assert not run.finished
    assert 0.4 < run.share < 0.7
    assert run.left == pytest.approx(run.seconds / run.share - run.seconds)
    (warning,) = run.warnings
    assert warning.text == WARNING
    assert warning.lasts
    assert warning.first < warning.last == run.interactions


def test_a_folder_of_runs_and_a_run_named_twice(tmp_path):
    for seed in (0, 1):
        make_run(tmp_path / "runs" / f"seed{seed}", seed=seed)
    gathered = gather([tmp_path / "runs", tmp_path / "runs" / "seed0"])
    assert [run.name for run in gathered.runs] == ["seed0", "seed1"]


def test_runs_of_equal_names_get_the_names_of_their_folders(tmp_path):
    places = ("a/x", "b/x", "c")
    for seed, place in enumerate(places):
        make_run(tmp_path / place / "run", seed=seed)
    names = {run.name for run in gather([tmp_path / place for place in places]).runs}
    assert names == {"a/x/run", "b/x/run", f"{tmp_path.name}/c/run"}


def test_a_run_in_two_places_is_shown_once(tmp_path):
    """A copy is no other seed; a run with other settings is another one, even with its scores."""
    make_run(tmp_path / "a" / "run")
    make_run(tmp_path / "b" / "run")
    make_run(tmp_path / "b" / "other", learner={"td_steps": 7})
    names = [run.name for run in gather([tmp_path / "a", tmp_path / "b"]).runs]
    assert names == ["run", "other"]


@pytest.mark.skipif(not RESULTS.exists(), reason="a source distribution has no results/")
def test_the_records_and_comparisons_of_this_repository():
    gathered = gather([RESULTS / "atari", RESULTS / "compare"])
    assert gathered.problems == []
    by_name = {run.name: run for run in gathered.runs}
    asterix = by_name["Asterix-dez-walk-15-seed0"]
    assert (asterix.game, asterix.delay, len(asterix.scores)) == ("Asterix", "walk:15", 32)
    assert "policy/target_entropy" in asterix.health  # from the metrics beside the record
    assert len(by_name) == len(gathered.runs)  # each has a name of its own
    compared = by_name["demo.json/dez-seed0"]
    assert compared.evaluations
    assert any(comparison.outcome for comparison in gathered.comparisons)


def test_a_campaign_says_how_it_stands(tmp_path):
    make_run(tmp_path / "a")
    entry = {"state": "waiting", "attempts": 2, "reason": "lost", "env": "CartPole-v1"}
    entry |= {"delay": "walk:5", "agent": "dez", "interactions": 100, "updates": 50}
    record = {"plan": "mine", "command": "delayzero campaign mine.toml", "jobs": 2, "ended": True}
    record["runs"] = {"a": entry, "b": entry}
    write_record(tmp_path, record)
    gathered = gather([tmp_path])
    (campaign,) = gathered.campaigns
    assert campaign.summary.startswith("mine: 1 of 2 done")
    assert [run.name for run in gathered.runs] == ["a"]


def test_a_campaign_with_a_damaged_result(tmp_path):
    folder = make_run(tmp_path / "a")
    result = json.loads((folder / "result.json").read_text())
    (folder / "result.json").write_text(json.dumps({**result, "train_seconds": [1]}))
    entry = {"state": "done", "attempts": 1, "reason": "", "env": "CartPole-v1", "agent": "dez"}
    entry |= {"delay": "walk:5", "interactions": 100, "updates": 0}
    record = {"plan": "mine", "command": "", "jobs": 1, "ended": True, "runs": {"a": entry}}
    write_record(tmp_path, record)
    assert "train_seconds is [1]" in gather([tmp_path]).problems[0]


def test_paths_that_hold_nothing(tmp_path):
    with pytest.raises(UsageError, match="does not exist"):
        gather([tmp_path / "nowhere"])
    with pytest.raises(UsageError, match="holds no run, comparison, campaign or record"):
        gather([tmp_path])


@pytest.mark.parametrize("name", ["config.json", "metrics.jsonl", "result.json", "starts.jsonl"])
@pytest.mark.parametrize("content", ["{", "[1]\n", '{"interactions": "many"}\n', "\0\n"])
def test_a_damaged_file_hides_nothing_else(tmp_path, name, content):
    make_run(tmp_path / "good", seed=1)
    (make_run(tmp_path / "bad") / name).write_text(content)
    gathered = gather([tmp_path])
    unfinished_line = name.endswith("jsonl") and content == "{"  # is still being written
    free = name in ("config.json", "starts.jsonl") and content.startswith('{"')
    assert unfinished_line or free or any(name in problem for problem in gathered.problems)
    assert "good" in {run.name for run in gathered.runs}


def test_a_run_that_has_not_written_anything_yet(tmp_path):
    folder = make_run(tmp_path / "run", finished=False)
    (folder / "metrics.jsonl").write_text("")
    gathered = gather([folder])
    assert gathered.problems == [f"{folder} has no metrics yet"]
    assert gathered.runs[0].share is None


def test_settings_of_another_version(tmp_path):
    folder = make_run(tmp_path / "run", finished=False)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "of_tomorrow": 1}))
    (run,) = gather([folder]).runs
    assert run.share == pytest.approx(run.interactions / config["interactions"])


def test_code_in_settings_is_not_run(tmp_path):
    folder = make_run(tmp_path / "run", delay="callback:os.abort,max=3", finished=False)
    (run,) = gather([folder]).runs
    assert run.delay == "callback:os.abort,max=3"


def test_videos(tmp_path):
    folder = make_run(tmp_path / "run")
    for name in ("watch.mp4", "watch.html", "clips/a.gif", "checkpoints/1.html"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("")
    (run,) = gather([folder]).runs
    assert [str(path.relative_to(folder)) for path in run.videos] == [
        *("clips/a.gif", "watch.html", "watch.mp4"),
    ]


def test_pipes_are_not_read(tmp_path):
    folder = make_run(tmp_path / "a")
    (folder / "config.json").unlink()
    for name in ("config.json", "x.html", "y.mp4"):
        os.mkfifo(folder / name)
    gathered = gather([folder])
    assert gathered.problems == [f"{folder}/config.json is a device or a pipe; restore a copy"]
    assert gathered.runs[0].videos == []
