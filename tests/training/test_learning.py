"""Problems so small that an agent which learns at all must solve them."""

import json
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest

from delayzero.envs.toys import one_hot
from delayzero.settings import (
    LearnerConfig,
    ModelConfig,
    PlanningConfig,
    ReanalysisConfig,
    ReplayConfig,
    SearchConfig,
)
from delayzero.training.loop import train


def quick(env, interactions, folder, seed=0):
    return PlanningConfig(
        env=env,
        seed=seed,
        envs=8,
        rows=8,
        discount=0.9,
        interactions=interactions,
        random_interactions=200,
        update_ratio=1.5,
        final_episodes=16,
        folder=str(folder),
        model=ModelConfig(latent=16, width=32, lstm=8, support=5),
        search=SearchConfig(simulations=8),
        replay=ReplayConfig(priority_exponent=0.0),
        learner=LearnerConfig(
            batch_size=32,
            unroll=2,
            td_steps=2,
            prefix_horizon=2,
            optimiser="adam",
            learning_rate=1e-2,
            warmup=20,
            drop_at=0.7,
        ),
        reanalysis=ReanalysisConfig(roots=64, positions_per_update=8.0),
    )


@pytest.mark.parametrize(
    ("env", "interactions", "enough"),
    [
        pytest.param("delayzero/Identity-v0", 1500, 7.5, id="identity", marks=pytest.mark.slow),
        pytest.param("delayzero/TwoStepBandit-v0", 1000, 0.95, id="bandit"),
    ],
)
def test_toys_are_solved(env, interactions, enough, tmp_path):
    outcome = train(quick(env, interactions, tmp_path / "run"), ["delayzero", "train"])
    assert outcome.finished
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["score"] >= enough
    assert result["updates"] == 1.5 * (interactions - 200)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("agent", "low", "high"),
    [("dez", 11, 12), ("oblivious-executed", 0, 8)],
)
def test_under_delay_only_foresight_solves_the_wheel(agent, low, high, tmp_path):
    config = quick("delayzero/Wheel-v0", 1500, tmp_path / "run")
    learner = replace(config.learner, lead_share=0.25)  # dez alone looks ahead
    config = replace(config, agent=agent, delay="walk:2", learner=learner)
    assert train(config, ["delayzero", "train"]).finished
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert low <= result["score"] <= high


class Nothing(gym.Env):
    """A walk around a ring of eight places for which there is never a reward."""

    observation_space = gym.spaces.Box(0, 1, (8,), np.float32)
    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._place = self._time = 0
        return one_hot(0, 8), {}

    def step(self, action):
        self._place, self._time = (self._place + int(action) - 1) % 8, self._time + 1
        return one_hot(self._place, 8), 0.0, self._time == 20, False, {}


gym.register("delayzero-tests/Nothing-v0", Nothing)


@pytest.mark.slow
def test_without_rewards_the_policy_stays_open_and_nothing_is_cried(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("delayzero.training.alarms.SETTLED", 0)
    config = quick("delayzero-tests/Nothing-v0", 1000, tmp_path / "run")
    config = replace(
        config,
        log_every=100,
        prediction_rows=0,
        search=replace(config.search, dirichlet_fraction=0.25),
        replay=replace(config.replay, priority_exponent=0.6),
    )
    assert train(config, ["delayzero", "train"]).finished
    lines = [json.loads(s) for s in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    lines = [line for line in lines if "loss" in line]
    assert len(lines) > 6
    assert all(line["policy/target_entropy"] > 0.95 * np.log(3) for line in lines)
    assert all("warnings" not in line for line in lines)
    assert "warning" not in capsys.readouterr().err
