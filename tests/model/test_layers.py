import jax
import jax.numpy as jnp
import numpy as np
import pytest

from delayzero.model.layers import (
    LSTM,
    BatchNorm,
    Conv,
    ConvNorm,
    Linear,
    LSTMInput,
    Norm,
    ResidualBlock,
    convolve_by_library,
    convolve_by_products,
    convolve_constants,
    convolve_in_blocks,
    mean_pool,
    scale_to_unit,
)

KEY = jax.random.key(0, impl="unsafe_rbg")  # the fastest to compile


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize(("layer", "shape", "fan_in"), [
    (Linear(300), (1, 64), 64), (Conv(32), (1, 4, 4, 16), 144), (Conv(64, size=1), (1, 4, 4, 9), 9),
])  # fmt: skip
def test_initial_parameters_are_uniform_by_fan_in(layer, shape, fan_in):
    params = jax.device_get(jax.jit(layer.init)(KEY, normal(*shape)))["params"]
    bound = 1 / np.sqrt(fan_in)
    for leaf in params.values():
        assert 0.9 * bound < np.abs(leaf).max() <= bound
    assert np.std(params["kernel"]) == pytest.approx(bound / np.sqrt(3), rel=0.1)
    assert ("bias" in params) == (not isinstance(layer, Conv) or layer.size == 1)


@pytest.mark.parametrize("stride", [1, 2])
def test_conv_against_a_loop(stride):
    x = normal(2, 6, 6, 3)
    y, variables = jax.device_get(jax.jit(Conv(4, stride=stride).init_with_output)(KEY, x))
    kernel = np.asarray(variables["params"]["kernel"])
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    for i in range(6 // stride):
        for j in range(6 // stride):
            window = padded[:, i * stride : i * stride + 3, j * stride : j * stride + 3]
            expected = np.einsum("bijc,ijcf->bf", window, kernel)
            np.testing.assert_allclose(y[:, i, j], expected, rtol=1e-4, atol=1e-5)
    assert y.shape == (2, 6 // stride, 6 // stride, 4)


@pytest.mark.parametrize("channels", [3, 12])
def test_ways_to_convolve_agree_in_value_and_gradient(channels):
    x, kernel = normal(2, 6, 8, channels), normal(3, 3, channels, 5, seed=1)
    weights = normal(2, 3, 4, 5, seed=2)
    assert np.abs(convolve_in_blocks(x, kernel)).max() > 1
    ways = (
        lambda x, kernel: convolve_by_products(x, kernel, 2),
        lambda x, kernel: convolve_by_library(x, kernel, 2),
        convolve_in_blocks,
    )

    def both(way):
        loss = lambda x, kernel: jnp.sum(weights * way(x, kernel))  # noqa: E731
        return way(x, kernel), *jax.grad(loss, argnums=(0, 1))(x, kernel)

    first, *others = (jax.jit(both, static_argnums=0)(way) for way in ways)
    for other in others:
        for a, b in zip(first, other, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("count", [1, 3])
def test_constant_planes_are_as_if_they_were_built(count):
    x, constants = normal(4, 5, 5, 2), normal(4, count, seed=1)
    kernel = normal(3, 3, 2 + count, 6, seed=2)
    y = jax.jit(convolve_by_library, static_argnums=2)(x, kernel[:, :, :2], 1)
    y = y + jax.jit(convolve_constants)(constants, kernel[:, :, 2:], y)
    planes = np.broadcast_to(constants[:, None, None], (4, 5, 5, count))
    built = np.concatenate([x, planes], axis=-1)
    expected = jax.jit(convolve_by_library, static_argnums=2)(built, kernel, 1)
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [6, 5])
def test_mean_pool_counts_the_padding(size):
    x = normal(2, size, size, 3)
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    y = np.asarray(jax.jit(mean_pool)(x))
    assert y.shape == (2, 3, 3, 3)
    for i in range(3):
        for j in range(3):
            window = padded[:, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3]
            np.testing.assert_allclose(y[:, i, j], window.sum((1, 2)) / 9, rtol=1e-4, atol=1e-6)


def test_lstm_against_a_loop():
    size, batch, steps = 5, 3, 4
    reader, lstm, x = LSTMInput(size), LSTM(size), normal(steps, batch, 7)
    zeros = jnp.zeros((batch, size))
    outer = jax.jit(reader.init)(KEY, x[0])
    inner = jax.jit(lstm.init)(KEY, jnp.zeros((batch, 4 * size)), (zeros, zeros))
    step = jax.jit(lambda x, memory: lstm.apply(inner, reader.apply(outer, x), memory))
    p, q = (jax.device_get(variables["params"]) for variables in (outer, inner))
    assert all(np.abs(x).max() <= 1 / np.sqrt(size) for x in (*p.values(), *q.values()))
    memory, hidden, cell = (zeros, zeros), np.zeros((batch, size)), np.zeros((batch, size))
    for t in range(steps):
        memory = step(x[t], memory)
        gates = x[t] @ p["kernel"] + p["bias"] + hidden @ q["kernel"] + q["bias"]
        i, f, g, o = (gates[:, k * size : (k + 1) * size] for k in range(4))
        cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
        hidden = sigmoid(o) * np.tanh(cell)
    np.testing.assert_allclose(memory[0], hidden, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(memory[1], cell, rtol=1e-4, atol=1e-6)


def test_batch_norm_keeps_running_statistics_like_torch():
    norm = Norm("batch")
    step = jax.jit(lambda v, x: norm.apply(v, x, True, mutable=["batch_stats"]))
    batches = [normal(8, 3, 3, 4, seed=k) * 2 + 1 for k in range(3)]
    variables = norm.init(KEY, batches[0], False)
    stats, mean, var = variables["batch_stats"], np.zeros(4), np.ones(4)
    for x in batches:
        given = {"params": variables["params"], "batch_stats": stats}
        y, changed = step(given, x)
        stats, axes = changed["batch_stats"], (0, 1, 2)
        centred = (x - x.mean(axes)) / np.sqrt(x.var(axes) + 1e-5)
        np.testing.assert_allclose(y, centred, rtol=1e-3, atol=1e-4)
        mean = 0.9 * mean + 0.1 * x.mean(axes)
        # PyTorch puts the unbiased variance here, larger by n / (n - 1); ours is the biased one.
        var = 0.9 * var + 0.1 * x.var(axes)
    inner = stats["BatchNorm_0"]
    np.testing.assert_allclose(inner["mean"], mean, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(inner["var"], var, rtol=1e-4)
    y = norm.apply({"params": variables["params"], "batch_stats": stats}, batches[0], False)
    expected = (batches[0] - mean) / np.sqrt(var + 1e-5)
    np.testing.assert_allclose(y, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("planes", [0, 2])
def test_a_normalised_convolution_is_a_convolution_and_its_normalisation(planes):
    x = normal(4, 6, 6, 3)
    constants = normal(4, planes, seed=1) if planes else None
    layer = ConvNorm(5)
    variables = jax.jit(layer.init, static_argnums=2)(KEY, x, False, constants)
    variables = jax.tree.map(lambda v: v + 0.1 * normal(*v.shape, seed=2) ** 2, variables)
    kernel = variables["params"]["kernel"]
    built = x
    if constants is not None:
        shown = np.broadcast_to(constants[:, None, None], (4, 6, 6, planes))
        built = np.concatenate([x, shown], axis=-1)
    plain = jax.jit(convolve_by_library, static_argnums=2)(built, kernel, 1)
    inner = {name: variables[name]["BatchNorm_0"] for name in ("params", "batch_stats")}
    norm = BatchNorm(5)
    for train in (False, True):
        run = jax.jit(
            lambda v, m, *rest: m.apply(v, *rest, mutable=["batch_stats"]), static_argnums=(1, 3)
        )
        y, changed = run(variables, layer, x, train, constants)
        expected, stats = run(inner, norm, plain, train)
        np.testing.assert_allclose(y, expected, rtol=1e-3, atol=1e-4)
        moved = changed["batch_stats"]["BatchNorm_0"]
        np.testing.assert_allclose(moved["var"], stats["batch_stats"]["var"], rtol=1e-4)


def test_layer_norm_ignores_train():
    x = normal(3, 8)
    norm = Norm("layer")
    variables = norm.init(KEY, x, False)
    expected = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    for train in (False, True):
        np.testing.assert_allclose(norm.apply(variables, x, train), expected, rtol=1e-3, atol=1e-4)


def test_residual_block_adds_its_input_or_a_convolution_of_it():
    x = np.abs(normal(2, 4, 4, 3))
    block = ResidualBlock(3)
    variables = jax.jit(block.init, static_argnums=2)(KEY, x, False)
    silent = jax.tree.map(jnp.zeros_like, variables["params"])
    y = jax.jit(block.apply, static_argnums=2)({**variables, "params": silent}, x, False)
    np.testing.assert_allclose(y, x, rtol=1e-6)
    strided = ResidualBlock(5, stride=2)
    y, variables = jax.eval_shape(lambda key: strided.init_with_output(key, x, False), KEY)
    assert y.shape == (2, 2, 2, 5)
    assert {name for name in variables["params"] if name.startswith("Conv")} == {
        "ConvNorm_0", "ConvNorm_1", "Conv_0",
    }  # fmt: skip


def test_the_gradient_of_scaling_is_that_of_its_formula():
    x = jnp.asarray(np.random.default_rng(0).normal(size=(3, 2, 4)))

    def by_formula(x):
        flat = x.reshape(3, -1)
        lowest, highest = flat.min(1, keepdims=True), flat.max(1, keepdims=True)
        return ((flat - lowest) / (highest - lowest)).reshape(x.shape)

    weight = jnp.asarray(np.random.default_rng(1).normal(size=x.shape))
    got, wanted = (
        jax.value_and_grad(lambda x, f=f: jnp.sum(weight * f(x)))(x)
        for f in (scale_to_unit, by_formula)
    )
    np.testing.assert_allclose(got[0], wanted[0], rtol=1e-6)
    np.testing.assert_allclose(got[1], wanted[1], atol=1e-6)
    flat = jax.grad(lambda x: jnp.sum(scale_to_unit(x) ** 2))(jnp.ones((2, 3)))
    assert np.isfinite(flat).all()
    assert not scale_to_unit(jnp.ones((2, 3))).any()
