"""Pictures for people, and names of actions."""

import gymnasium as gym
import numpy as np
import pytest

from delayzero.envs.foresight import ForeseeingAtari, shrunk
from delayzero.envs.make import UnsupportedEnvironment, id_of_function, make_vector
from delayzero.envs.minatar import COLOURS, GAMES, MinAtar
from delayzero.envs.rendering import action_names

NAMES = {
    "CartPole-v1": ("left", "right"),
    "minatar:breakout": ("no-op", "left", "right"),
    "atari:Breakout": ("no-op", "fire", "right", "left"),
    "delayzero/Identity-v0": ("0", "1", "2", "3"),
}


@pytest.mark.parametrize("env_id", NAMES)
def test_names_of_actions(env_id):
    env = make_vector(env_id, 1, training=False)
    assert action_names(env) == NAMES[env_id]
    env.close()


@pytest.mark.parametrize("wrap", [lambda env: env, ForeseeingAtari])
def test_emulator_frames_are_those_that_the_agent_sees(wrap):
    """In full size; shrunk they are its observations, over several games."""
    env = wrap(make_vector("atari:Breakout", 2, training=False, max_steps=15, render=True))
    plain = make_vector("atari:Breakout", 2, training=False, max_steps=15)
    observations, _ = env.reset(seed=5)
    np.testing.assert_array_equal(observations, plain.reset(seed=5)[0])
    rng, compared = np.random.default_rng(0), 0
    ended = np.zeros(2, bool)
    for _ in range(36):
        for i, picture in enumerate(env.render()):
            assert picture.shape == (210, 160, 3)
            if not ended[i]:  # the last picture of a game is mixed with older ones
                np.testing.assert_array_equal(shrunk(picture), observations[i])
                compared += 1
        actions = rng.integers(0, 4, 2)
        observations, _, terminated, truncated, _ = env.step(actions)
        np.testing.assert_array_equal(observations, plain.step(actions)[0])
        ended = terminated | truncated
    assert compared > 60
    env.close()
    plain.close()


@pytest.mark.parametrize("game", GAMES)
def test_every_object_of_minatar_has_a_colour_of_its_own(game):
    env = MinAtar(game, render_mode="rgb_array")
    observation, _ = env.reset(seed=0)
    for _ in range(30):
        observation, *_ = env.step(env.action_space.sample())
    cells = env.render()[8::16, 8::16]
    assert len(set(COLOURS)) == len(COLOURS) >= observation.shape[-1]
    for row, column in np.argwhere(observation.any(axis=-1)):
        top = int(observation[row, column].argmax())
        assert tuple(cells[row, column]) == COLOURS[top]
    empty = cells[~observation.any(axis=-1)]
    assert not {tuple(cell) for cell in empty} & set(COLOURS)


def made_with(render_mode=None):
    return gym.make("CartPole-v1", render_mode=render_mode)


def made_without():
    return gym.make("CartPole-v1")


def test_functions_may_take_the_render_mode():
    env = make_vector(id_of_function(made_with), 1, training=False, render=True)
    env.reset(seed=0)
    assert env.render()[0].shape == (400, 600, 3)
    assert make_vector(id_of_function(made_without), 1, training=False).num_envs == 1
    with pytest.raises(UnsupportedEnvironment, match="made_without' has no pictures"):
        make_vector(id_of_function(made_without), 1, training=False, render=True)


@pytest.mark.filterwarnings("error")
def test_an_environment_without_pictures():
    with pytest.raises(UnsupportedEnvironment, match="Identity-v0' has no pictures"):
        make_vector("delayzero/Identity-v0", 1, training=False, render=True)
