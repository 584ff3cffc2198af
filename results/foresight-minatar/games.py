"""MinAtar games without sticky actions, and variants of the learner that are no settings.

Environments for ``delayzero train --env games:space_invaders``, with this folder in ``PYTHONPATH``.
The variable ``VARIANT`` changes the learner when this module is imported: ``blocks2`` gives the
dynamics a second residual block, ``whole`` does not halve gradients from step to step. With
``crossing`` leads cross lost lives, with ``cut`` they do not, whatever ``--model.ends`` says.
"""

import functools
import os

import gymnasium as gym
import numpy as np

from delayzero.envs.minatar import MinAtar
from delayzero.learning import augment, leads, loss, update
from delayzero.model import conv, parts

VARIANT = os.environ.get("VARIANT", "")
if VARIANT == "blocks2":
    conv.ImageDynamics = functools.partial(parts.ImageDynamics, blocks=2)
elif VARIANT == "whole":
    loss._half_gradient = lambda latent: latent
elif VARIANT in ("crossing", "cut"):
    update.lead_queues = lambda *inputs, predicts_ends: leads.lead_queues(
        *inputs, predicts_ends=VARIANT == "crossing"
    )
elif VARIANT:
    raise SystemExit(f"VARIANT is blocks2, whole, crossing or cut, not {VARIANT}")


class Pixels(gym.ObservationWrapper):
    """Observations of uint8, which the learner shifts; here by one pixel, not by four."""

    def __init__(self, env):
        super().__init__(env)
        augment.SHIFT = 1
        self.observation_space = gym.spaces.Box(0, 255, env.observation_space.shape, np.uint8)

    def observation(self, observation):
        return (observation * 255).astype(np.uint8)


def space_invaders():
    """Return Space Invaders."""
    return MinAtar("space_invaders", sticky_action_prob=0)


def breakout():
    """Return Breakout."""
    return MinAtar("breakout", sticky_action_prob=0)


class Lives(gym.Wrapper):
    """A game of three lives: two deaths put the player back, and the game goes on.

    As in Atari, ``info["life_lost"]`` tells of them; observations do not show how many are left.
    """

    LIVES = 3

    def reset(self, **options):
        self._left = self.LIVES
        return self.env.reset(**options)

    def step(self, action):
        _, reward, terminated, truncated, info = self.env.step(action)
        self._left -= terminated
        lost = terminated and self._left > 0
        if lost:
            game = self.env._game.env
            RESPAWN[type(game).__module__.rpartition(".")[2]](game)
            game.terminal = False
        ended = terminated and not lost
        return self.env._observation(), reward, ended, truncated, {**info, "life_lost": lost}


def _respawn_in_space_invaders(game):
    """Begin in the middle, without bullets; aliens begin anew if some are in the lowest rows."""
    game.pos = 5
    game.e_bullet_map[:] = game.f_bullet_map[:] = 0
    if game.alien_map[8:].any():
        game.alien_map[:] = 0
        game.alien_map[:4, 2:8] = 1


def _respawn_in_breakout(game):
    """Serve a new ball from the side of the lost one; bricks stay."""
    bricks, side = game.brick_map, game.ball_x > 4
    game.reset()
    game.brick_map = bricks
    game.ball_x, game.ball_dir = (9, 3) if side else (0, 2)
    game.last_x = game.ball_x


def _respawn_in_asterix(game):
    """Begin in the middle of an empty field."""
    game.player_x = game.player_y = 5
    game.entities = [None] * 8


RESPAWN = {
    "space_invaders": _respawn_in_space_invaders,
    "breakout": _respawn_in_breakout,
    "asterix": _respawn_in_asterix,
}


def space_invaders_lives():
    """Return Space Invaders with three lives."""
    return Lives(space_invaders())


def breakout_lives():
    """Return Breakout with three lives."""
    return Lives(breakout())


def asterix_lives():
    """Return Asterix with three lives."""
    return Lives(MinAtar("asterix", sticky_action_prob=0))


def breakout_pixels():
    """Return Breakout as pixels."""
    return Pixels(MinAtar("breakout", sticky_action_prob=0))
