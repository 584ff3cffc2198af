"""The projection of a run's time, with updates that do nothing."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from .training.small import NotCompiled

WORDS = (
    *("cartpole", "debug", "--delay", "walk:3", "--interactions", "2000"),
    *("--model.latent", "8", "--model.width", "16", "--model.memory", "8", "--model.support", "10"),
)


@pytest.fixture
def budget(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    import budget

    monkeypatch.setattr(budget, "Programs", NotCompiled)
    return budget


def printed(budget, words, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["budget.py", *words])
    budget.main()
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("overlap", ["True", "False"])
def test_a_run_is_projected_from_its_parts(overlap, budget, monkeypatch, capsys):
    times = {"update": 0.002, "sweep": 0.5, "play": 0.3, "play_and_update": 0.4}
    monkeypatch.setattr(budget, "each", lambda call, most: (times[call.__name__], most))
    monkeypatch.setattr(budget, "seconds", lambda call: times[call.__name__])
    made = printed(budget, [*WORDS, "--overlap", overlap], monkeypatch, capsys)
    config = budget.read_config([*WORDS, "--overlap", overlap])
    beside = 0.4 - config.updates_per_round * 0.002
    chunks = config.total_updates * config.reanalysis.positions_per_update
    chunks /= min(config.reanalysis.roots, config.random_interactions)
    split = made["projected_seconds"]
    assert split.pop("compiling") > 0
    assert split == pytest.approx(
        {
            "playing": 2000 / config.envs / config.rows * (beside if overlap == "True" else 0.3),
            "updating": config.total_updates * 0.002,
            "sweeping": chunks * 0.5,
        },
        abs=0.05,
    )
    assert made["projected_minutes"] > sum(split.values()) / 60
    assert made["updates"] == config.total_updates
    assert made["versions"]["device"] == "cpu"


def test_slow_devices_make_fewer_updates(budget, monkeypatch, capsys):
    monkeypatch.setattr(budget, "CALL_SECONDS", 0.0)
    monkeypatch.setattr(budget, "LIMIT_SECONDS", 0.0)
    assert printed(budget, WORDS, monkeypatch, capsys)["updates_per_call"] == 1


def test_two_laws_are_compared(budget, monkeypatch, capsys):
    """By a clock of its own: rounds under the walk take half as long again, and drift."""
    clock = {"now": 0.0, "drift": 1.0}

    def play_and_update(self):
        took = 0.3 if self.system.config.law == "walk:3" else 0.2
        clock["now"] += took * clock["drift"]
        clock["drift"] *= 1.1
        return self.replay.length

    monkeypatch.setattr(budget.Slice, "play_and_update", play_and_update)
    monkeypatch.setattr(budget, "time", SimpleNamespace(monotonic=lambda: clock["now"]))
    made = printed(budget, [*WORDS, "--against", "constant:0"], monkeypatch, capsys)
    assert (made["delay"], made["against"]) == ("walk:3", "constant:0")
    assert made["ratio"] == pytest.approx(1.5), "in turns: the drift is the same for both"
    assert 0 < made["standard_error"] < 0.1
    assert made["milliseconds"][0] > made["milliseconds"][1]


@pytest.mark.parametrize(("words", "message"), [
    (("--interactions", "100"), "of 8 rounds or more"),
    (("--agent", "undelayed", "--against", "walk:3"), "knows no delay"),
    (("--agent", "random"), "a run that learns"),
])  # fmt: skip
def test_what_cannot_be_projected_is_refused(words, message, budget, monkeypatch, capsys):
    base = ("cartpole", "debug", "--interactions", "2000") if "--agent" in words else WORDS
    with pytest.raises(SystemExit, match=message):
        printed(budget, [*base, *words], monkeypatch, capsys)
