"""The learner: one compiled call makes several updates, from sampling to new priorities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.sharding import Mesh

from delayzero.actions import Queue
from delayzero.learning.augment import augmented
from delayzero.learning.batch import Batch, assemble, window_targets
from delayzero.learning.in_training import InTraining
from delayzero.learning.leads import draw_leads, lead_queues
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
from delayzero.learning.loss import LossOutput, efficientzero_loss, unroll_model
from delayzero.learning.optimiser import learning_rate, make_optimiser
from delayzero.learning.reanalysis import search_leads, search_windows
from delayzero.learning.reconstruction import newest_frames
from delayzero.planning import Planner
from delayzero.replay import Replay, Sample, with_priorities
from delayzero.settings import LearnerConfig, ReanalysisConfig, ReplayConfig

SAMPLING, AUGMENTATION, COMPARED, LEADS, SETTLING, AHEAD = range(6)
"""The random streams of an update."""


@dataclass(frozen=True)
class Learner:
    """The learner of a world model, with EfficientZero's loss.

    Attributes:
        planner: The model, and the search for reanalysis.
        config: The learner's settings.
        reanalysis: The settings of reanalysis, from which targets come.
        replay: The sampling settings.
        total_updates: The number of updates of the whole run, for schedules.
        augment: Whether to augment images.
        leads: The number of positions of a batch that have a lead.
        longest_lead: The longest lead.
    """

    planner: Planner
    config: LearnerConfig
    reanalysis: ReanalysisConfig
    replay: ReplayConfig
    total_updates: int
    augment: bool
    leads: int = 0
    longest_lead: int = 0

    @property
    def window(self) -> int:
        """The number of rows after a sampled one that an update needs."""
        return self.config.window

    @property
    def rate_setting(self) -> str:
        """The option that sets the learning rate."""
        return "--learner.learning-rate"

    def init(self, key: Array, observation: Array, queue: Queue | None = None) -> LearnerState:
        """Return the state before the first update.

        Args:
            key: A random key.
            observation: An example stack of observations, ``[B, S, ...]``.
            queue: Example pending actions, ``[B, W]``, for a model that sees them.
        """
        action = jnp.zeros(observation.shape[0], jnp.int32)
        variables = self.planner.model.init(key, observation, action, queue, method="everything")
        return before_updates(variables, self._optimiser, keeps_target=self._keeps_target)

    def update(
        self, state: LearnerState, replay: Replay, key: Array, count: Array
    ) -> tuple[LearnerState, Replay, Metrics]:
        """See :func:`~delayzero.learning.learner.repeat_updates`; then let statistics settle."""
        state, replay, metrics = repeat_updates(self._one_update, state, replay, key, count)
        return self.settled(state, replay, key), replay, metrics

    def settled(self, state: LearnerState, replay: Replay, key: Array) -> LearnerState:
        """Return the state with running statistics of the weights that play.

        The running statistics are averages over the last updates, of weights that have changed
        since. Everything but training reads them.
        """
        if not self.config.settle or "batch_stats" not in state.variables:
            return state
        key = _stream(key, state, SETTLING)

        def forward(k: Array, variables: Any) -> Any:
            here = jax.random.fold_in(key, k)
            batch = self.batch(state, replay, here)[1]
            batch = self.augmented(batch, _stream(here, state, AUGMENTATION))
            in_training = InTraining(self.planner.model, variables, replay.mesh)
            unroll_model(in_training, batch, self.config)
            return in_training.variables

        with jax.named_scope("settling"):
            settled = jax.lax.fori_loop(0, self.config.settle, forward, self.playing(state))
        if self.config.average:
            return state._replace(target=settled)
        return state._replace(variables=settled)

    def batch(self, state: LearnerState, replay: Replay, key: Array) -> tuple[Sample, Batch]:
        """Return the sample and the batch of the next update, before augmentation."""
        sample_key, search_key = jax.random.split(_stream(key, state, SAMPLING))
        sample = sample_batch(
            replay,
            sample_key,
            self.replay,
            self.config.batch_size,
            ahead=self.window,
            progress=state.updates / self.total_updates,
        )
        lead = None
        if self.leads:
            sample, lead = self._with_leads(replay, sample, _stream(key, state, LEADS))
        if self.reanalysis.mode == "batch":
            targets = search_windows(
                self.planner,
                self.target_variables(state),
                search_key,
                replay,
                sample,
                self.config,
                updates=self.target_updates(state),
            )
        else:
            targets = window_targets(replay, sample, self.config.window)
        batch = assemble(
            replay,
            sample,
            targets,
            self.compared(_stream(key, state, COMPARED)),
            self.config,
            discount=self.planner.discount,
            updates=state.updates,
            lead=lead,
            predicts_ends=self.planner.model.predicts_ends,
        )
        if lead is not None and self.config.lead_policy == "rolled":
            ahead = search_leads(
                self.planner,
                self.target_variables(state),
                _stream(key, state, AHEAD),
                batch,
                replay.mesh,
            )
            batch = batch._replace(policy=batch.policy.at[: self.leads].set(ahead))
        return sample, batch

    def playing(self, state: LearnerState) -> Any:
        """Return the variables to play with: the newest, or their running average."""
        return state.target if self.config.average else state.variables

    def target_variables(self, state: LearnerState) -> Any:
        """Return the variables that reanalysis searches with."""
        return state.target if self._keeps_target else state.variables

    def target_updates(self, state: LearnerState) -> Array:
        """Return the number of updates that made those variables, ``[]``."""
        period = max(1, self.config.target_period)
        return state.updates // period * period

    def gradients(
        self, variables: Any, batch: Batch, mesh: Mesh | None = None
    ) -> tuple[Any, LossOutput]:
        """Return the gradient of the loss, and the loss's other outputs.

        Args:
            variables: The model's variables.
            batch: The batch.
            mesh: The devices that share the batch; None for one device.
        """

        def loss(params: Any) -> tuple[Array, LossOutput]:
            with_params = {**variables, "params": params}
            return efficientzero_loss(self.planner.model, with_params, batch, self.config, mesh)

        gradient, output = jax.grad(loss, has_aux=True)(variables["params"])
        return gradient, output

    def augmented(self, batch: Batch, key: Array) -> Batch:
        """Augment the images of a batch: the first stack separately from the following ones.

        Frames to reconstruct are added as they were seen: were they shifted, reconstructing the
        background's shift would count for more than all objects.
        """
        if self.planner.model.decoder is not None:
            batch = batch._replace(newest=newest_frames(batch))
        if not self.augment:
            return batch
        first_key, following_key = jax.random.split(key)
        dtype, shape = self.planner.model.dtype, batch.following.shape
        following = batch.following.reshape(shape[0], shape[1] * shape[2], *shape[3:])
        return batch._replace(
            observation=augmented(first_key, batch.observation, dtype),
            following=augmented(following_key, following, dtype).reshape(shape),
        )

    def compared(self, key: Array) -> Array:
        """Choose the steps after which each position's consistency is measured, ``[B, C]``."""
        unroll, count = self.config.unroll, self.config.consistency_steps
        every = jnp.broadcast_to(jnp.arange(unroll), (self.config.batch_size, unroll))
        if count is None or count >= unroll:
            return every
        return jax.random.permutation(key, every, axis=1, independent=True)[:, :count]

    def _with_leads(self, replay: Replay, sample: Sample, key: Array) -> tuple[Sample, Queue]:
        """Choose positions that get a lead, and put them first; their order was by priority."""
        order_key, lead_key = jax.random.split(key)
        order = jax.random.permutation(order_key, self.config.batch_size)
        sample = jax.tree.map(lambda x: x[order], sample)
        chosen = jax.tree.map(lambda x: x[: self.leads], sample)
        leads = draw_leads(replay, lead_key, self.leads, self.longest_lead)
        predicts_ends = self.planner.model.predicts_ends
        queues = lead_queues(replay, chosen, leads, self.longest_lead, predicts_ends=predicts_ends)
        return sample, queues

    def _one_update(
        self, state: LearnerState, replay: Replay, key: Array
    ) -> tuple[LearnerState, Replay, Metrics]:
        with jax.named_scope("batch"):
            sample, batch = self.batch(state, replay, key)
        with jax.named_scope("augmentation"):
            batch = self.augmented(batch, _stream(key, state, AUGMENTATION))
        gradient, output = self.gradients(state.variables, batch, replay.mesh)
        norm = optax.tree.norm(gradient)
        params = state.variables["params"]
        change, optimiser = self._optimiser.update(gradient, state.optimiser, params)
        variables = {**output.variables, "params": optax.apply_updates(params, change)}
        updated = LearnerState(
            variables=variables,
            target=self._new_target(state, variables),
            optimiser=optimiser,
            updates=state.updates + 1,
            failed=state.failed,
        )
        # Targets are checked too: the loss clips them to its support, so it would stay finite.
        finite = all_finite(norm, output.metrics["loss"], batch.value, batch.prefix)
        rate = learning_rate(self.config, self.total_updates)(state.updates)
        state = only_if(finite, updated, state)
        # A priority is the value error at an encoded state: positions with a lead keep theirs.
        encoded = jax.tree.map(lambda x: x[self.leads :], sample)
        errors = output.priority[self.leads :]
        renewed = with_priorities(replay, encoded, errors + PRIORITY_FLOOR)
        priority = jnp.where(finite, renewed.priority, replay.priority)
        metrics = {
            **output.metrics,
            **weight_health(sample.weights),
            "gradient/norm": norm,
            "learning_rate": rate,
        }
        return state, replay._replace(priority=priority), metrics

    def _new_target(self, state: LearnerState, variables: Any) -> Any:
        if not self._keeps_target:
            return ()
        if self.config.average:
            return averaged(state.target, variables, state.updates, self.config.average)
        due = (state.updates + 1) % self.config.target_period == 0
        return jax.tree.map(lambda new, old: jnp.where(due, new, old), variables, state.target)

    @property
    def _keeps_target(self) -> bool:
        return self.config.target_period > 1 or self.config.average > 0

    @property
    def _optimiser(self) -> optax.GradientTransformation:
        return make_optimiser(self.config, self.total_updates)


def averaged(average: Any, variables: Any, updates: Array, decay: float) -> Any:
    """Return the running average of variables after one more update.

    Early on it forgets faster, so that it follows the weights from the first update on: its decay
    is at most (1 + n) / (10 + n) after n updates.

    Args:
        average: The average so far.
        variables: The variables after the update.
        updates: The number of updates before it, ``[]``.
        decay: The decay in the long run.
    """
    keep = jnp.minimum(decay, (1 + updates) / (10 + updates)).astype(jnp.float32)
    return jax.tree.map(lambda old, new: keep * old + (1 - keep) * new, average, variables)


def _stream(key: Array, state: LearnerState, stream: int) -> Array:
    """Return the key of one random stream in the next update."""
    return jax.random.fold_in(jax.random.fold_in(key, state.updates), stream)
