import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv

from delayzero.delays.vector import DelayedExecutionVector
from delayzero.envs.make import make_vector
from delayzero.envs.recording import ActionLog, digest

STEPS = {"CartPole-v1": 100, "minatar:breakout": 100, "atari:Pong": 60, "atari:Breakout": 260}


def make(env_id, num_envs=2):
    limit = 25 if env_id == "atari:Pong" else None
    return ActionLog(make_vector(env_id, num_envs, training=True, max_steps=limit))


def advance(envs, steps, rng):
    """Random play; the outcomes, and how many episodes ended."""
    outcomes = [envs.step(rng.integers(envs.single_action_space.n, size=envs.num_envs))
                for _ in range(steps)]  # fmt: skip
    return outcomes, sum((outcome[2] | outcome[3]).sum() for outcome in outcomes)


def assert_same(first, second):
    for one, other in zip(first[:4], second[:4], strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype
    for key in {"life_lost", "lives"} & set(first[4]):
        np.testing.assert_array_equal(first[4][key], second[4][key])


@pytest.mark.parametrize("env_id", STEPS)
def test_a_replayed_environment_continues_as_the_first(env_id):
    envs, again = make(env_id), make(env_id)
    envs.reset(seed=5)
    outcomes, ends = advance(envs, STEPS[env_id], np.random.default_rng(0))
    assert ends >= 2
    log = envs.log()
    assert log["actions"].shape == (STEPS[env_id], 2)
    assert log["actions"].dtype == np.uint8
    assert (type(log["seed"]), type(log["digest"])) == (int, int)
    units = []
    assert_same(again.replay(log, units.append), outcomes[-1])
    assert sum(units) == STEPS[env_id]
    assert again.log()["digest"] == log["digest"]
    np.testing.assert_array_equal(again.log()["actions"], log["actions"])
    first, _ = advance(envs, 30, np.random.default_rng(1))
    second, _ = advance(again, 30, np.random.default_rng(1))
    for one, other in zip(first, second, strict=True):
        assert_same(one, other)
    assert envs.log()["digest"] == again.log()["digest"] != log["digest"]


def test_without_a_step_it_returns_the_reset():
    envs = make("minatar:breakout")
    observations, _ = envs.reset(seed=2)
    outcome = make("minatar:breakout").replay(envs.log())
    np.testing.assert_array_equal(outcome.observations, observations)
    assert not outcome.rewards.any()
    assert not (outcome.terminated | outcome.truncated).any()


@pytest.mark.parametrize(
    ("env_id", "seed"),
    [("CartPole-v1", 11), ("CartPole-v1", None), ("minatar:breakout", 11), ("atari:Pong", None)],
)
def test_a_reset_begins_a_new_log(env_id, seed):
    envs = make(env_id)
    envs.reset(seed=5)
    advance(envs, 30, np.random.default_rng(0))
    envs.reset(seed=seed)
    outcomes, _ = advance(envs, 30, np.random.default_rng(1))
    assert len(envs.log()["actions"]) == 30
    assert_same(make(env_id).replay(envs.log()), outcomes[-1])


def test_resets_without_a_seed_differ_and_repeat():
    def starts(seed):
        envs = make("CartPole-v1")
        return np.array([envs.reset(seed=s)[0] for s in (seed, None, None)])

    np.testing.assert_array_equal(starts(3), starts(3))
    assert len(np.unique(starts(3))) == 3 * 2 * 4
    assert (starts(None) != starts(None)).any()


def test_it_goes_under_a_delay():
    def delayed():
        return DelayedExecutionVector(make("minatar:breakout"), "uniform:0-3")

    first, second = delayed(), delayed()
    first.reset(seed=4)
    advance(first, 50, np.random.default_rng(0))
    second.reset(seed=99)
    assert second.env.replay(first.env.log()) is not None
    second.restore_delay_state(first.delay_state())
    one, _ = advance(first, 50, np.random.default_rng(1))
    other, _ = advance(second, 50, np.random.default_rng(1))
    for a, b in zip(one, other, strict=True):
        assert_same(a, b)
        np.testing.assert_array_equal(a[4]["pending"], b[4]["pending"])


class Unseeded(gym.Env):
    observation_space = spaces.Box(0, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        observation = np.random.default_rng().random(2, np.float32)
        return observation, 0.0, False, False, {}


def test_what_is_not_reproducible_gives_none():
    first, second = (ActionLog(SyncVectorEnv([Unseeded] * 2)) for _ in range(2))
    first.reset(seed=0)
    assert second.replay(first.log()) is not None
    advance(first, 3, np.random.default_rng(0))
    assert second.replay(first.log()) is None


def test_each_difference_changes_the_digest():
    frames = np.zeros((4, 96, 96, 3), np.uint8)
    ends = np.zeros(4, bool)
    usual = digest(1, frames, np.zeros(4), ends, ends)
    assert digest(1, frames, np.ones(4), ends, ends) != usual
    assert digest(1, frames, np.zeros(4), ~ends, ends) != usual
    assert digest(1, frames, np.zeros(4), ends, ~ends) != usual
    assert digest(2, frames, np.zeros(4), ends, ends) != usual
    changed = frames.copy()
    changed[2, 50, 40, 1] = 1
    assert digest(1, changed, np.zeros(4), ends, ends) != usual


def test_refusals():
    envs = make("CartPole-v1")
    with pytest.raises(gym.error.ResetNeeded, match="before the first reset"):
        envs.log()
    with pytest.raises(gym.error.Error, match="one seed for all"):
        envs.reset(seed=[1, 2])
    with pytest.raises(gym.error.Error, match="resets of all environments"):
        envs.reset(options={"reset_mask": np.array([True, False])})
    envs.reset(seed=0, options={"reset_mask": np.array([True, True])})
    with pytest.raises(gym.error.Error, match="make as many as were logged"):
        make("CartPole-v1", 3).replay(envs.log())
    with pytest.raises(gym.error.Error, match="only Discrete actions"):
        ActionLog(gym.make_vec("Pendulum-v1", 1, vectorization_mode="sync"))
