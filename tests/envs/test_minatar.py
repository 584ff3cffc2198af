import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from delayzero.envs.minatar import GAMES, MinAtar


@pytest.mark.parametrize("game", GAMES)
def test_checker_passes(game):
    env = MinAtar(game, render_mode="rgb_array")
    check_env(env)
    env.reset(seed=0)
    assert env.render().shape == (160, 160, 3)


def test_seed_decides_the_game():
    def play(seed):
        env = MinAtar("asterix")
        observations = [env.reset(seed=seed)[0]]
        rng = np.random.default_rng(0)
        for _ in range(200):
            observation, _, terminated, _, _ = env.step(rng.integers(env.action_space.n))
            observations.append(env.reset()[0] if terminated else observation)
        return np.array(observations)

    np.testing.assert_array_equal(play(1), play(1))
    assert (play(1) != play(2)).any()


def test_all_actions_and_the_minimal_ones():
    assert MinAtar("breakout", minimal_actions=False).action_space.n == 6
    assert MinAtar("breakout").action_space.n == 3


def test_unknown_game():
    with pytest.raises(
        gym.error.UnregisteredEnv, match="unknown MinAtar game 'pong'; choose from asterix"
    ):
        MinAtar("pong")


def test_a_seed_forgets_the_action_that_sticks():
    played, fresh = (MinAtar("breakout", sticky_action_prob=0.5) for _ in range(2))
    for seed in range(10):
        played.reset()
        played._game.last_action = 1  # left
        fresh._game.last_action = 0
        played.reset(seed=seed)
        fresh.reset(seed=seed)
        np.testing.assert_array_equal(played.step(2)[0], fresh.step(2)[0])
