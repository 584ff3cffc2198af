"""The learner: one compiled call makes several updates, from sampling to new priorities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from jax import Array

from delayzero.learning.augment import augmented
from delayzero.learning.batch import Batch, assemble, window_targets
from delayzero.learning.config import LearnerConfig, ReanalysisConfig
from delayzero.learning.loss import LossOutput, Metrics, efficientzero_loss
from delayzero.learning.optimiser import learning_rate, make_optimiser
from delayzero.learning.reanalysis import searched_windows
from delayzero.planning import Planner
from delayzero.replay import Replay, ReplayConfig, Sample, sample, with_priorities

PRIORITY_FLOOR = 1e-6
NEVER = -1
"""In :attr:`LearnerState.failed`: no update has failed."""


class LearnerState(NamedTuple):
    """Everything that updates change, apart from the replay's priorities."""

    variables: Any
    """Parameters and BatchNorm statistics."""
    target: Any
    """An older copy, for reanalysis; empty where the newest is used."""
    optimiser: Any
    updates: Array
    """Updates made, ``[]``."""
    failed: Array
    """The update whose loss or gradient was not finite, or :data:`NEVER`, ``[]``."""


@dataclass(frozen=True)
class Learner:
    """Makes updates.

    Attributes:
        planner: The model, and the search for reanalysis.
        config: What an update is.
        reanalysis: Where targets come from.
        replay: How to sample.
        stack: Frames in an observation.
        total_updates: Of the whole run, for schedules.
        augment: Whether to augment images.
    """

    planner: Planner
    config: LearnerConfig
    reanalysis: ReanalysisConfig
    replay: ReplayConfig
    stack: int
    total_updates: int
    augment: bool

    def init(self, key: Array, observation: Array, queue: Array | None = None) -> LearnerState:
        """The state before the first update.

        Args:
            key: A random key.
            observation: Any stack of observations, ``[B, S, ...]``.
            queue: Any actions under way, ``[B, M]``, for a model that sees them.
        """
        action = jnp.zeros(observation.shape[0], jnp.int32)
        variables = self.planner.model.init(key, observation, action, queue, method="everything")
        return LearnerState(
            variables=variables,
            target=jax.tree.map(jnp.copy, variables) if self._keeps_target else (),
            optimiser=self._optimiser.init(variables["params"]),
            updates=jnp.zeros((), jnp.int32),
            failed=jnp.full((), NEVER, jnp.int32),
        )

    def update(
        self, state: LearnerState, replay: Replay, key: Array, count: Array
    ) -> tuple[LearnerState, Replay, Metrics]:
        """Make ``count`` updates, or stop before the first whose loss is not finite.

        Args:
            state: The learner's.
            replay: To learn from; its priorities change.
            key: One for the whole run: update i uses the i-th key derived from it.
            count: How many, ``[]``; it may differ from call to call.

        Returns:
            The new state, the replay, and the metrics averaged over the updates made.
        """

        def one(carry: tuple[Array, LearnerState, Array, Metrics]) -> Any:
            done, state, priority, sums = carry
            current = replay._replace(priority=priority)
            state, current, metrics = self._one_update(state, current, key)
            good = state.failed == NEVER
            sums = jax.tree.map(lambda total, x: total + jnp.where(good, x, 0), sums, metrics)
            return done + good, state, current.priority, sums

        def wanted(carry: tuple[Array, LearnerState, Array, Metrics]) -> Array:
            done, state, *_ = carry
            return (done < count) & (state.failed == NEVER)

        shapes = jax.eval_shape(self._one_update, state, replay, key)[2]
        zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
        begin = (jnp.zeros((), jnp.int32), state, replay.priority, zeros)
        done, state, priority, sums = jax.lax.while_loop(wanted, one, begin)
        metrics = jax.tree.map(lambda total: total / jnp.maximum(done, 1), sums)
        return state, replay._replace(priority=priority), metrics

    def batch(self, state: LearnerState, replay: Replay, key: Array) -> tuple[Sample, Batch]:
        """The batch of the next update, before augmentation."""
        key = jax.random.fold_in(key, state.updates)
        sample_key, search_key = jax.random.split(jax.random.fold_in(key, 0))
        progress = jnp.minimum(state.updates / self.total_updates, 1.0)
        low = self.replay.priority_correction
        chosen = sample(
            replay,
            sample_key,
            self.config.batch_size,
            ahead=self.config.window,
            stack=self.stack,
            exponent=self.replay.priority_exponent,
            correction=low + (1 - low) * progress,
        )
        if self.reanalysis.mode == "batch":
            targets = searched_windows(
                self.planner,
                self.target_variables(state),
                search_key,
                replay,
                chosen,
                self.config,
                stack=self.stack,
                updates=self.target_updates(state),
            )
        else:
            targets = window_targets(replay, chosen, self.config.window)
        batch = assemble(
            replay,
            chosen,
            targets,
            self.config,
            stack=self.stack,
            discount=self.planner.discount,
            updates=state.updates,
        )
        return chosen, batch

    def target_variables(self, state: LearnerState) -> Any:
        """The weights that reanalysis uses."""
        return state.target if self._keeps_target else state.variables

    def target_updates(self, state: LearnerState) -> Array:
        """The updates that those weights have had, ``[]``."""
        period = max(1, self.config.target_period)
        return state.updates // period * period

    def gradients(self, variables: Any, batch: Batch) -> tuple[Any, LossOutput, Any]:
        """The gradient of the loss, what it computed beside, and new BatchNorm statistics."""
        model = self.planner.model.clone(train=True)
        loss_of = nn.apply(efficientzero_loss, model, mutable=["batch_stats"])

        def loss(params: Any) -> tuple[Array, tuple[LossOutput, Any]]:
            (value, output), changed = loss_of({**variables, "params": params}, batch, self.config)
            return value, (output, changed)

        gradient, (output, changed) = jax.grad(loss, has_aux=True)(variables["params"])
        return gradient, output, changed

    def augmented(self, batch: Batch, key: Array) -> Batch:
        """The batch with its images changed: the first stack and the following ones apart."""
        if not self.augment:
            return batch
        first, following = jax.random.split(key)
        dtype = self.planner.model.dtype
        return batch._replace(
            observation=augmented(first, batch.observation, dtype),
            following=augmented(following, batch.following, dtype),
        )

    def _one_update(
        self, state: LearnerState, replay: Replay, key: Array
    ) -> tuple[LearnerState, Replay, Metrics]:
        chosen, batch = self.batch(state, replay, key)
        shift_key = jax.random.fold_in(jax.random.fold_in(key, state.updates), 1)
        batch = self.augmented(batch, shift_key)
        gradient, output, changed = self.gradients(state.variables, batch)
        norm = optax.tree.norm(gradient)
        params = state.variables["params"]
        change, optimiser = self._optimiser.update(gradient, state.optimiser, params)
        variables = {**state.variables, **changed, "params": optax.apply_updates(params, change)}
        updated = LearnerState(
            variables=variables,
            target=self._new_target(state, variables),
            optimiser=optimiser,
            updates=state.updates + 1,
            failed=state.failed,
        )
        # Targets are asked too: a loss on clipped supports stays finite where they are not.
        watched = (norm, output.metrics["loss"], batch.value, batch.prefix)
        finite = jnp.all(jnp.stack([jnp.isfinite(x).all() for x in watched]))
        rate = learning_rate(self.config, self.total_updates)(state.updates)
        failed = state._replace(failed=state.updates)
        state = jax.tree.map(lambda new, old: jnp.where(finite, new, old), updated, failed)
        renewed = with_priorities(replay, chosen, output.priority + PRIORITY_FLOOR)
        priority = jnp.where(finite, renewed.priority, replay.priority)
        metrics = {**output.metrics, "gradient/norm": norm, "learning_rate": rate}
        return state, replay._replace(priority=priority), metrics

    def _new_target(self, state: LearnerState, variables: Any) -> Any:
        if not self._keeps_target:
            return ()
        due = (state.updates + 1) % self.config.target_period == 0
        return jax.tree.map(lambda new, old: jnp.where(due, new, old), variables, state.target)

    @property
    def _keeps_target(self) -> bool:
        return self.config.target_period > 1

    @property
    def _optimiser(self) -> optax.GradientTransformation:
        return make_optimiser(self.config, self.total_updates)
