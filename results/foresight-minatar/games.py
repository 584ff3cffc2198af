"""MinAtar games without sticky actions, and variants of the learner that are no settings.

Environments for ``delayzero train --env games:space_invaders``, with this folder in ``PYTHONPATH``.
The variable ``VARIANT`` changes the learner when this module is imported: ``blocks2`` gives the
dynamics a second residual block, ``whole`` does not halve gradients from step to step.
"""

import functools
import os

import gymnasium as gym
import numpy as np

from delayzero.envs.minatar import MinAtar
from delayzero.learning import augment, loss
from delayzero.model import conv, parts

VARIANT = os.environ.get("VARIANT", "")
if VARIANT == "blocks2":
    conv.ImageDynamics = functools.partial(parts.ImageDynamics, blocks=2)
elif VARIANT == "whole":
    loss._half_gradient = lambda latent: latent
elif VARIANT:
    raise SystemExit(f"VARIANT is blocks2 or whole, not {VARIANT}")


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


def breakout_pixels():
    """Return Breakout as pixels."""
    return Pixels(MinAtar("breakout", sticky_action_prob=0))
