"""Rolls by a chain of folded convolutions, against the model's own steps and their gradients."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from delayzero.actions import ActionSpec
from delayzero.model import build_model
from delayzero.model.image_rolls import can_chain, roll_images
from delayzero.settings import ModelConfig

STEPS, BATCH, ACTIONS, SHAPE = 4, 3, 5, (6, 6, 2)
KEY = jax.random.key(0, impl="unsafe_rbg")  # the fastest to compile
CASES = [
    {"scaled": True, "action_code": "one_hot"},
    {"scaled": False, "action_code": "plane"},
    pytest.param({"scaled": True, "action_code": "one_hot", "blocks": 2}, marks=pytest.mark.slow),
]


@cache
def made(scaled, action_code, blocks=1):
    """A model, variables with statistics of their own, latents, actions, and who takes which."""
    config = ModelConfig(channels=8, scaled=scaled, action_code=action_code, dtype="float32")
    model = build_model(config, SHAPE, ActionSpec(ACTIONS))
    model = model.clone(dynamics=model.dynamics.clone(blocks=blocks))
    rng = np.random.default_rng(0)
    observation = jnp.asarray(rng.random((BATCH, 1, *SHAPE)), jnp.float32)
    variables = jax.jit(
        lambda key: model.init(key, observation, jnp.arange(3), method="everything")
    )
    variables = jax.tree.map(
        lambda x: x + 0.2 * jnp.asarray(rng.random(x.shape), x.dtype), variables(KEY)
    )
    actions = jnp.asarray(rng.integers(ACTIONS, size=(STEPS, BATCH)))
    moves = jnp.arange(STEPS)[:, None] < jnp.asarray([4, 1, 0])  # the steps that each latent takes
    return model, variables, model.bind(variables).represent(observation), actions, moves


def one_by_one(model, variables, latent, actions, moves):
    """The obvious version: the model's own steps, for each latent by itself."""
    rows = []
    for b in range(BATCH):
        row = latent[b : b + 1]
        for t in range(STEPS):
            if moves[t, b]:
                row = model.bind(variables).step(row, actions[t, b : b + 1])
        rows.append(row)
    return jnp.concatenate(rows)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_values_and_gradients_are_those_of_single_steps(case):
    model, variables, latent, actions, moves = made(**case)
    weights = jnp.asarray(np.random.default_rng(1).normal(size=latent.shape), jnp.float32)

    def weighted(roll):
        def total(params, latent):
            rolled = roll(model, {**variables, "params": params}, latent, actions, moves)
            return jnp.sum(weights * rolled), rolled

        return jax.jit(jax.grad(total, argnums=(0, 1), has_aux=True))(variables["params"], latent)

    (found_params, found), values = weighted(roll_images)
    (wanted_params, wanted), wanted_values = weighted(
        lambda *args: one_by_one(*args[:-1], np.asarray(moves))
    )
    assert np.allclose(values, wanted_values, atol=1e-5)
    assert np.allclose(found, wanted, rtol=1e-4, atol=1e-5)
    found_by_path = dict(jax.tree.leaves_with_path(found_params))
    for path, gradient in jax.tree.leaves_with_path(wanted_params):
        name, same = jax.tree_util.keystr(path), found_by_path[path]
        assert np.allclose(same, gradient, rtol=1e-4, atol=1e-4 * np.abs(gradient).max()), name
        learns = "dynamics" in name
        assert np.any(np.asarray(gradient) != 0) == learns, name
    assert np.array_equal(values[2], latent[2]), "it takes no step"
    assert not np.allclose(values[:2], latent[:2], atol=1e-2)


def test_rows_do_not_touch():
    model, variables, latent, actions, moves = made(**CASES[0])
    alone = roll_images(model, variables, latent[1:2], actions[:, 1:2], moves[:, 1:2])
    together = roll_images(model, variables, latent, actions, moves)
    assert np.allclose(alone[0], together[1], atol=1e-6)


def test_in_half_precision_gradients_are_as_good_as_those_of_single_steps():
    model, variables, latent, actions, moves = made(**CASES[0])
    half = model.clone(dtype=jnp.bfloat16, dynamics=model.dynamics.clone(dtype=jnp.bfloat16))

    def gradients(roll, model):
        def total(params):
            begin = latent.astype(model.dtype)
            rolled = roll(model, {**variables, "params": params}, begin, actions, moves)
            assert rolled.dtype == model.dtype
            return jnp.sum(rolled.astype(jnp.float32))

        return jax.jit(jax.grad(total))(variables["params"])["dynamics"]

    def error(found):
        return optax.tree.norm(jax.tree.map(jnp.subtract, found, exact)) / optax.tree.norm(exact)

    exact = gradients(roll_images, model)
    single = error(gradients(lambda *args: one_by_one(*args[:-1], np.asarray(moves)), half))
    assert 0 < error(gradients(roll_images, half)) < 1.5 * single + 0.01


def test_models_of_vectors_are_rolled_step_by_step():
    vectors = build_model(ModelConfig(dtype="float32"), (5,), ActionSpec(ACTIONS))
    assert not can_chain(vectors)
    assert can_chain(made(**CASES[0])[0])
