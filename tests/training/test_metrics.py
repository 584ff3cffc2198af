import json
from types import SimpleNamespace

import numpy as np
import pytest

from delayzero.runs.run_folder import RunFolder
from delayzero.training.alarms import Alarms
from delayzero.training.metrics import MetricsLog
from delayzero.training.reporting import Reporter, Stopwatch


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def log(tmp_path):
    log = MetricsLog(tmp_path / "metrics.jsonl", tmp_path / "events")
    yield log
    log.close()


def test_lines_are_json_whatever_is_written(log, tmp_path):
    values = {"count": np.int32(3), "steps": np.array([1.5, 2.5], np.float32), "word": "x"}
    log.write(7, {**values, "flag": True, "none": None, "nan": float("nan")})
    (line,) = lines_of(tmp_path / "metrics.jsonl")
    assert line == {
        **{"interactions": 7, "count": 3, "steps": [1.5, 2.5], "word": "x"},
        **{"flag": True, "none": None, "nan": "nan"},
    }


def test_what_is_not_finite_in_a_list_can_be_written(log, tmp_path):
    log.write(1, {"steps": np.array([1.0, np.nan, np.inf])})
    assert lines_of(tmp_path / "metrics.jsonl")[0]["steps"] == [1.0, "nan", "inf"]


def test_positions_after_a_rewind(log, tmp_path):
    log.write(1, {"a": 1})
    position = log.position()
    log.write(2, {"a": 2})
    log.rewind(position)
    assert log.position() == position
    log.write(3, {"a": 3})
    assert [line["interactions"] for line in lines_of(tmp_path / "metrics.jsonl")] == [1, 3]
    assert log.position() == (tmp_path / "metrics.jsonl").stat().st_size


def test_positions_of_a_log_that_is_opened_again(log, tmp_path):
    for i in range(5):
        log.write(i, {"a": i})
    third = sum(len(s) for s in (tmp_path / "metrics.jsonl").read_text().splitlines(True)[:3])
    again = MetricsLog(tmp_path / "metrics.jsonl", tmp_path / "events")
    again.rewind(third)
    assert again.position() == third
    again.write(9, {"a": 9})
    again.close()
    assert [line["interactions"] for line in lines_of(tmp_path / "metrics.jsonl")] == [0, 1, 2, 9]


def test_lines_that_have_changed_are_copied_and_those_of_evaluations_written_anew(log, tmp_path):
    path, copy = tmp_path / "metrics.jsonl", tmp_path / "metrics.jsonl.damaged"
    log.write(1, {"a": 1})
    log.write(2, {"evaluation/score": 5.0})
    position, evaluations = log.position(), list(log.evaluations)
    digest = log.digest(position)
    log.write(3, {"a": 3})
    assert log.restore(position, evaluations, digest) == ""
    assert [line["interactions"] for line in lines_of(path)] == [1, 2]
    assert not copy.exists()
    changed = path.read_text().replace("5.0", "6.0")
    path.write_text(changed)
    assert log.restore(position, evaluations) == "", "as of checkpoints without a digest"
    told = log.restore(position, evaluations, digest)
    assert told == "has changed since the checkpoint and is kept as metrics.jsonl.damaged"
    assert copy.read_text() == changed
    assert lines_of(path) == evaluations
    path.write_text("")
    assert log.restore(position, evaluations, digest) == "is missing or was cut off"


def test_the_line_of_progress_has_the_last_evaluation(tmp_path):
    learning = SimpleNamespace(updates=7, metrics={"loss": 0.25}, times={})
    reporter = Reporter(RunFolder(tmp_path), learning, Stopwatch(0.0), Alarms(2))
    assert reporter.note() == "updates 7, loss 0.250"
    for interactions, score in ((100, 1.0), (200, 12.54)):
        reporter.write_evaluation(interactions, {"evaluation/score": score})
    assert reporter.note() == "updates 7, evaluation 12.5 at 200, loss 0.250"
    reporter.close()
