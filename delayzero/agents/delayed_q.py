"""Delayed-Q: act on Q at the observation that a forward model predicts for the action's time.

For vectors and small images the forward model is learned. For Atari it is the emulator, as in the
paper: whoever plays hands over what the actions under way lead to, and no action is left to roll
through.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from delayzero.model import AtariQModel, QModel, as_floats
from delayzero.planning import SearchResult, plan_queue, roll
from delayzero.settings import QConfig


@dataclass(frozen=True)
class DelayedQAgent:
    """Rolls its forward model through the actions under way, then takes the best Q-value.

    Attributes:
        model: Q, and but for Atari the forward model.
        config: How it explores.
    """

    model: QModel | AtariQModel
    config: QConfig

    @property
    def num_actions(self) -> int:
        """How many actions there are."""
        return self.model.num_actions

    def decide(
        self,
        variables: Any,
        stack: Array,
        queue: Array,
        key: Array,
        *,
        explore: bool,
        progress: Array | float,
    ) -> SearchResult:
        """See :class:`~delayzero.agents.acting.Agent`; its policy is the one that it acts by."""
        predicted = stack
        if isinstance(self.model, AtariQModel):
            assert queue.shape[1] == 0, "without a forward model nothing can be under way"
        else:
            predicted = roll(self.model, variables, as_floats(stack), queue)
        values = self.model.bind(variables).values(predicted)
        random = epsilon(self.config, progress) if explore else jnp.zeros(())
        best = jnp.argmax(values, axis=1)
        greedy = jax.nn.one_hot(best, self.num_actions)
        value = jnp.max(values, axis=1)
        return SearchResult(
            action=_with_noise(key, best, random, self.num_actions),
            policy=(1 - random) * greedy + random / self.num_actions,
            value=value,
            network_value=value,
            visits=jnp.zeros(values.shape, jnp.int32),
        )

    def first_queue(
        self, variables: Any, stack: Array, key: Array, length: int, *, explore: bool
    ) -> Array:
        """See :class:`~delayzero.agents.acting.Agent`.

        With the least noise while exploring; one action at a time without a forward model.
        """
        random = jnp.float32(self.config.epsilon_end if explore else 0.0)

        def choose(bound: QModel | AtariQModel, stack: Array, key: Array) -> Array:
            best = jnp.argmax(bound.values(stack), axis=1)
            return _with_noise(key, best, random, self.num_actions)

        if isinstance(self.model, AtariQModel):
            assert length == 1, "without a forward model only the next action can be planned"
            return choose(self.model.bind(variables), stack, key)[:, None]
        return plan_queue(self.model, variables, key, as_floats(stack), length, choose)


def epsilon(config: QConfig, progress: Array | float) -> Array:
    """The share of decisions made at random after a share of the training, ``[]``."""
    fallen = jnp.minimum(jnp.asarray(progress) / config.epsilon_share, 1.0)
    return config.epsilon_start + (config.epsilon_end - config.epsilon_start) * fallen


def _with_noise(key: Array, best: Array, share: Array, num_actions: int) -> Array:
    """Actions ``[B]``, a share of them uniform."""
    which, what = jax.random.split(key)
    uniform = jax.random.randint(what, best.shape, 0, num_actions, best.dtype)
    chosen = jnp.where(jax.random.uniform(which, best.shape) < share, uniform, best)
    return chosen.astype(jnp.int32)
