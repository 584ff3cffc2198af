import csv
import json
from importlib.resources import files
from pathlib import Path

import pytest

from delayzero.campaigns.past import Past, likeness, packaged_past, projected
from delayzero.settings.keywords import configure
from delayzero.settings.stored import from_json

ROOT = Path(__file__).parents[2]


def test_the_packaged_runs_are_those_of_the_records():
    if not (ROOT / "results").exists():
        pytest.skip("the source distribution has no results")
    text = (files("delayzero.campaigns") / "past_runs.csv").read_text()
    rows = list(csv.DictReader(text.splitlines()))
    assert len(rows) == len(packaged_past()) == 3
    for row, past in zip(rows, packaged_past(), strict=True):
        record = json.loads((ROOT / row["record"]).read_text())
        seconds = record["wall_seconds"] + sum(record["evaluate_seconds"].values())
        assert past == Past(
            likeness(from_json(record["config"])),
            record["device"],
            record["interactions"],
            record["updates"],
            pytest.approx(seconds),
        )


def test_the_time_is_in_proportion_to_the_updates():
    whole = configure(["atari"], {"env": "atari:Asterix", "delay": "walk:15"})
    half = configure(["atari"], {"env": "atari:Hero", "agent": "oblivious", "update_ratio": 0.5})
    past = packaged_past()
    seconds = projected(whole, past).seconds
    assert 1168 < seconds < 1384
    assert projected(half, past).seconds == pytest.approx(seconds * half.total_updates / 150_000)
    assert projected(half, past).device == "NVIDIA H200"


def test_runs_that_are_not_alike_say_nothing():
    past = packaged_past()
    for settings in (
        {"agent": "delayed-q"},
        {"agent": "random"},
        {"env": "minatar:breakout"},
        {"search": {"simulations": 50}},
        {"learner": {"batch_size": 128}},
    ):
        assert projected(configure(["atari"], settings), past) is None
    assert projected(configure(["atari-paper"], {}), past) is None


def test_the_first_device_counts_and_a_random_agent_is_timed_by_interactions():
    config = configure(["cartpole"], {"agent": "random", "interactions": 300})
    like = likeness(config)
    past = [Past(like, "a", 100, 0, 10.0), Past(like, "b", 100, 0, 1.0), Past(like, "a", 50, 0, 10)]
    assert projected(config, past) == Past(like, "a", 300, 0, 300 * (0.1 + 0.2) / 2)
