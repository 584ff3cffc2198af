"""A result that is of another run is refused wherever results are read."""

import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from delayzero.arguments import UsageError
from delayzero.campaigns.record import runs_now, standings
from delayzero.cli import main
from delayzero.evaluation.paper.records import record_of
from delayzero.report.gather import gather
from delayzero.runs.result import contradiction
from delayzero.runs.run_folder import RunFolder
from delayzero.settings import compose

from ..evaluation.test_paper import finished_run
from ..report.made import make_run

OTHER = {"env": "Acrobot-v1", "agent": "augmented", "delay": "walk:3", "seed": 4}


@pytest.mark.parametrize("name", OTHER)
def test_a_result_repeats_its_settings(name):
    settings = {"env": "CartPole-v1", "agent": "dez", "delay": "walk:5", "seed": 0}
    settings |= {"interactions": 100}
    result = {**settings, "interactions": 104, "score": 1.0}
    assert contradiction(result, settings) == ""
    assert contradiction(result, {}) == "", "nothing is known of the settings"
    assert contradiction({}, settings) == ""
    expected = f"its {name} is {OTHER[name]}, the run's is {settings[name]}"
    assert contradiction({**result, name: OTHER[name]}, settings) == expected
    assert "made after 99" in contradiction({**result, "interactions": 99}, settings)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"score": 500.0}, "its score is 500.0, the mean of its scores 9.0"),
        ({"scores": [9.0]}, "it is of 4 episodes and has 1 scores"),
        ({"scores": [9.0, 9.0, 9.0, 8.0]}, "its score is 9.0, the mean of its scores 8.75"),
    ],
)
def test_a_result_fits_its_scores(changes, said):
    result = {"episodes": 4, "score": 9.0, "scores": [10.0, 8.0, 8.0, 10.0]}
    assert contradiction(result, {}) == ""
    assert contradiction({**result, **changes}, {}) == said


@pytest.fixture
def copied(tmp_path):
    """The folder of a run whose result was copied from a run with another seed."""
    other, folder = (make_run(tmp_path / str(seed), seed=seed) for seed in (1, 2))
    shutil.copy(other / "result.json", folder / "result.json")
    return folder


SAID = "result.json is not the result of this run: its seed is 1, the run's is 2"


def test_training_does_not_take_it_for_finished(copied):
    config = replace(compose(("cartpole",), "dez"), seed=2, delay="walk:5")
    with pytest.raises(UsageError, match=f"{SAID}; delete it, and type the same command"):
        RunFolder(copied).finished(config)


def test_a_result_without_a_score_is_not_finished(tmp_path):
    folder = make_run(tmp_path / "run")
    config = replace(compose(("cartpole",), "dez"), delay="walk:5")
    assert RunFolder(folder).finished(config)
    result = json.loads((folder / "result.json").read_text())
    (folder / "result.json").write_text(json.dumps({**result, "score": None}))
    with pytest.raises(UsageError, match=r"result.json is damaged: score is None, .* delete it"):
        RunFolder(folder).finished(config)


def test_curves_refuse_it(copied, tmp_path, capsys):
    assert main(["curves", str(copied), "--save", str(tmp_path / "x.png")]) == 2
    assert SAID in capsys.readouterr().err
    assert not (tmp_path / "x.png").exists()


def test_records_refuse_it(tmp_path):
    for seed in (1, 2):
        finished_run(tmp_path / str(seed), seed)
    assert record_of(tmp_path / "2")["seed"] == 2
    shutil.copy(tmp_path / "1" / "result.json", tmp_path / "2" / "result.json")
    with pytest.raises(UsageError, match=SAID):
        record_of(tmp_path / "2")


def test_a_report_leaves_it_out_and_says_so(copied):
    gathered = gather([copied])
    assert SAID in gathered.problems[0]
    assert [run.scores for run in gathered.runs] == [()]


def test_a_campaign_says_that_its_run_failed(copied):
    record = {"runs": {copied.name: {"state": "done", "attempts": 1, "reason": ""}}}
    (standing,) = standings(copied.parent, record, alive=False)
    assert (standing.state, standing.score) == ("failed", None)
    assert SAID in standing.reason


@pytest.mark.parametrize(("seconds", "alive"), [(5, True), (90, False), (-5, True), (-90, False)])
def test_a_campaign_whose_clock_was_set_back(seconds, alive):
    now = datetime.now(UTC)
    record = {"ended": False, "updated": (now - timedelta(seconds=seconds)).isoformat()}
    assert runs_now(record, now) == alive
