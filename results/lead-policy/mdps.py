"""Random problems as environments, and leads that learn what a search from them finds.

Environments for ``delayzero train --env mdps:sparse_3``: the problem of that family and seed in
``delayzero.tabular``; other names are those of ``results/foresight-minatar/games.py``, if that
folder is in ``PYTHONPATH`` too.

With ``LEAD_POLICY`` set, ``--learner.lead-policy rolled`` changes when this module is imported:
``first`` gives policies from searches at rolled latents to the first state of each position with a
lead alone, and leaves the others those of stored searches. With ``heavy`` the others learn no
policy, and the first state counts for all of them.
"""

import importlib
import os

import gymnasium as gym
import jax.numpy as jnp
import numpy as np

from delayzero.learning import update
from delayzero.tabular.families import FAMILIES, random_mdp

STATES, ACTIONS, STEPS = 4, 2, 50
VARIANT = os.environ.get("LEAD_POLICY", "")


def problem(name):
    """Return the problem of a name such as ``sparse_3``."""
    family, seed = name.rsplit("_", 1)
    return random_mdp(family, STATES, ACTIONS, STEPS, int(seed))


class Problem(gym.Env):
    """A tabular problem; it observes the state, one-hot."""

    def __init__(self, name):
        self.mdp = problem(name)
        self.observation_space = gym.spaces.Box(0, 1, (STATES,), np.float32)
        self.action_space = gym.spaces.Discrete(ACTIONS)

    def reset(self, *, seed=None, options=None):
        """Start in a random state."""
        super().reset(seed=seed)
        self.state, self.steps = self._draw(self.mdp.initial), 0
        return self._observed(), {}

    def step(self, action):
        """Move; the episode is cut off after its last step."""
        reward = float(self.mdp.rewards[self.state, action])
        self.state = self._draw(self.mdp.transitions[self.state, action])
        self.steps += 1
        return self._observed(), reward, False, self.steps == STEPS, {}

    def _draw(self, chances):
        return int(self.np_random.choice(STATES, p=chances))

    def _observed(self):
        return np.eye(STATES, dtype=np.float32)[self.state]


def __getattr__(name):
    if name.rsplit("_", 1)[0] in FAMILIES:
        return lambda: Problem(name)
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(importlib.import_module("games"), name)


def with_first_policies(search_leads):
    """Return a search that gives policies to the first states alone."""

    def search(planner, variables, key, batch, mesh=None):
        found = search_leads(planner, variables, key, batch, mesh)
        if VARIANT == "first":
            return jnp.concatenate([found[:, :1], batch.policy[: len(found), 1:]], axis=1)
        return jnp.zeros_like(found).at[:, 0].set(found.shape[1] * found[:, 0])

    return search


if VARIANT in ("first", "heavy"):
    update.search_leads = with_first_policies(update.search_leads)
elif VARIANT:
    raise SystemExit(f"LEAD_POLICY is first or heavy, not {VARIANT}")
