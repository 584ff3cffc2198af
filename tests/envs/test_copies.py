"""Environments that are played ahead by their copies."""

import itertools
import threading

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils import EzPickle
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from delayzero.actions import Queue
from delayzero.envs.copies import ForeseeingCopies
from delayzero.envs.foresight import foreseeing, foresight_of
from delayzero.envs.make import UnsupportedEnvironment, make_vector

LENGTH = 6


class Chance(gym.Env):
    """Shows the time, the last action and a random number; ends after six steps."""

    observation_space = gym.spaces.Box(-10, 10, (3,), np.float32)
    action_space = gym.spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self._shown(0), {}

    def step(self, action):
        self.time += 1
        return self._shown(action), 1.0, self.time == LENGTH, False, {}

    def _shown(self, action):
        return np.array([self.time, action, self.drawn()], np.float32)

    def drawn(self):
        return self.np_random.uniform()


class Same(Chance):
    """Shows the same array in every step."""

    def _shown(self, action):
        if self.time == 0:
            self.array = np.zeros(3, np.float32)
        self.array[:] = super()._shown(action)
        return self.array


class Wide(Chance):
    """Shows another type than its space has, and takes numpy's numbers as actions."""

    def step(self, action):
        shown, *others = super().step(action.item())
        return [*shown.astype(np.float64) + 0.1], *others


class Common(Chance):
    """Draws from a source that copies share."""

    source = np.random.default_rng(0)

    def drawn(self):
        return self.source.uniform()


class CommonEnd(Chance):
    """Ends at every other step of all games and copies together."""

    steps = itertools.count()

    def step(self, action):
        return *super().step(action)[:2], next(self.steps) % 2 == 1, False, {}


class Stuck(Chance):
    """Holds what cannot be copied."""

    def __init__(self):
        self.lock = threading.Lock()


class Fresh(Chance, EzPickle):
    """Its copy is a new environment, which was never reset."""

    def __init__(self):
        EzPickle.__init__(self)


def games(make, count=3):
    made = SyncVectorEnv([make] * count, autoreset_mode=AutoresetMode.NEXT_STEP)
    return foreseeing(made)


def queue_of(*rows, width=5):
    action, mask = np.zeros((len(rows), width), np.int32), np.zeros((len(rows), width), bool)
    for i, row in enumerate(rows):
        action[i, : len(row)], mask[i, : len(row)] = row, True
    return Queue(action, mask)


@pytest.mark.parametrize("make", [Chance, Same, Wide])
def test_it_shows_what_will_come_with_its_chance(make):
    env = games(make)
    env.reset(seed=3)
    planned = [[1, 2, 3, 1], [2], []]
    shown, lengths = env.foresee(queue_of(*planned), 3)
    assert lengths.tolist() == [3, 1, 0]
    assert not shown[2].any()
    assert not shown[1, :2].any()
    came = [
        env.step(np.array(actions))[0] for actions in ([1, 2, 0], [2, 0, 0], [3, 0, 0], [1, 0, 0])
    ]
    np.testing.assert_array_equal(shown[0], [one[0] for one in came[1:]])
    np.testing.assert_array_equal(shown[1, -1], came[0][1])


def test_looking_ahead_changes_nothing():
    played = []
    for looks in (False, True):
        env = games(Chance)
        env.reset(seed=3)
        steps = []
        for action in range(10):
            if looks:
                env.foresee(queue_of([1, 1], [2], [3] * 5), 2)
            steps.append(env.step(np.full(3, action % 4))[0].copy())
        played.append(steps)
    np.testing.assert_array_equal(*played)


def test_nothing_is_foreseen_beyond_an_end():
    env = games(Chance, count=1)
    env.reset(seed=0)
    for _ in range(LENGTH - 2):
        env.step(np.zeros(1, int))
    shown, lengths = env.foresee(queue_of([1, 1, 1]), 4)
    assert lengths.tolist() == [1]
    assert shown[0, -1, 0] == LENGTH - 1
    for _ in range(2):
        terminated = env.step(np.zeros(1, int))[2]
    assert terminated.all()
    assert env.foresee(queue_of([1]), 4)[1].tolist() == [0], "the next step is a reset"
    env.step(np.zeros(1, int))
    assert env.foresee(queue_of([1]), 4)[1].tolist() == [1]


@pytest.mark.parametrize("make", [Common, CommonEnd])
def test_an_environment_that_its_copy_disturbs_is_refused(make):
    env = games(make, count=1)
    env.reset(seed=0)
    env.foresee(queue_of([1]), 1)
    with pytest.raises(UnsupportedEnvironment, match="played differently"):
        env.step(np.ones(1, int))


def test_what_ran_instead_is_not_compared():
    env = games(Common)
    env.reset(seed=0)
    env.foresee(queue_of([1], [1], [1]), 1)
    observations = env.step(np.full(3, 2))[0]
    assert observations[:, 1].tolist() == [2, 2, 2]


@pytest.mark.parametrize("make", [Stuck, Fresh])
def test_an_environment_that_cannot_be_copied_is_refused(make):
    env = games(make)
    env.reset(seed=0)
    with pytest.raises(UnsupportedEnvironment, match="a copy of the environment cannot be played"):
        env.foresee(queue_of([1], [1], [1]), 1)


def test_other_vector_environments_are_refused():
    class Other(gym.vector.VectorEnv):
        pass

    with pytest.raises(UnsupportedEnvironment, match="not in Other"):
        foreseeing(Other())


@pytest.mark.parametrize("env_id", ["CartPole-v1", "minatar:breakout"])
def test_it_is_found_inside_wrappers(env_id):
    env = foreseeing(make_vector(env_id, 2, training=True))
    assert isinstance(env, ForeseeingCopies)
    assert foresight_of(gym.vector.VectorWrapper(env)) is env
    assert foresight_of(env.env) is None
    env.reset(seed=0)
    shown, lengths = env.foresee(queue_of([1, 0], [0, 1]), 1)
    env.step(np.array([1, 0]))
    came = env.step(np.array([0, 1]))[0]
    assert lengths.tolist() == [1, 1]
    np.testing.assert_array_equal(shown[:, 0], came)
