"""Delayed observations: nothing is lost, single and vector agree."""

import copy
import pickle

import gymnasium as gym
import numpy as np
import pytest
from ale_py.vector_env import AtariVectorEnv
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from delayzero.delays import (
    RULES,
    Callback,
    DelayedExecution,
    DelayedObservation,
    DelayedObservationVector,
    DelayStream,
    Walk,
    parse,
)

from .rollouts import assert_equal, rollout
from .simulator import Simulator

N = 3


class Counter(gym.Env):
    """Observes the time, pays 2^time, and ends after some steps."""

    observation_space = spaces.Box(0, 1000, (1,), np.int64)
    action_space = spaces.Discrete(2)

    def __init__(self, steps=20, truncate=False):
        self.steps, self.truncate = steps, truncate

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.array([0]), {}

    def step(self, action):
        self.time += 1
        over = self.time == self.steps
        ends = (over and not self.truncate, over and self.truncate)
        return np.array([self.time]), float(2**self.time), *ends, {}


def time_of(observation):
    return int(observation[0])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("law", ["walk:5", "uniform:0-5", "constant:3", "wifi"])
def test_observation_shown_is_the_one_that_the_rule_gives(law, rule):
    env = DelayedObservation(Counter(60), law, rule=rule)
    stream = DelayStream(parse(law), 4)
    simulator = Simulator(rule, env.max_delay)
    observation, info = env.reset(seed=4)
    shown = [max(simulator.push(stream.next()), 0)]
    assert time_of(observation) == shown[0] == 0
    for _ in range(59):
        observation, *_, info = env.step(0)
        time = simulator.push(stream.next())
        # Before the first observation there was none: nothing that arrives is older.
        shown.append(max(time, 0) if time >= 0 or rule == "lag-index" else shown[-1])
        assert time_of(observation) == shown[-1] == info["observation_time"]
        assert info["observation_age"] == env.unwrapped.time - shown[-1]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("truncate", [True, False])
@pytest.mark.parametrize("law", ["walk:5", "uniform:0-9", "constant:7", "4g"])
def test_nothing_is_lost_at_the_end(law, truncate, rule):
    env = DelayedObservation(Counter(20, truncate), law, rule=rule)
    env.reset(seed=1)
    for _ in range(3):
        rewards, newest = [], 0
        for time in range(1, 21):
            observation, reward, terminated, truncated, _ = env.step(0)
            rewards.append(reward)
            newest = max(newest, time_of(observation))
            # 2^1 + ... + 2^k: the rewards of all packets up to the newest that has arrived.
            assert sum(rewards) == 2 ** (newest + 1) - 2
            assert (terminated or truncated) == (time == 20)
        assert (terminated, truncated) == (not truncate, truncate)
        assert time_of(observation) == 20
        env.reset()


@pytest.mark.parametrize("rule", RULES)
def test_no_delay_is_the_bare_environment_bit_for_bit(rule):
    actions = np.random.default_rng(0).integers(0, 2, 300).tolist()
    bare = rollout(gym.make("CartPole-v1"), actions, seed=3)
    wrapped = DelayedObservation(gym.make("CartPole-v1"), "constant:0", rule=rule)
    for one, other in zip(bare, rollout(wrapped, actions, seed=3), strict=True):
        assert_equal(one[:-1], other[:-1])


def test_law_takes_one_step_for_each_observation_over_episodes():
    env = DelayedObservation(Counter(5), Walk(40, up=1.0, down=0.0, start=0))
    env.reset(seed=0)
    ages = []
    for _ in range(3):
        for _ in range(5):
            ages.append(env.step(0)[-1]["observation_age"])
        env.reset()
    # Packet t of the first episode lands at 2 t; in later ones nothing arrives before the end.
    assert ages == [1, 1, 2, 2, 0] + 2 * [1, 2, 3, 4, 0]


def test_closed_loop_law_sees_the_observation_that_it_delays():
    env = DelayedObservation(Counter(30), Callback(lambda c: int(c.observation[0]) % 3, 2))
    env.reset(seed=0)
    shown = [time_of(env.step(0)[0]) for _ in range(7)]
    # Packet t lands at t + t % 3: 0, 2, 4, 3, 5, 7, 6, 8.
    assert shown == [0, 1, 3, 3, 4, 6, 6]


def two_keys(env):
    space = spaces.Dict({"a": env.observation_space, "b": spaces.Tuple([spaces.Discrete(9)])})
    return gym.wrappers.TransformObservation(env, lambda o: {"a": o, "b": (int(o[0] > 0),)}, space)


@pytest.mark.parametrize("wrap", [lambda env: env, two_keys])
@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("law", ["walk:4", "uniform:0-4", "per-episode:uniform:0-4"])
def test_vector_is_n_single_wrappers(law, mode, wrap):
    def make():
        return wrap(gym.make("CartPole-v1"))

    vector = DelayedObservationVector(SyncVectorEnv([make] * N, autoreset_mode=mode), law)
    reference = SyncVectorEnv([lambda: DelayedObservation(make(), law)] * N, autoreset_mode=mode)
    assert_equal(vector.reset(seed=2)[0], reference.reset(seed=2)[0])
    rng = np.random.default_rng(0)
    endings = 0
    for _ in range(120):
        actions = rng.integers(0, 2, N)
        *left, info = vector.step(actions)
        *right, expected = reference.step(actions)
        assert_equal(left, right)
        np.testing.assert_array_equal(info["observation_time"], expected["observation_time"])
        np.testing.assert_array_equal(info["observation_age"], expected["observation_age"])
        done = left[2] | left[3]
        endings += done.sum()
        if mode == AutoresetMode.SAME_STEP and done.any():
            assert_equal(info["final_obs"], expected["final_obs"])
        if mode == AutoresetMode.DISABLED and done.any():
            masks = [{"reset_mask": done.copy()} for _ in range(2)]
            assert_equal(vector.reset(options=masks[0])[0], reference.reset(options=masks[1])[0])
    assert endings >= 6


def test_lost_lives_keep_packets_and_settle_rewards():
    kwargs = {"num_envs": 2, "use_fire_reset": False, "life_loss_info": True, "noop_max": 0}
    bare = AtariVectorEnv("breakout", **kwargs)
    delayed = DelayedObservationVector(
        AtariVectorEnv("breakout", **kwargs), "uniform:0-4", life_loss_info=True
    )
    bare.reset(seed=0)
    delayed.reset(seed=0)
    rng = np.random.default_rng(0)
    totals = np.zeros((2, 2))
    lost = 0
    for _ in range(600):
        actions = rng.integers(1, 4, 2)
        _, rewards, ended, _, _ = bare.step(actions)
        _, late, also_ended, _, info = delayed.step(actions)
        totals += rewards, late
        np.testing.assert_array_equal(ended, also_ended)
        np.testing.assert_array_equal(totals[0][ended], totals[1][ended])
        lost += (ended & (info["lives"] > 0)).sum()
    assert lost >= 4
    assert totals[0].min() > 0


@pytest.mark.parametrize("rule", RULES)
def test_saved_in_mid_episode_it_continues_exactly(rule):
    def make():
        return DelayedObservation(gym.make("CartPole-v1"), "uniform:0-6", rule=rule)

    env, twin = make(), make()
    actions = np.random.default_rng(1).integers(0, 2, 200).tolist()
    rollout(env, actions[:93], seed=5)
    twin.env = copy.deepcopy(env.env)
    twin.restore_delay_state(pickle.loads(pickle.dumps(env.delay_state())))
    for action in actions[93:]:
        left = env.step(action)
        assert_equal(left, twin.step(action))
        if left[2] or left[3]:
            assert_equal(env.reset(), twin.reset())


def test_saved_vector_continues_exactly():
    def make():
        envs = SyncVectorEnv([lambda: gym.make("CartPole-v1")] * N)
        return DelayedObservationVector(envs, "uniform:0-6")

    vector, twin = make(), make()
    vector.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(41):
        vector.step(rng.integers(0, 2, N))
    twin.env = copy.deepcopy(vector.env)
    twin.restore_delay_state(pickle.loads(pickle.dumps(vector.delay_state())))
    for _ in range(60):
        actions = rng.integers(0, 2, N)
        assert_equal(vector.step(actions), twin.step(actions))


def test_both_directions_compose():
    env = DelayedExecution(
        DelayedObservation(gym.make("CartPole-v1"), "constant:2"), "constant:3", observe="pending"
    )
    observation, info = env.reset(seed=0)
    assert env.observation_space.contains(observation)
    for _ in range(4):
        _, reward, *_, info = env.step(1)
    assert info["decision_time"] == 0
    assert info["observation_age"] == 2
    assert reward == 1.0


def test_step_before_reset():
    vector = DelayedObservationVector(SyncVectorEnv([lambda: gym.make("CartPole-v1")]), "walk:2")
    with pytest.raises(gym.error.ResetNeeded):
        vector.step(np.zeros(1, int))
