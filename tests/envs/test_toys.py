import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import delayzero.envs  # noqa: F401
from delayzero.delays import DelayedExecution
from delayzero.envs.toys import Chase


@pytest.mark.parametrize("name", ["Identity", "TwoStepBandit", "Wheel", "Chase"])
def test_checker_passes(name):
    check_env(gym.make(f"delayzero/{name}-v0").unwrapped)


def returns(name, policy, episodes=1):
    env = gym.make(f"delayzero/{name}-v0")
    total = 0.0
    for episode in range(episodes):
        observation, _ = env.reset(seed=episode)
        over = False
        while not over:
            observation, reward, terminated, truncated, _ = env.step(policy(observation))
            total += reward
            assert not truncated
            over = terminated
    return total / episodes


def test_identity():
    assert returns("Identity", lambda observation: observation.argmax()) == 8
    rng = np.random.default_rng(0)
    assert 1.5 < returns("Identity", lambda _: rng.integers(4), 200) < 2.5


def test_identity_is_random():
    env = gym.make("delayzero/Identity-v0")
    symbols = [env.reset(seed=0)[0].argmax()] + [env.step(0)[0].argmax() for _ in range(8)]
    assert len(set(symbols)) > 1


@pytest.mark.parametrize(
    ("first", "second", "expected"), [(0, 0, 0.2), (0, 1, 0.2), (1, 0, 1.0), (1, 1, 0.0)]
)
def test_two_step_bandit(first, second, expected):
    choices = iter([first, second])
    assert returns("TwoStepBandit", lambda _: next(choices)) == expected


def test_two_step_bandit_shows_its_state():
    env = gym.make("delayzero/TwoStepBandit-v0")
    np.testing.assert_array_equal(env.reset(seed=0)[0], [1, 0, 0])
    np.testing.assert_array_equal(env.step(1)[0], [0, 0, 1])
    np.testing.assert_array_equal(env.step(1)[0], [0, 0, 0])


def test_the_wheel_turns_by_what_ran():
    assert returns("Wheel", lambda observation: observation.argmax() % 3) == 12
    rng = np.random.default_rng(0)
    assert 3 < returns("Wheel", lambda _: rng.integers(3), 200) < 5
    env = gym.make("delayzero/Wheel-v0")
    place = env.reset(seed=3)[0].argmax()
    for action in (0, 1, 2, 2):
        place = (place + 1 + action) % 5
        assert env.step(action)[0].argmax() == place


def test_under_delay_the_place_that_is_seen_is_no_guide():
    env = DelayedExecution(gym.make("delayzero/Wheel-v0"), "constant:2")
    scores = []
    for seed in range(100):
        observation, _ = env.reset(seed=seed)
        ended, score = False, 0.0
        while not ended:
            observation, reward, ended, *_ = env.step(observation.argmax() % 3)
            score += reward
        scores.append(score)
    assert np.mean(scores) < 7


def test_running_on_gives_all_seeds_and_random_play_hardly_one():
    env = Chase()
    observation, _ = env.reset(seed=0)
    assert observation.argmax() == Chase.head_start
    assert observation[Chase.farthest + 1 :].argmax() == Chase.first_seed
    total, over, steps = 0.0, False, 0
    while not over:
        observation, reward, caught, over, _ = env.step(17)
        total, steps = total + reward, steps + 1
        assert not caught
        assert reward == (steps >= 20 and (steps - 20) % 3 == 0)
    assert (total, steps) == (27, 100)
    rng, found, steps = np.random.default_rng(0), 0.0, 20_000
    env.reset(seed=1)
    for _ in range(steps):
        _, reward, caught, over, _ = env.step(rng.integers(18))
        found += reward
        if caught or over:
            env.reset()
    assert 1 / 6000 < found / steps < 1 / 800


@pytest.mark.parametrize("action", [0, 3, 16])
def test_who_does_not_run_is_caught(action):
    env = Chase()
    env.reset(seed=0)
    caught = over = False
    while not (caught or over):
        _, reward, caught, over, _ = env.step(action)
        assert reward == 0
    assert caught
