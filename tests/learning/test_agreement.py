"""The agreement loss: imagined states learn what the network itself predicts at the real ones."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from delayzero.learning.in_training import InTraining
from delayzero.learning.loss import efficientzero_loss, real_latents, unroll_model

from . import oracle

ROWS, LENGTH, STACK, SIZE = 48, 60, 2, 24
KEY = jax.random.key(5)
SETTINGS = {"batch_size": SIZE, "unroll": 3, "agreement_weight": 1.5}


def learner_with(steps, kind="mlp"):
    learner = oracle.small_learner(kind, **SETTINGS, consistency_steps=steps)
    return replace(learner, leads=4, longest_lead=4)


@pytest.fixture(scope="module")
def history():
    return oracle.random_history(seed=3, length=LENGTH)


@pytest.fixture(scope="module")
def stored(history):
    return oracle.filled(history, ROWS, LENGTH, stack=STACK)


def begun(learner, stored):
    """The learner's variables and next batch, all rows with the same weight."""
    state = oracle.first_state(learner, jnp.zeros((1, STACK, *stored.frames.shape[2:])))
    batch = oracle.quick_jit(learner.batch)(state, stored, KEY)[1]
    return state.variables, batch._replace(weight=jnp.ones(SIZE))


def losses_by_hand(own, out, batch):
    """Means over positions of the cross-entropies at compared states that are alive."""
    alive, compared = np.asarray(batch.alive), np.asarray(batch.compared)
    c, b, k = np.array(
        [
            (c, b, step + 1)
            for b in range(SIZE)
            for c, step in enumerate(compared[b])
            if alive[b, step + 1]
        ]
    ).T
    share = batch.action.shape[1] / compared.shape[1] / SIZE
    pairs = (own.policy_logits, out.policy_logits), (own.value_logits, out.value_logits)
    return [
        -jnp.sum(jax.nn.softmax(target[c, b]) * jax.nn.log_softmax(logits[k, b])) * share
        for target, logits in pairs
    ]


@pytest.mark.parametrize("steps", [1, 3])
def test_the_part_in_the_whole_loss(stored, steps):
    learner = learner_with(steps)
    config, model = learner.config, learner.planner.model
    variables, batch = begun(learner, stored)
    ended = ~np.asarray(batch.alive)[np.arange(SIZE)[:, None], np.asarray(batch.compared) + 1]
    assert 0 < ended.sum() < ended.size, "this batch tests no ends"

    def both(variables, batch):
        out = unroll_model(InTraining(model, variables), batch, config)
        return out, efficientzero_loss(model, variables, batch, config)[1].metrics

    out, metrics = oracle.quick_jit(both)(variables, batch)
    policy, value = losses_by_hand(out.own, out, batch)
    assert np.isclose(metrics["loss/own_policy"], policy, rtol=1e-4)
    assert np.isclose(metrics["loss/own_value"], value, rtol=1e-4)
    weights = {
        "policy": config.policy_weight,
        "value": config.value_weight,
        "prefix": config.prefix_weight,
        "consistency": config.consistency_weight,
        "own_policy": 1.5 * config.policy_weight,
        "own_value": 1.5 * config.value_weight,
    }
    whole = sum(weight * metrics[f"loss/{name}"] for name, weight in weights.items())
    assert np.isclose(metrics["loss"], whole / config.unroll, rtol=1e-4)


def test_targets_are_what_the_heads_predict_with_running_statistics(history):
    """At the real latents that the consistency loss compares with."""

    def frame_of(row):
        return np.broadcast_to(row.frame[0], (10, 10, 2)).astype(np.float32)

    learner = learner_with(2, "conv")
    model = learner.planner.model
    stored = oracle.filled(history, ROWS, LENGTH, stack=STACK, frame=frame_of)
    variables, batch = begun(learner, stored)

    def both(variables, batch):
        out = unroll_model(InTraining(model, variables), batch, learner.config)
        return out.own, real_latents(InTraining(model, variables), batch)

    own, latents = oracle.quick_jit(both)(variables, batch)
    seen = model.bind(variables).predict(latents)
    for name in ("policy_logits", "value_logits"):
        expected = np.asarray(getattr(seen, name)).reshape(2, SIZE, -1)
        assert np.allclose(getattr(own, name), expected, atol=1e-5)


def test_only_imagined_states_learn_from_it(stored):
    """The gradient is that of the same loss with its targets as constants."""
    learner = learner_with(1)
    model, config = learner.planner.model, learner.config
    without = replace(config, agreement_weight=0.0)
    variables, batch = begun(learner, stored)

    def loss(params, config):
        whole, _ = efficientzero_loss(model, {**variables, "params": params}, batch, config)
        return whole

    def by_hand(params, own):
        in_training = InTraining(model, {**variables, "params": params})
        policy, value = losses_by_hand(own, unroll_model(in_training, batch, without), batch)
        parts = config.policy_weight * policy + config.value_weight * value
        return config.agreement_weight * parts / config.unroll

    def gradients(params):
        own = unroll_model(InTraining(model, variables), batch, config).own
        whole, rest = (jax.grad(loss)(params, settings) for settings in (config, without))
        return jax.tree.map(jnp.subtract, whole, rest), jax.grad(by_hand)(params, own)

    part, expected = oracle.quick_jit(gradients)(variables["params"])
    largest = max(float(jnp.abs(x).max()) for x in jax.tree.leaves(expected))
    assert largest > 1e-3
    for got, wanted in zip(jax.tree.leaves(part), jax.tree.leaves(expected), strict=True):
        assert np.allclose(got, wanted, atol=1e-3 * largest)
