"""Batches together against batches one after the other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from delayzero.actions import ActionSpec
from delayzero.learning.in_training import InTraining
from delayzero.model import build_model
from delayzero.settings import ModelConfig

MODEL = build_model(ModelConfig(support=10, channels=8, head=16, lstm=8), (6, 6, 2), ActionSpec(3))
GROUPS, BATCH = 4, 5


def one_after_the_other(model, method, batches):
    return jnp.stack([jnp.concatenate(jax.tree.leaves(model(method, x)), axis=-1) for x in batches])


def together(model, method, batches):
    return jnp.concatenate(jax.tree.leaves(model.several(method, batches)), axis=-1)


def test_several_batches_are_as_if_one_after_the_other():
    rng = np.random.default_rng(0)
    observation = jnp.asarray(rng.random((BATCH, 1, 6, 6, 2)), jnp.float32)
    actions = jnp.zeros(BATCH, jnp.int32)
    variables = MODEL.init(jax.random.key(0), observation, actions, method="everything")
    variables = jax.tree.map(lambda x: x + 0.1 * rng.normal(size=x.shape) ** 2, variables)
    latents = jnp.asarray(rng.normal(size=(GROUPS, BATCH, 3, 3, 8)), jnp.float32)
    latents = latents * (1 + jnp.arange(GROUPS)[:, None, None, None, None])

    def run(way):
        def loss(params, latents):
            model = InTraining(MODEL, {**variables, "params": params})
            out = [way(model, method, latents) for method in ("predict", "project")]
            return sum(jnp.mean(jnp.sin(x)) for x in out), (out, model.variables["batch_stats"])

        gradients = jax.grad(loss, argnums=(0, 1), has_aux=True)
        return jax.device_get(jax.jit(gradients)(variables["params"], latents))

    (gradient, (out, stats)), slow = run(together), run(one_after_the_other)
    for fast, exact in zip(
        jax.tree.leaves((gradient, out, stats)), jax.tree.leaves(slow), strict=True
    ):
        np.testing.assert_allclose(fast, exact, rtol=1e-3, atol=1e-5)
    old = jax.device_get(variables["batch_stats"])
    moved = jax.tree.map(lambda x, y: float(np.abs(x - y).max()), old, stats)
    assert min(jax.tree.leaves((moved["prediction"], moved["projector"]))) > 1e-3
    assert not any(jax.tree.leaves((moved["encoder"], moved["dynamics"], moved["prefix"])))


def test_batches_together_are_one_batch():
    rng = np.random.default_rng(1)
    example = jnp.asarray(rng.random((BATCH, 1, 6, 6, 2)), jnp.float32), jnp.zeros(BATCH, int)
    variables = jax.jit(lambda: MODEL.init(jax.random.key(0), *example, method="everything"))()
    latents = jnp.asarray(rng.normal(size=(GROUPS, BATCH, 3, 3, 8)), jnp.float32)
    latents = latents + jnp.arange(GROUPS)[:, None, None, None, None]
    joined, one = InTraining(MODEL, variables), InTraining(MODEL, variables)
    out = joined.together("predict", latents)
    for _ in range(GROUPS):
        rows = one("predict", latents.reshape(GROUPS * BATCH, 3, 3, 8))
    for fast, exact in zip(out[:2], rows[:2], strict=True):
        assert fast.shape[:2] == (GROUPS, BATCH)
        assert np.array_equal(fast.reshape(exact.shape), exact)
    statistics = zip(
        jax.tree.leaves(joined.variables["batch_stats"]),
        jax.tree.leaves(one.variables["batch_stats"]),
        strict=True,
    )
    for joint, repeated in statistics:
        np.testing.assert_allclose(joint, repeated, rtol=1e-5, atol=1e-6)
    apart = InTraining(MODEL, variables).several("project", latents)
    assert np.abs(apart - joined.together("project", latents)).max() > 0.1


def test_one_batch_is_not_taken_for_several():
    latents = jnp.zeros((BATCH, 3, 3, 8))
    example = jnp.zeros((BATCH, 1, 6, 6, 2)), jnp.zeros(BATCH, jnp.int32)

    def run(latents):
        variables = MODEL.init(jax.random.key(0), *example, method="everything")
        return InTraining(MODEL, variables).several("predict", latents)

    assert jax.eval_shape(run, latents[None]).policy_logits.shape == (1, BATCH, 3)
    with pytest.raises(AssertionError, match="rank compatibility"):
        jax.eval_shape(run, latents)
