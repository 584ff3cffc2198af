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
    DelayError,
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
@pytest.mark.parametrize("observe", ["plain", "age", "actions"])
def test_vector_is_n_single_wrappers(law, mode, wrap, observe):
    def make():
        return wrap(gym.make("CartPole-v1"))

    def single():
        return DelayedObservation(make(), law, observe=observe)

    vector = DelayedObservationVector(
        SyncVectorEnv([make] * N, autoreset_mode=mode), law, observe=observe
    )
    reference = SyncVectorEnv([single] * N, autoreset_mode=mode)
    assert vector.observation_space == reference.observation_space
    assert vector.single_observation_space == reference.single_observation_space
    assert_equal(vector.reset(seed=2)[0], reference.reset(seed=2)[0])
    rng = np.random.default_rng(0)
    endings = 0
    for _ in range(120):
        actions = rng.integers(0, 2, N)
        *left, info = vector.step(actions)
        *right, expected = reference.step(actions)
        assert_equal(left, right)
        assert vector.observation_space.contains(left[0])
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


def encoded(actions, slots):
    """Discrete(2) actions as one-hot slots with a last column that is 1 in empty slots."""
    rows = [[action == 0, action == 1, 0] for action in actions]
    return np.array(rows + [[0, 0, 1]] * (slots - len(actions)), np.float32)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("law", ["walk:5", "uniform:0-5", "constant:3", "constant:0"])
def test_actions_shown_lead_from_the_observation_shown_to_now(law, rule):
    env = DelayedObservation(Counter(23), law, rule=rule, observe="actions")
    limit = env.max_delay
    rng = np.random.default_rng(3)
    observation, info = env.reset(seed=4)
    ages, given = set(), []
    for _ in range(4 * 23):
        age = env.unwrapped.time - time_of(observation["observation"])
        assert env.observation_space.contains(observation)
        assert info["observation_age"] == age
        assert observation["age"] == pytest.approx([age / max(limit, 1)])
        since = given[len(given) - age :] if age <= limit else given[len(given) - limit :]
        np.testing.assert_array_equal(observation["actions"], encoded(since, limit).reshape(-1, 3))
        ages.add(age)
        given.append(int(rng.integers(0, 2)))
        observation, _, terminated, truncated, info = env.step(given[-1])
        if terminated or truncated:
            assert info["observation_age"] == observation["age"] == 0
            np.testing.assert_array_equal(observation["actions"], encoded([], limit).reshape(-1, 3))
            observation, info = env.reset()
            given = []
    assert max(ages) >= limit
    assert max(ages) <= limit or rule == "latest-arrival"


def test_actions_rolled_through_a_model_give_the_true_state():
    env = DelayedObservation(gym.make("CartPole-v1"), "uniform:0-5", observe="actions")
    model = gym.make("CartPole-v1").unwrapped
    model.reset(seed=0)
    observation, _ = env.reset(seed=1)
    rng = np.random.default_rng(0)
    ended, steps = False, 0
    while not ended:
        model.state = observation["observation"].astype(float)
        for slot in observation["actions"]:
            if not slot[-1]:
                model.steps_beyond_terminated = None
                model.step(int(slot[:-1].argmax()))
        np.testing.assert_allclose(model.state, env.unwrapped.state, atol=1e-5)
        observation, _, terminated, truncated, _ = env.step(rng.integers(0, 2))
        ended, steps = terminated or truncated, steps + 1
    assert steps > 10


def test_ages_of_late_packets_stay_in_the_space():
    landing = {0: 4, 4: 4, 5: 3, 6: 2, 7: 1}  # nothing lands at 5, 6 and 7: packet 0 is held
    law = Callback(lambda context: landing.get(int(context.observation[0]), 0), 4)
    env = DelayedObservation(Counter(30), law, rule="latest-arrival", observe="actions")
    env.reset(seed=0)
    observations = [env.step(step % 2)[0] for step in range(7)]
    assert time_of(observations[-1]["observation"]) == 0
    assert observations[-1]["age"] == 7 / 4
    assert env.observation_space.contains(observations[-1])
    np.testing.assert_array_equal(observations[-1]["actions"], encoded([1, 0, 1, 0], 4))


def test_continuous_actions_are_shown_as_numbers():
    def make():
        return gym.make("Pendulum-v1")

    env = DelayedObservation(make(), "constant:2", observe="actions")
    env.reset(seed=0)
    for value in (0.5, -1.5, 1.0):
        observation, *_ = env.step(np.array([value]))
    np.testing.assert_array_equal(observation["actions"], [[-1.5, 0], [1.0, 0]])
    vector = DelayedObservationVector(SyncVectorEnv([make] * N), "constant:2", observe="actions")
    vector.reset(seed=0)
    observations, *_ = vector.step(np.full((N, 1), 0.5))
    np.testing.assert_array_equal(observations["actions"][1], [[0.5, 0], [0, 1]])


def test_state_without_actions_leaves_the_slots_empty():
    def make(vector):
        if not vector:
            return DelayedObservation(Counter(90), "constant:3", observe="actions")
        envs = SyncVectorEnv([lambda: Counter(90)])
        return DelayedObservationVector(envs, "constant:3", observe="actions")

    for vector in (False, True):
        env, twin = make(vector), make(vector)
        action = np.array([1]) if vector else 1
        env.reset(seed=0)
        for _ in range(8):
            env.step(action)
        state = env.delay_state()
        for key in ("actions", "rewards"):  # states of earlier versions
            state.pop(key, None)
        twin.env = copy.deepcopy(env.env)
        twin.restore_delay_state(state)
        results = [np.reshape(twin.step(action)[0]["actions"], (3, 3)) for _ in range(4)]
        assert [shown[:, -1].tolist() for shown in results] == [
            [1, 1, 0],
            [1, 0, 0],
            [0, 0, 0],
            [0, 0, 0],
        ]


def test_bad_arguments():
    with pytest.raises(DelayError, match=r"observe='action'.*did you mean 'actions'"):
        DelayedObservation(Counter(), "walk:3", observe="action")
    with pytest.raises(DelayError, match="already have the key 'age'"):
        DelayedObservation(
            DelayedObservation(Counter(), "walk:3", observe="age"), "walk:3", observe="age"
        )
    env = DelayedObservation(Counter(), "walk:3", observe="actions")
    env.reset(seed=0)
    with pytest.raises(gym.error.InvalidAction, match="is not in Discrete"):
        env.step(2)
    composite = Counter()
    composite.action_space = spaces.Tuple([spaces.Discrete(2)])
    with pytest.raises(DelayError, match=r"Tuple actions.*use observe='age'"):
        DelayedObservation(composite, "walk:3", observe="actions")
    vector = DelayedObservationVector(SyncVectorEnv([Counter] * N), "walk:3", observe="actions")
    vector.reset(seed=0)
    with pytest.raises(gym.error.InvalidAction, match="of environment 1 is not in"):
        vector.step(np.array([0, 2, 1]))
    with pytest.raises(DelayError, match="should each take one Discrete"):
        DelayedObservationVector(SyncVectorEnv([lambda: composite]), "walk:3", observe="actions")


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("wrap", [lambda env: env, two_keys])
def test_latest_is_what_the_environments_returned(mode, wrap):
    def make():
        return SyncVectorEnv([lambda: wrap(gym.make("CartPole-v1"))] * N, autoreset_mode=mode)

    bare, vector = make(), DelayedObservationVector(make(), "uniform:2-6", observe="actions")
    with pytest.raises(gym.error.ResetNeeded):
        _ = vector.latest
    vector.reset(seed=3)
    assert_equal(vector.latest, (bare.reset(seed=3)[0], np.zeros(N)))
    rng = np.random.default_rng(0)
    endings = 0
    for _ in range(90):
        actions = rng.integers(0, 2, N)
        vector.step(actions)
        observations, rewards, terminated, truncated, _ = bare.step(actions)
        assert_equal(vector.latest, (observations, rewards))
        done = terminated | truncated
        endings += done.sum()
        if mode == AutoresetMode.DISABLED and done.any():
            vector.reset(options={"reset_mask": done.copy()})
            observations, _ = bare.reset(options={"reset_mask": done.copy()})
            assert_equal(vector.latest, (observations, np.zeros(N)))
    assert endings >= 6
    vector.latest[1][:] = 9
    assert not (vector.latest[1] == 9).any()


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
@pytest.mark.parametrize("observe", ["plain", "actions"])
def test_saved_in_mid_episode_it_continues_exactly(rule, observe):
    def make():
        env = gym.make("CartPole-v1")
        return DelayedObservation(env, "uniform:0-6", rule=rule, observe=observe)

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


@pytest.mark.parametrize("observe", ["plain", "actions"])
def test_saved_vector_continues_exactly(observe):
    def make():
        envs = SyncVectorEnv([lambda: gym.make("CartPole-v1")] * N)
        return DelayedObservationVector(envs, "uniform:0-6", observe=observe)

    vector, twin = make(), make()
    vector.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(41):
        vector.step(rng.integers(0, 2, N))
    twin.env = copy.deepcopy(vector.env)
    twin.restore_delay_state(pickle.loads(pickle.dumps(vector.delay_state())))
    assert_equal(vector.latest, twin.latest)
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
