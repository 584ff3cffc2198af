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
from delayzero.training.alarms import SETTLED
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


class Late(gym.Env):
    """A walk around a ring of eight places; the one opposite pays after 2 500 steps in all."""

    observation_space = gym.spaces.Box(0, 1, (8,), np.float32)
    action_space = gym.spaces.Discrete(3)

    def __init__(self):
        self._steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._place = self._time = 0
        return one_hot(0, 8), {}

    def step(self, action):
        self._place, self._time = (self._place + int(action) - 1) % 8, self._time + 1
        self._steps += 1
        pays = self._steps > 2500 and self._place == 4
        return one_hot(self._place, 8), float(pays), self._time == 20, False, {}


gym.register("delayzero-tests/Late-v0", Late)


@pytest.mark.slow
def test_20_000_steps_without_rewards_leave_the_policy_open_and_raise_no_alarm(tmp_path):
    config = quick("delayzero-tests/Late-v0", 23_000, tmp_path / "run")  # eight environments
    config = replace(
        config,
        log_every=500,
        prediction_rows=0,
        update_ratio=0.25,
        search=replace(config.search, dirichlet_fraction=0.25),
        replay=replace(config.replay, priority_exponent=0.6),
    )
    assert train(config, ["delayzero", "train"]).finished
    lines = [json.loads(s) for s in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    lines = [line for line in lines if "loss" in line]
    without = [line for line in lines if line["interactions"] <= 20_000]
    assert len(without) > 35
    assert sum(line["updates"] >= SETTLED for line in without) > 20, "alarms are awake"
    assert all(line["policy/target_entropy"] > 0.95 * np.log(3) for line in without)
    assert all("warnings" not in line for line in without)
    assert lines[-1]["health/reward_recall"] > 0.5, "once there are rewards, they are learned"
    assert lines[-1]["policy/target_entropy"] < without[-1]["policy/target_entropy"]
