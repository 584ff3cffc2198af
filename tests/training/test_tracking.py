"""Weights & Biases: what is sent, through a client that only writes down what it is told."""

import sys
from types import SimpleNamespace

import pytest

from delayzero.cli import main
from delayzero.training import loop
from delayzero.training.loop import Outcome
from delayzero.training.metrics import MetricsLog
from delayzero.training.reporting import Evaluation
from delayzero.training.tracking import Tracking

from .small import small


class Client:
    """What ``import wandb`` gives."""

    def __init__(self):
        self.begun, self.sent, self.ended, self.fails = [], [], [], ""

    def init(self, **options):
        if self.fails == "init":
            raise RuntimeError("No API key\nconfigured.")
        self.begun.append(options)
        return SimpleNamespace(log=self.log, finish=self.finish, define_metric=lambda *a, **k: None)

    def log(self, values):
        if self.fails == "log":
            raise RuntimeError("no network")
        self.sent.append(values)

    def finish(self, exit_code):
        self.ended.append(exit_code)


@pytest.fixture
def client(monkeypatch):
    fake = Client()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    return fake


def test_lines_of_metrics_are_sent(client, tmp_path):
    tracking = Tracking(small(tmp_path))
    assert client.begun == []
    log = MetricsLog(tmp_path / "m.jsonl", tmp_path / "events", tracking.callbacks.on_metrics)
    log.write(5, {"loss": 0.5, "prefix/error": [1.0, 2.0], "warnings": ["a", "b"]})
    log.close()
    summary = {"score": 9.0, "standard_error": None}
    tracking.callbacks.on_evaluation(Evaluation(7, 3, summary, final=False))
    tracking.callbacks.on_evaluation(Evaluation(8, 4, summary, final=True))
    tracking.close(finished=True)
    assert client.sent == [
        {"interactions": 5, "loss": 0.5, "prefix/error_0": 1.0, "prefix/error_1": 2.0},
        {"interactions": 8, "final/score": 9.0},
    ]
    (options,) = client.begun
    assert options["config"]["seed"] == 0
    assert options["name"] == tmp_path.name
    assert client.ended == [0]


def test_a_resumed_run_goes_on_under_its_id(client, tmp_path):
    for _ in range(2):
        Tracking(small(tmp_path)).log(1, {})
    first, second = client.begun
    assert first["id"] == second["id"]
    assert second["resume"] == "allow"


def test_a_client_that_cannot_begin_is_one_line(client, tmp_path):
    client.fails = "init"
    with pytest.raises(Exception, match="No API key configured; type: wandb login, or set"):
        Tracking(small(tmp_path)).log(1, {})


def test_a_client_that_fails_later_does_not_end_the_run(client, tmp_path, capsys):
    tracking = Tracking(small(tmp_path))
    tracking.log(1, {})
    client.fails = "log"
    tracking.log(2, {})
    tracking.log(3, {})
    assert capsys.readouterr().err.count("no more metrics: no network") == 1


def test_the_option(client, tmp_path, monkeypatch):
    def train(config, command, callbacks=None):
        callbacks.on_metrics(1, {"loss": 1.0})
        return Outcome(False, tmp_path)

    monkeypatch.setattr(loop, "train", train)
    words = ["train", "cartpole", "--wandb", "--seed", "3", "--folder", str(tmp_path)]
    assert main(words) == 130
    assert client.begun[0]["config"]["seed"] == 3
    assert client.ended == [1]


def test_without_the_client_nothing_begins(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "wandb", None)
    assert main(["train", "cartpole", "--wandb", "--folder", str(tmp_path / "run")]) == 2
    assert "pip install 'delayzero[wandb]'" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
