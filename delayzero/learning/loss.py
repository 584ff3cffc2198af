"""EfficientZero's loss: value, value prefix, policy and consistency over an unrolled model.

Models that predict ends or decode frames have further terms, which EfficientZero lacks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.sharding import Mesh

from delayzero.learning.batch import Batch, assert_batch
from delayzero.learning.in_training import InTraining, apart, merged
from delayzero.learning.leads import rolled_latents
from delayzero.learning.learner import Metrics
from delayzero.learning.reconstruction import decoded, reconstruction_losses
from delayzero.model import WorldModel
from delayzero.settings import LearnerConfig


class LossOutput(NamedTuple):
    """The outputs of a loss besides its value."""

    priority: Array
    """The value error at each position, ``[B]``."""
    metrics: Metrics
    variables: Any
    """The variables with updated statistics of batch normalisation."""


class Unrolled(NamedTuple):
    """Predictions along an unrolled model, ``K`` steps from ``B`` positions."""

    policy_logits: Array
    """``[K + 1, B, A]``."""
    value_logits: Array
    """``[K + 1, B, bins]``."""
    prefix_logits: Array
    """``[K, B, bins]``."""
    similarity: Array
    """Cosine of the predicted and the real projection after the compared steps, ``[C, B]``."""
    end_logits: Array | None = None
    """The logits of an end in each step, for a model that predicts ends, ``[K, B]``."""
    frames: Array | None = None
    """Frames decoded from the positions and the compared states, for a model that decodes them,
    ``[1 + C, B, h, w, channels]``."""


def unroll_model(model: InTraining, batch: Batch, config: LearnerConfig) -> Unrolled:
    """Roll the model through the actions of a batch and predict at every state.

    Positions with a lead begin with rolled latents, the others with their encoded observations.

    The gradient into each imagined latent is halved. The prefix memory restarts from zero every
    ``prefix_horizon`` steps. Real latents for the consistency loss get no gradient. They are
    encoded in one call with the same weights and normalised by their own batch: normalised by the
    running statistics, they would lose what distinguishes them. Only the dynamics and the prefix
    memory run step by step.

    Heads, prefix and projections normalise the states of all steps as one batch (``together``) or
    each step by itself (``by_step``), as in EfficientZero's code. The latter hides from the loss
    whatever differs between steps; outside of training, where the same running statistics
    serve for all, the prefix of the first step then comes out too small and that of the last too
    large, and a search sees rewards that are not there.
    """
    steps = batch.action.shape[1]
    latents = [_first_latents(model, batch, config)]
    with jax.named_scope("real_latents"):
        real = _project(model, real_latents(model, batch), batch.compared.shape[1])
    for k in range(steps):
        latents.append(_half_gradient(model("step", latents[-1], batch.action[:, k])))
    states = jnp.stack(latents)
    over_steps = model.together if config.normalise == "together" else model.several
    prediction = over_steps("predict", states)
    compared = _after_steps(model.mesh, states[1:], batch.compared)
    imagined = over_steps("predict_projection", over_steps("project", compared))
    gates = over_steps("prefix_input", states[1:])
    memory = zero = model.model.initial_memory(states.shape[1])
    hidden = []
    for k in range(steps):
        memory = model(
            "prefix_memory", gates[k], zero if k % config.prefix_horizon == 0 else memory
        )
        hidden.append(memory[0])
    return Unrolled(
        policy_logits=prediction.policy_logits,
        value_logits=prediction.value_logits,
        prefix_logits=over_steps("prefix_logits", jnp.stack(hidden)),
        similarity=cosine(imagined.astype(jnp.float32), real),
        end_logits=None if prediction.end_logits is None else prediction.end_logits[1:],
        frames=decoded(model, states[0], compared),
    )


def _first_latents(model: InTraining, batch: Batch, config: LearnerConfig) -> Array:
    """Return the latents of the positions: rolled where they have a lead, else encoded.

    With ``lead_gradient`` a gradient flows into the rolls.
    """
    if batch.lead is None:
        return _encoded(model, batch, 0)
    leads = batch.lead.mask.shape[0]
    acting = model.model.clone(train=False)  # rolls have the running statistics, as while acting
    if config.lead_gradient:
        encoded = _encoded(model, batch, 0)
        begin, encoded, variables = encoded[:leads], encoded[leads:], model.variables
    else:
        variables = jax.lax.stop_gradient(model.variables)
        with jax.named_scope("leads"):
            begin = acting.bind(variables).represent(batch.observation[:leads])
        encoded = _encoded(model, batch, leads)
    with jax.named_scope("leads"):
        ahead = rolled_latents(acting, variables, begin, batch.lead)
    return jnp.concatenate([ahead, encoded])


def _encoded(model: InTraining, batch: Batch, first: int) -> Array:
    """Encode the observations of the positions from the ``first`` on."""
    queue = jax.tree.map(lambda x: x[first:, 0], batch.queue)
    latents: Array = model("represent", batch.observation[first:], queue)
    return latents


def efficientzero_loss(
    model: WorldModel,
    variables: Any,
    batch: Batch,
    config: LearnerConfig,
    mesh: Mesh | None = None,
) -> tuple[Array, LossOutput]:
    """Compute the loss of a batch.

    Per sample, L = w_pi sum_k CE(pi_k) + w_v sum_k CE(v_k) + w_p sum_k CE(prefix_k)
    - w_c sum_k cos_k, plus w_e sum_k BCE(end_k) for a model that predicts ends, plus
    w_r sum_k E(frame_k) for one that decodes frames, where E is a squared error over the variance
    (:mod:`~delayzero.learning.reconstruction`). Sums over the compared steps (cos and E) are scaled
    up to all steps. The loss is the mean of L weighted by importance, divided by the number of
    unrolled steps. The terms of an unrolled state count if the step to it was really taken; its
    policy counts only if the state is alive (see :class:`~delayzero.learning.batch.Batch`).

    Args:
        model: The world model.
        variables: The model's variables.
        batch: The batch.
        config: The learner's settings.
        mesh: The devices that share the batch; None for one device.

    Returns:
        The loss, ``[]``, and its other outputs.
    """
    assert_batch(batch, model.actions.count)
    in_training = InTraining(model, variables, mesh)
    out = unroll_model(in_training, batch, config)
    alive = batch.alive.T.astype(jnp.float32)  # [K + 1, B]
    taken = jnp.concatenate([jnp.ones_like(alive[:1]), alive[:-1]])  # the step to state k
    compared = _after_steps(mesh, taken[1:], batch.compared)
    losses = _losses(model, batch, out, alive, taken, compared)
    weights = {
        "policy": config.policy_weight,
        "value": config.value_weight,
        "prefix": config.prefix_weight,
        "consistency": config.consistency_weight,
        "ends": config.end_weight,
        "reconstruction": config.reconstruction_weight,
    }
    per_sample = jnp.zeros_like(batch.weight)
    for name, term in losses.items():
        per_sample += weights[name] * term.sum(0)
    loss = jnp.mean(batch.weight * per_sample) / batch.action.shape[1]

    predicted = model.support.decode(out.value_logits)
    error = jnp.abs(predicted - batch.value.T)
    prefix_error = jnp.abs(model.support.decode(out.prefix_logits) - batch.prefix.T)
    policy = batch.policy.swapaxes(0, 1), jax.nn.softmax(out.policy_logits)
    metrics = {
        "loss": loss,
        **{f"loss/{name}": term.sum(0).mean() for name, term in losses.items()},
        "policy/target_entropy": _mean(_entropy(policy[0]), alive),
        "policy/network_entropy": _mean(_entropy(policy[1]), alive),
        "value/target": batch.value[:, 0].mean(),
        "value/network": predicted[0].mean(),
        "value/error": _mean(error, taken, axis=1),
        "prefix/error": _mean(prefix_error, taken[1:], axis=1),
        "consistency/cosine": _mean(out.similarity, compared),
        "target/age": batch.age.mean(dtype=jnp.float32),
        **_lead_metrics(batch, out, error[0]),
    }
    return loss, LossOutput(error[0], metrics, in_training.variables)


def _losses(
    model: WorldModel, batch: Batch, out: Unrolled, alive: Array, taken: Array, compared: Array
) -> dict[str, Array]:
    """Return the terms of the loss by name, each with a row per unrolled state, ``[..., B]``.

    Args:
        model: The world model.
        batch: The batch.
        out: The predictions.
        alive: The states whose policy counts, 1 or 0, ``[K + 1, B]``.
        taken: The states to which a step was really taken, 1 or 0, ``[K + 1, B]``.
        compared: The same of the states that are compared, ``[C, B]``.
    """
    support, steps = model.support, batch.action.shape[1]
    log_policy = jax.nn.log_softmax(out.policy_logits)
    losses = {
        "policy": -jnp.sum(batch.policy.swapaxes(0, 1) * log_policy, axis=-1) * alive,
        "value": support.cross_entropy(out.value_logits, batch.value.T) * taken,
        "prefix": support.cross_entropy(out.prefix_logits, batch.prefix.T) * taken[1:],
        # Equals comparing all steps, on average over the choices, except for their normalisation.
        "consistency": -out.similarity * compared * (steps / compared.shape[0]),
    }
    if out.end_logits is not None:
        losses["ends"] = _end_losses(out.end_logits, batch, taken[1:])
    if out.frames is not None:
        errors = reconstruction_losses(out.frames, batch, compared)
        losses["reconstruction"] = errors.at[1:].multiply(steps / compared.shape[0])
    return losses


def _lead_metrics(batch: Batch, out: Unrolled, error: Array) -> Metrics:
    """Return the metrics of the positions with a lead; ``error`` is the value error, ``[B]``."""
    metrics: Metrics = {}
    if batch.lead is not None:
        metrics["lead/steps"] = batch.lead.lengths.mean(dtype=jnp.float32)
        metrics["lead/value_error"] = error[: batch.lead.mask.shape[0]].mean()
    return metrics


def _end_losses(logits: Array, batch: Batch, taken: Array) -> Array:
    """Return the cross-entropy of predicted ends in steps that were taken, ``[K, B]``."""
    assert batch.ended is not None, "the model predicts ends: assemble the batch with them"
    ended = batch.ended.T.astype(jnp.float32)
    losses: Array = optax.sigmoid_binary_cross_entropy(logits, ended) * taken
    return losses


def real_latents(model: InTraining, batch: Batch) -> Array:
    """Encode the observations after the compared steps as one batch of latents ``[C * B, ...]``."""

    def compared(x: Array) -> Array:
        return _after_steps(model.mesh, x[:, 1:].swapaxes(0, 1), batch.compared)

    groups = batch.following.swapaxes(0, 1), jax.tree.map(compared, batch.queue)
    latents: Array = model("represent", *merged(model.mesh, groups))
    return latents


def _after_steps(mesh: Mesh | None, values: Array, steps: Array) -> Array:
    """Select from values after all steps, ``[K, B, ...]``, those after ``steps`` ``[B, C]``.

    Returns:
        ``[C, B, ...]``.
    """
    # With unique indices the gradient is written without additions.
    if mesh is None:
        return values.at[steps.T, jnp.arange(values.shape[1])].get(unique_indices=True)

    def chosen(values: Array, steps: Array) -> Array:
        selected: Array = values.at[steps].get(unique_indices=True)
        return selected

    # Position by position: the compiler then knows that every device has what it selects from.
    return jax.vmap(chosen, in_axes=(1, 0), out_axes=1)(values, steps)


def _project(model: InTraining, latents: Array, count: int) -> Array:
    """Project real latents ``[C * B, ...]`` to ``[C, B, P]``, with C = ``count``, no gradient."""
    projections: Array = model("project", latents).astype(jnp.float32)
    groups: Array = jax.lax.stop_gradient(apart(model.mesh, projections, count))
    return groups


def _half_gradient(latent: Array) -> Array:
    """Return the same latent with half the gradient."""
    return 0.5 * latent + jax.lax.stop_gradient(0.5 * latent)


def cosine(a: Array, b: Array) -> Array:
    """Return the cosine between vectors ``[..., D]``, ``[...]``."""
    chex.assert_equal_shape([a, b])
    lengths = jnp.maximum(jnp.linalg.norm(a, axis=-1), 1e-5), jnp.linalg.norm(b, axis=-1)
    return jnp.sum(a * b, axis=-1) / (lengths[0] * jnp.maximum(lengths[1], 1e-5))


def _entropy(probabilities: Array) -> Array:
    """Return the entropy in nats, ``[...]``."""
    return jnp.sum(jax.scipy.special.entr(probabilities), axis=-1)


def _mean(values: Array, mask: Array, axis: int | None = None) -> Array:
    """Return the mean of the values where the mask is 1; 0 if it is 0 everywhere."""
    return jnp.sum(values * mask, axis=axis) / jnp.maximum(jnp.sum(mask, axis=axis), 1)
