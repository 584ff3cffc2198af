import math
from dataclasses import replace

import gymnasium as gym
import jax
import numpy as np
import pytest
from gymnasium import spaces

from delayzero.envs.make import make_vector
from delayzero.evaluation import episodes
from delayzero.evaluation.episodes import Episode, Evaluator, summary
from delayzero.playing.environments import make_env, make_training_env
from delayzero.playing.streams import STREAM_EVALUATION_ENVS, run_seed
from delayzero.playing.system import build_system
from delayzero.spaces import Spaces

from ..training.small import small, stirred


class Fated(gym.Env):
    """The worse an episode, the shorter: its length is drawn, its score is the length.

    What it shows tells an agent nothing, and what an agent does changes nothing.
    """

    observation_space = spaces.Box(0, 1, (4,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._left = self._length = int(self.np_random.choice([2, 40]))
        return np.zeros(4, np.float32), {}

    def step(self, action):
        self._left -= 1
        reward = float(self._length) if self._left == 0 else 0.0
        return np.zeros(4, np.float32), reward, self._left == 0, False, {}


gym.register("delayzero-tests/Fated-v0", Fated)


class Recorded(gym.vector.VectorWrapper):
    """Remembers the actions."""

    def __init__(self, env, kept):
        super().__init__(env)
        self._kept = kept

    def step(self, actions):
        self._kept.append(np.array(actions))
        return self.env.step(actions)


@pytest.fixture(scope="module")
def made():
    """Systems and weights by environment; one set of weights for all."""
    config = small(stack=2)
    config = replace(config, clip_rewards=True)
    env = make_training_env(config)
    system = build_system(config, Spaces.of(env))
    learner = jax.jit(system.first_state)(jax.random.key(0))
    return system, stirred(learner.variables)


@pytest.mark.parametrize(
    ("count", "envs", "expected"),
    [(7, 3, [3, 2, 2]), (8, 3, [3, 3, 2]), (6, 3, [2, 2, 2]), (2, 2, [1, 1]), (5, 1, [5])],
)
def test_the_split(count, envs, expected):
    assert episodes._split(count, envs) == expected


def test_episodes_are_split_beforehand_and_repeat(made):
    system, variables = made
    evaluator, told = Evaluator(system, 7, envs=3), []
    played = evaluator.play(variables, 5, lambda *args: told.append(args))
    places = [(e.env, e.number) for e in played]
    assert places == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 0), (2, 1)]
    assert sum(ended for ended, _ in told) == 7
    assert told[-1][1] == f"step {len(told)} of 3 parallel games"
    assert evaluator.play(variables, 5) == played
    assert Evaluator(system, 7, envs=3).play(variables, 5) == played
    assert evaluator.play(variables, 6) != played


def test_scores_are_those_of_the_actions(made, monkeypatch):
    """Raw rewards of whole episodes, in environments that training never saw."""
    system, variables = made
    config = replace(system.config, env="CartPole-v1", max_steps=3)
    system, kept = replace(system, config=config), []
    monkeypatch.setattr(episodes, "make_env", lambda *a, **k: Recorded(make_env(*a, **k), kept))
    evaluator, begun = Evaluator(system, 7, envs=3, max_steps=9), []
    decide = evaluator._player._act

    def watched(variables, stack, seen, first, *others, **options):
        begun.append(first.copy())
        return decide(variables, stack, seen, first, *others, **options)

    evaluator._player._act = watched
    played = evaluator.play(variables, 2)
    env = make_vector("CartPole-v1", 3, training=False, max_steps=9)
    env.reset(seed=run_seed(2, STREAM_EVALUATION_ENVS))
    sums, lengths, over = [0.0] * 3, [0] * 3, [False] * 3
    mine, new = [[] for _ in range(3)], [True] * 3
    for actions, first in zip(kept, begun, strict=True):
        assert list(first) == new
        new = over.copy()
        _, rewards, terminated, truncated, _ = env.step(actions)
        for i in range(3):
            if not over[i]:
                sums[i] += rewards[i]
                lengths[i] += 1
            over[i] = bool(terminated[i] or truncated[i])
            if over[i]:
                cut = bool(truncated[i] and not terminated[i])
                mine[i].append(Episode(i, len(mine[i]), sums[i], lengths[i], cut))
                sums[i], lengths[i] = 0.0, 0
    assert [e._replace(digest=0) for e in played] == [*mine[0][:3], *mine[1][:2], *mine[2][:2]]
    assert len({e.digest for e in played}) == len(played)
    assert any(e.truncated for e in played)
    assert {e.length for e in played} <= set(range(1, 10))
    assert all(e.score == e.length for e in played)


def test_actions_are_calm(made, monkeypatch):
    """The same observation is always answered in the same way, whatever the time."""
    system, variables = made
    kept = []
    monkeypatch.setattr(episodes, "make_env", lambda *a, **k: Recorded(make_env(*a, **k), kept))
    config = replace(
        system.config,
        env="delayzero-tests/Fated-v0",
        search=replace(system.config.search, dirichlet_fraction=0.9),
    )
    loud = build_system(config, system.spaces)
    Evaluator(loud, 6, envs=3).play(variables, 0)
    assert len(np.unique(kept)) == 1


def test_short_episodes_do_not_count_more(made):
    """Each environment's first episodes, not the first to end."""
    system, variables = made
    config = replace(system.config, env="delayzero-tests/Fated-v0")
    fated = Evaluator(replace(system, config=config), 60, envs=3)
    played = fated.play(variables, 0)
    env = make_vector("delayzero-tests/Fated-v0", 3, training=False)
    env.reset(seed=run_seed(0, STREAM_EVALUATION_ENVS))
    expected = []
    for single in env.envs:
        for number in range(20):
            if number:
                single.reset()
            expected.append(float(single.unwrapped._length))
    assert [e.score for e in played] == expected
    assert 10 < summary(played)["score"] < 32, "21 in the mean; the first to end have about 4"


def test_the_summary():
    played = [Episode(0, 0, 1.0, 10, False), Episode(0, 1, 3.0, 20, True)]
    played += [Episode(1, 0, 8.0, 60, False)]
    figures = summary(played)
    assert figures["episodes"] == 3
    assert figures["score"] == 4.0
    assert figures["standard_error"] == pytest.approx(math.sqrt(13 / 3))
    assert (figures["lowest"], figures["highest"]) == (1.0, 8.0)
    assert figures["length"] == 30.0
    assert figures["truncated"] == 1


def test_equal_episodes_are_counted_once(made):
    system, variables = made
    evaluator = Evaluator(system, 3, max_steps=9)
    played = evaluator.play(variables, 5)
    evaluator.close()
    assert episodes.summary(played)["distinct"] == 3
    again = [played[0], played[1], played[0]._replace(env=2)]
    assert episodes.summary(again)["distinct"] == 2
