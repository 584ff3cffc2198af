from dataclasses import replace
from functools import partial

import jax
import numpy as np
import optax
import pytest

from delayzero.actions import ActionSpec
from delayzero.learning.optimiser import learning_rate, make_optimiser
from delayzero.model.atari import atari_model
from delayzero.model.layers import ConvNorm, initial_norm, normalised_kernels
from delayzero.model.scalars import Support
from delayzero.settings import LearnerConfig


@pytest.mark.parametrize("clip_norm", [1.0, 1000.0])
def test_sgd_is_torch_s(clip_norm):
    config = LearnerConfig(learning_rate=0.3, warmup=3, weight_decay=0.1, clip_norm=clip_norm)
    optimiser = make_optimiser(config, 20)
    rng = np.random.default_rng(0)
    params = {"a": rng.normal(size=(2, 3)), "b": rng.normal(size=4)}
    ours = jax.tree.map(lambda p: np.asarray(p, np.float32), params)
    state = optimiser.init(ours)
    step = jax.jit(optimiser.update)
    buffers = {name: np.zeros_like(p) for name, p in params.items()}
    for i in range(8):
        gradient = {name: 2 * rng.normal(size=p.shape) for name, p in params.items()}
        change, state = step(jax.tree.map(np.float32, gradient), state, ours)
        ours = jax.tree.map(np.asarray, optax.apply_updates(ours, change))
        norm = np.sqrt(sum(np.sum(g**2) for g in gradient.values()))
        rate = 0.3 * min(i / 3, 1)
        for name, g in gradient.items():
            g = g * min(1, clip_norm / norm) + 0.1 * params[name]
            buffers[name] = 0.9 * buffers[name] + g
            params[name] = params[name] - rate * buffers[name]
            assert np.allclose(ours[name], params[name], atol=1e-5), i


def test_adam_decays_weights_apart_from_the_gradient():
    config = LearnerConfig(optimiser="adam", learning_rate=0.1, warmup=1, weight_decay=0.5)
    optimiser = make_optimiser(config, 20)
    p = np.array([2.0, -3.0], np.float32)
    state, zero = optimiser.init(p), np.zeros(2, np.float32)
    for _ in range(2):
        change, state = optimiser.update(zero, state, p)
    assert np.allclose(change, -0.1 * 0.5 * p)


@pytest.mark.parametrize(
    ("drop_at", "drop"),
    [
        pytest.param(0.5, 50, id="half"),
        pytest.param(1.0, None, id="never"),
        pytest.param(0.05, 11, id="after-warm-up"),
    ],
)
def test_schedule(drop_at, drop):
    config = LearnerConfig(learning_rate=0.2, warmup=10, drop_at=drop_at)
    rate = learning_rate(config, 100)
    for i in range(101):
        wanted = 0.2 * min(i / 10, 1) * (0.1 if drop is not None and i >= drop else 1)
        assert float(rate(i)) == pytest.approx(wanted, rel=1e-5), i


def _layer(seed=0):
    layer = ConvNorm(6)
    x = jax.random.normal(jax.random.key(seed), (4, 5, 5, 3))
    return layer, x, layer.init(jax.random.key(seed + 1), x, train=True)


def test_the_scale_of_a_normalised_kernel_has_no_effect():
    layer, x, variables = _layer()
    params = variables["params"]
    chosen = normalised_kernels(params)
    assert chosen == {"BatchNorm_0": {"bias": False, "scale": False}, "kernel": True}
    scaled = jax.tree.map(lambda p, is_chosen: 30 * p if is_chosen else p, params, chosen)
    outputs = [
        layer.apply({**variables, "params": p}, x, train=True, mutable=["batch_stats"])[0]
        for p in (params, scaled)
    ]
    assert np.allclose(*outputs, atol=1e-3)
    assert not np.allclose(outputs[0], 0, atol=0.1)


def test_the_atari_model_has_normalised_kernels_in_its_encoder_dynamics_and_prediction():
    model = atari_model(ActionSpec(4), Support(5), np.float32)
    shapes = jax.eval_shape(
        partial(model.init, method="everything"),
        jax.random.key(0),
        np.zeros((1, 4, 96, 96, 3), np.uint8),
        np.zeros(1, np.int32),
    )["params"]
    parts = {name: sum(jax.tree.leaves(normalised_kernels(p))) for name, p in shapes.items()}
    # Of each block two; the strided convolution of a skip connection is not normalised.
    expected = {"encoder": 1 + 5 * 2, "dynamics": 1 + 2, "prediction": 2}
    assert {name: count for name, count in parts.items() if count} == expected


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
def test_norms_are_held_and_other_parameters_move_as_without(optimiser):
    config = LearnerConfig(
        optimiser=optimiser, learning_rate=0.3, warmup=1, weight_decay=0.1, clip_norm=1e6
    )
    _, _, variables = _layer()
    params = {"layer": variables["params"], "other": {"kernel": np.ones((3, 2), np.float32)}}
    held = make_optimiser(replace(config, kernel_norm=0.5), 20)
    plain = make_optimiser(config, 20)
    state, plain_state = held.init(params), plain.init(params)
    rng = np.random.default_rng(0)
    for _ in range(5):
        gradient = jax.tree.map(lambda p: np.float32(rng.normal(size=p.shape)), params)
        expected, plain_state = plain.update(gradient, plain_state, params)
        change, state = held.update(gradient, state, params)
        expected = optax.apply_updates(params, expected)
        params = optax.apply_updates(params, change)
        kernel, moved = params["layer"].pop("kernel"), expected["layer"].pop("kernel")
        assert np.linalg.norm(kernel) == pytest.approx(0.5 * np.sqrt(6 / 3), rel=1e-5)
        assert np.allclose(
            kernel / np.linalg.norm(kernel), moved / np.linalg.norm(moved), atol=1e-6
        )
        jax.tree.map(np.testing.assert_array_equal, params, expected)
        params["layer"]["kernel"] = kernel


def test_the_initial_norm_is_that_of_new_kernels():
    kernels = [_layer(seed)[2]["params"]["kernel"] for seed in range(20)]
    norms = [np.linalg.norm(kernel) for kernel in kernels]
    assert np.mean(norms) == pytest.approx(initial_norm(kernels[0]), rel=0.03)
