"""What is foreseen is what then happens, bit for bit."""

import numpy as np
import pytest

from delayzero.actions import ActionSpec, empty_queue
from delayzero.envs import foresight
from delayzero.envs.atari import Atari
from delayzero.envs.foresight import EVERYTHING, STRIP, ForeseeingAtari, shrunk
from delayzero.envs.make import UnsupportedEnvironment

from ..made import full_queue

GAMES, AHEAD = 2, 4


@pytest.mark.parametrize("game", ["Breakout", "Pong", "NameThisGame"])  # whose start takes frames
def test_pictures_are_those_that_come(game):
    env = ForeseeingAtari(Atari(game, GAMES, max_steps=150))
    count = int(env.single_action_space.n)
    rng = np.random.default_rng(0)
    plan = rng.integers(0, count, (330, GAMES))
    seen, ended, foreseen = [], [], {}
    observations, _ = env.reset(seed=3)
    for t in range(len(plan) - AHEAD):
        seen.append(observations)
        length = t % (AHEAD + 1)
        queue = empty_queue(GAMES, AHEAD, ActionSpec(count))
        queue.action[:, :length], queue.mask[:, :length] = plan[t : t + length].T, True
        if t % 7 == 0:
            foreseen[t] = length, *env.foresee(queue, 2)
        observations, _, terminated, truncated, _ = env.step(plan[t])
        ended.append(terminated | truncated)
    env.close()
    assert sum(map(np.sum, ended)) >= 3
    compared = 0
    for t, (length, pictures, found) in foreseen.items():
        for i in range(GAMES):
            ends = [e[i] for e in ended[max(t - 1, 0) : t + length]]
            if any(ends) or t + length >= len(seen):
                continue
            assert found[i] == min(length, 2)
            for back in range(found[i]):
                np.testing.assert_array_equal(pictures[i, -1 - back], seen[t + length - back][i])
                compared += 1
    assert compared > 80


def test_nothing_is_foreseen_without_actions_or_after_an_end():
    env = ForeseeingAtari(Atari("Pong", 1, max_steps=3))
    env.reset(seed=0)
    three = full_queue(np.zeros((1, 3), int))
    assert env.foresee(empty_queue(1, 3, ActionSpec(6)), 4)[1] == [0]
    assert env.foresee(three, 4)[1] == [3]
    for _ in range(3):
        *_, truncated, _ = env.step(np.zeros(1, int))
    assert truncated[0]
    assert env.foresee(three, 4)[1] == [0]
    env.close()


def test_areas_of_one_colour_keep_it():
    for value in (0, 77, 255):
        assert (shrunk(np.full((210, 160, 3), value, np.uint8)) == value).all()


@pytest.mark.parametrize("height", [210, 230, 250])
def test_lines_of_a_picture_are_those_of_the_whole(height):
    picture = np.random.default_rng(0).integers(0, 256, (height, 160, 3)).astype(np.uint8)
    whole = shrunk(picture)
    for first in range(EVERYTHING.start, EVERYTHING.stop, STRIP):
        lines = slice(first, first + STRIP)
        np.testing.assert_array_equal(shrunk(picture, lines), whole[lines])


def assert_refused(env, steps, ahead=0):
    """Played at random, it is told from its shadow."""
    rng, count = np.random.default_rng(0), int(env.single_action_space.n)

    def play():
        for action in rng.integers(0, count, (steps, env.num_envs)):
            env.foresee(full_queue(rng.integers(0, count, (env.num_envs, ahead))), 1)
            env.step(action)

    with pytest.raises(UnsupportedEnvironment, match=f"'{env._rom}' .* cannot be foreseen"):
        play()
    env.close()


def test_a_shadow_out_of_step_is_refused():
    env = ForeseeingAtari(Atari("Breakout", GAMES, max_steps=100))
    env.reset(seed=0)
    env._shadows[1].act(4)  # one frame to the left
    assert_refused(env, 12)


def test_a_game_that_restoring_changes_is_refused():
    env = ForeseeingAtari(Atari("TicTacToe3D", 1, max_steps=200))
    env.reset(seed=0)
    assert_refused(env, 150, ahead=4)


def test_a_shadow_that_begins_otherwise_is_refused(monkeypatch):
    def begin(emulator, frames):
        emulator.reset_game()
        return emulator.getScreenRGB() // 2

    env = ForeseeingAtari(Atari("Breakout", 1, max_steps=3))
    env.reset(seed=0)
    monkeypatch.setattr(foresight, "_begin", begin)
    assert_refused(env, 4)
    env = ForeseeingAtari(Atari("Breakout", 1, max_steps=3))
    with pytest.raises(UnsupportedEnvironment):
        env.reset(seed=0)
    env.close()
