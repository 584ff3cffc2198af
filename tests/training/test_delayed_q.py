"""Delayed-Q through the training loop."""

import json
from dataclasses import replace
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest

from delayzero.arguments import UsageError
from delayzero.playing.system import build_system
from delayzero.spaces import Spaces
from delayzero.training.loop import train

from .small import EVERY_ROUND, Crash, assert_same_runs, crash_after, small


def test_large_images_without_an_emulator_are_refused():
    with pytest.raises(UsageError, match="choose another --agent"):
        build_system(
            small(agent="delayed-q", env="Large-v0"), Spaces((96, 96, 3), np.dtype(np.uint8), 3)
        )


def test_images_of_other_numbers_are_refused():
    box = gym.spaces.Box(-1, 1, (10, 10, 2), np.float32)
    env = SimpleNamespace(single_observation_space=box, single_action_space=gym.spaces.Discrete(3))
    with pytest.raises(UsageError, match="RescaleObservation"):
        build_system(small(agent="delayed-q"), Spaces.of(env))


class Bytes(gym.Env):
    """Shows bytes, which wrap where they are subtracted."""

    observation_space = gym.spaces.Box(0, 255, (4,), np.uint8)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._time = 0
        return self.observation_space.low, {}

    def step(self, action):
        self._time += 1
        shown = np.array([self._time * 30 % 256, action, 255 - self._time, 0], np.uint8)
        return shown, float(action), self._time == 12, False, {}


gym.register("delayzero-tests/Bytes-v0", Bytes)


@pytest.mark.parametrize(
    ("presets", "env"),
    [
        (("cartpole", "debug"), "delayzero-tests/Bytes-v0"),
        pytest.param(("minatar", "debug"), "minatar:breakout", marks=pytest.mark.slow),
    ],
)
def test_a_run_ends(tmp_path, presets, env):
    config = small(tmp_path / "run", presets, agent="delayed-q", env=env, delay="walk:3")
    assert train(config, ["delayzero", "train"]).finished
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["updates"] == config.total_updates > 10
    last = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])
    assert np.isfinite(last["loss/forward"])


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
