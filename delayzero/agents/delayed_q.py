"""Delayed-Q: act on Q at the observation that a forward model predicts for the action's time.

For vectors and small images the forward model is learned. For Atari it is the emulator, as in the
paper: the environment says what the pending actions lead to, and no action is left to roll through.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from delayzero.actions import ActionSpec
from delayzero.agents.acting import uniform_actions
from delayzero.agents.agent import Decision, Logs, Observed, State
from delayzero.model import AtariQModel, QModel, as_floats
from delayzero.planning import plan_queue, roll
from delayzero.settings import QConfig


@dataclass(frozen=True)
class DelayedQAgent:
    """Rolls its forward model through the pending actions, then takes the best Q-value.

    Implements :class:`~delayzero.agents.agent.Agent`.

    Attributes:
        model: Q, and but for Atari the forward model.
        config: How it explores.
    """

    model: QModel | AtariQModel
    config: QConfig
    logs: Logs = "executed"
    needs_delay: bool = True
    looks_ahead: bool = True
    queue_width: int | None = None
    longest_queue: int | None = None

    @property
    def actions(self) -> ActionSpec:
        """What an action is."""
        return self.model.actions

    @property
    def foresees(self) -> bool:
        """Whether the environment must tell it what the pending actions lead to: in Atari."""
        return isinstance(self.model, AtariQModel)

    @property
    def takes_late_observations(self) -> bool:
        """Whether it can act on late observations: the emulator looks ahead from now alone."""
        return not self.foresees

    def init_state(self, num_envs: int) -> State:
        """Return nothing: the observation and the queue say all."""
        return ()

    def decide(
        self,
        variables: Any,
        state: State,
        observed: Observed,
        key: Array,
        *,
        explore: bool,
        progress: Array | float,
    ) -> tuple[State, Decision]:
        """See :class:`~delayzero.agents.agent.Agent`."""
        stack = observed.stack
        if isinstance(self.model, AtariQModel):
            assert observed.queue.width == 0, "without a forward model nothing can be pending"
        else:
            stack = roll(self.model, variables, as_floats(stack), observed.queue)
        best = jnp.argmax(self.model.bind(variables).values(stack), axis=1)
        share = epsilon(self.config, progress) if explore else jnp.zeros(())
        return state, Decision(self._with_noise(key, best, share))

    def first_queue(
        self, variables: Any, stack: Array, key: Array, length: int, *, explore: bool
    ) -> Array:
        """See :class:`~delayzero.agents.agent.Agent`.

        With the least noise while exploring; one action at a time without a forward model.
        """
        share = jnp.float32(self.config.epsilon_end if explore else 0.0)

        def choose(bound: QModel | AtariQModel, stack: Array, key: Array) -> Array:
            return self._with_noise(key, jnp.argmax(bound.values(stack), axis=1), share)

        if isinstance(self.model, AtariQModel):
            assert length == 1, "without a forward model only the next action can be planned"
            return choose(self.model.bind(variables), stack, key)[:, None]
        return plan_queue(self.model, variables, key, as_floats(stack), length, choose)

    def _with_noise(self, key: Array, best: Array, share: Array) -> Array:
        """Actions ``[B]``, a share of them uniform."""
        which, what = jax.random.split(key)
        uniform = uniform_actions(self.actions, what, best.shape)
        chosen = jnp.where(jax.random.uniform(which, best.shape) < share, uniform, best)
        return chosen.astype(jnp.int32)


def epsilon(config: QConfig, progress: Array | float) -> Array:
    """Return the share of decisions made at random after a share of the training, ``[]``."""
    fallen = jnp.minimum(jnp.asarray(progress) / config.epsilon_share, 1.0)
    return config.epsilon_start + (config.epsilon_end - config.epsilon_start) * fallen
