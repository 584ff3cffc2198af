"""The learner of Delayed-Q: double Q-learning on executed actions, and a forward model.

After Derman et al. (2021), "Acting in Delayed Environments with Non-Stationary Markov Policies".
``docs/agents.md`` lists all differences from the paper, under Delayed-Q.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import optax
from jax import Array

from delayzero.actions import Queue
from delayzero.learning.learner import (
    PRIORITY_FLOOR,
    LearnerState,
    Metrics,
    all_finite,
    before_updates,
    only_if,
    repeat_updates,
    sample_batch,
    weight_health,
)
from delayzero.model import AtariQModel, QModel, as_floats
from delayzero.replay import (
    Replay,
    Sample,
    Transitions,
    divide_batch,
    episode_starts,
    rows_at,
    stacked_frames,
    with_priorities,
)
from delayzero.settings import QConfig, ReplayConfig

SMALLEST_CHANGE = 1e-8
"""Added to the mean square of the changes, which may be 0."""


class QBatch(NamedTuple):
    """A batch of ``B`` transitions."""

    observation: Array
    """Stacks, ``[B, S, ...]``."""
    following: Array
    """The stacks after the step, ``[B, S, ...]``; the episode's last one where it ended."""
    action: Array
    """The executed action, ``[B]``."""
    reward: Array
    """``[B]``."""
    terminated: Array
    """Whether the return ended with this reward, ``[B]``."""
    weight: Array
    """Importance weights, ``[B]``."""


def double_q_targets(
    reward: Array, terminated: Array, online: Array, target: Array, discount: float
) -> Array:
    """Return the targets of double Q-learning, ``[B]``.

    They are r + gamma Q'(s', argmax_a Q(s', a)), or r where the return ended.

    Args:
        reward: ``[B]``.
        terminated: ``[B]``, bool. Not set by a truncation: its return continues after the last
            observation.
        online: Q(s', .), ``[B, A]``.
        target: Q'(s', .) of the older copy, ``[B, A]``.
        discount: Gamma.
    """
    chex.assert_rank([reward, online], [1, 2])
    chex.assert_equal_shape([reward, terminated])
    chex.assert_equal_shape([online, target])
    chex.assert_equal_shape_prefix([reward, online], 1)
    chex.assert_type(terminated, bool)
    best = jnp.argmax(online, axis=1)
    after = jnp.take_along_axis(target, best[:, None], axis=1)[:, 0]
    return reward + discount * jnp.where(terminated, 0.0, after)


def forward_loss(model: QModel, batch: QBatch) -> Array:
    """Return the forward model's loss, ``[]``; all components of an observation count equally.

    For vectors it is the squared error of each component's predicted change, divided by the mean
    square of its changes. For images it is the cross-entropy of each component, which is in
    [0, 1].
    """
    chex.assert_equal_shape([batch.observation, batch.following])
    output = model.forward_output(batch.observation, batch.action)
    before, after = as_floats(batch.observation[:, -1]), as_floats(batch.following[:, -1])
    if after.ndim > 2:
        return jnp.mean(optax.sigmoid_binary_cross_entropy(output, after))
    change = after - before
    error = jnp.square(output - change)
    mean_square = jnp.mean(jnp.square(change), axis=0) + SMALLEST_CHANGE
    return jnp.mean(error / mean_square)


@dataclass(frozen=True)
class QLearner:
    """The learner of Q, and of the forward model if there is one, from the same batch.

    Attributes:
        model: The networks.
        config: The learner's settings.
        replay: The sampling settings.
        total_updates: The number of updates of the whole run, for schedules.
    """

    model: QModel | AtariQModel
    config: QConfig
    replay: ReplayConfig
    total_updates: int

    @property
    def window(self) -> int:
        """The number of rows after a sampled one that an update needs: the next one."""
        return 1

    @property
    def rate_setting(self) -> str:
        """The option that sets the learning rate."""
        return "--q.learning-rate"

    def init(self, key: Array, observation: Array, queue: Queue | None = None) -> LearnerState:
        """See :class:`~delayzero.learning.learner.AnyLearner`."""
        del queue
        action = jnp.zeros(observation.shape[0], jnp.int32)
        variables = self.model.init(key, observation, action, method="everything")
        return before_updates(variables, self._optimiser, keeps_target=True)

    def update(
        self, state: LearnerState, replay: Replay, key: Array, count: Array
    ) -> tuple[LearnerState, Replay, Metrics]:
        """See :func:`~delayzero.learning.learner.repeat_updates`."""
        return repeat_updates(self._one_update, state, replay, key, count)

    def playing(self, state: LearnerState) -> Any:
        """Return the newest variables."""
        return state.variables

    def batch(self, state: LearnerState, replay: Replay, key: Array) -> tuple[Sample, QBatch]:
        """Return the sample and the batch of the next update."""
        sample = sample_batch(
            replay,
            jax.random.fold_in(key, state.updates),
            self.replay,
            self.config.batch_size,
            ahead=self.window,
            progress=state.updates / self.total_updates,
        )
        times, envs = sample.times, sample.envs
        start = episode_starts(replay, times, envs)
        frames = stacked_frames(replay, times + 1, envs, start, replay.stack + 1)
        slots = times % replay.rows
        transitions: Transitions = rows_at(replay, replay.transitions, slots, envs)
        batch = QBatch(
            observation=frames[:, :-1],
            following=frames[:, 1:],
            action=transitions.action,
            reward=transitions.reward,
            terminated=transitions.terminated,
            weight=sample.weights,
        )
        return sample, divide_batch(replay.mesh, batch)

    def loss(self, variables: Any, target: Any, batch: QBatch) -> tuple[Array, tuple[Array, Any]]:
        """Compute the loss of a batch.

        It is Huber(Q(s, x) - y) plus the forward model's loss, see :func:`forward_loss`.

        Args:
            variables: The variables of the networks.
            target: Their older copy.
            batch: The batch.

        Returns:
            The loss, ``[]``, and a pair of the absolute error of Q, ``[B]``, and metrics.
        """
        model = self.model.bind(variables)
        values = model.values(batch.observation)
        q_target = double_q_targets(
            batch.reward,
            batch.terminated,
            model.values(batch.following),
            self.model.bind(target).values(batch.following),
            self.config.discount,
        )
        q_target = jax.lax.stop_gradient(q_target)
        value = jnp.take_along_axis(values, batch.action[:, None], axis=1)[:, 0]
        chex.assert_equal_shape([value, q_target, batch.weight])
        q_loss = jnp.mean(batch.weight * optax.huber_loss(value, q_target))
        error = jnp.abs(value - q_target)
        metrics = {
            "loss": q_loss,
            "loss/q": q_loss,
            "q/target": q_target.mean(),
            "q/network": value.mean(),
            "q/error": error.mean(),
        }
        if isinstance(model, QModel):
            metrics["loss/forward"] = forward_loss(model, batch)
            metrics["loss"] = q_loss + metrics["loss/forward"]
        return metrics["loss"], (error, metrics)

    def _one_update(
        self, state: LearnerState, replay: Replay, key: Array
    ) -> tuple[LearnerState, Replay, Metrics]:
        sample, batch = self.batch(state, replay, key)

        def loss_of(params: Any) -> tuple[Array, tuple[Array, Metrics]]:
            return self.loss({"params": params}, state.target, batch)

        params = state.variables["params"]
        gradient, (error, metrics) = jax.grad(loss_of, has_aux=True)(params)
        norm = optax.tree.norm(gradient)
        change, optimiser = self._optimiser.update(gradient, state.optimiser, params)
        variables = {"params": optax.apply_updates(params, change)}
        due = (state.updates + 1) % self.config.target_period == 0
        updated = LearnerState(
            variables=variables,
            target=jax.tree.map(lambda new, old: jnp.where(due, new, old), variables, state.target),
            optimiser=optimiser,
            updates=state.updates + 1,
            failed=state.failed,
        )
        finite = all_finite(norm, metrics["loss"])
        renewed = with_priorities(replay, sample, error + PRIORITY_FLOOR)
        priority = jnp.where(finite, renewed.priority, replay.priority)
        metrics = {**metrics, **weight_health(sample.weights), "gradient/norm": norm}
        return only_if(finite, updated, state), replay._replace(priority=priority), metrics

    @property
    def _optimiser(self) -> optax.GradientTransformation:
        """Adam for each network separately, so that clipping one does not affect the other."""

        def adam(rate: float) -> optax.GradientTransformation:
            falling = optax.linear_schedule(rate, rate / 10, self.total_updates)
            return optax.chain(
                optax.clip_by_global_norm(self.config.clip_norm), optax.adam(falling)
            )

        parts = {
            "q": adam(self.config.learning_rate),
            "forward": adam(self.config.forward_learning_rate),
        }

        def part(params: Any) -> Any:
            return {name: "forward" if name == "forward" else "q" for name in params}

        return optax.partition(parts, part)
