"""Delayed-Q through the training loop."""

import json
from dataclasses import replace

import numpy as np
import pytest

from delayzero.arguments import UsageError
from delayzero.training.loop import train
from delayzero.training.system import Spaces, build_system

from .small import EVERY_ROUND, Crash, assert_same_runs, crash_after, small


def test_images_without_an_emulator_are_refused():
    with pytest.raises(UsageError, match="choose another --agent"):
        build_system(
            small(agent="delayed-q", env="minatar:breakout"), Spaces((10, 10, 4), np.dtype(bool), 3)
        )


@pytest.mark.slow
def test_a_run_with_a_crash_is_the_run_without_one(tmp_path, monkeypatch):
    config = small(
        tmp_path / "whole", agent="delayed-q", delay="walk:3", checkpoint_minutes=EVERY_ROUND
    )
    assert train(config, ["delayzero", "train"]).finished
    result = json.loads((tmp_path / "whole" / "result.json").read_text())
    assert result["updates"] == config.total_updates > 10
    again = replace(config, folder=str(tmp_path / "again"))
    crash_after(monkeypatch, 30)
    with pytest.raises(Crash):
        train(again, ["delayzero", "train"])
    assert train(again, ["delayzero", "train"]).finished
    assert_same_runs(config.folder, again.folder)
