import jax
import jax.numpy as jnp
import numpy as np
import pytest

from delayzero.model import Support
from delayzero.model.scalars import inverse_transform, transform

SCALARS = np.concatenate([[0], np.logspace(-6, 4.7, 200)])
SCALARS = np.concatenate([-SCALARS[::-1], SCALARS])


def slow_two_hot(y, size):
    weights = np.zeros(2 * size + 1)
    y = min(max(y, -size), size)
    low = int(np.floor(y))
    weights[low + size] += 1 - (y - low)
    if y > low:
        weights[low + 1 + size] += y - low
    return weights


def slow_transform(x):
    return np.sign(x) * (np.sqrt(abs(x) + 1) - 1) + 0.001 * x


@pytest.mark.parametrize(("x", "y"), [(0, 0), (1, 0.41521), (10, 2.32662), (100, 9.14988)])
def test_transform_matches_known_values(x, y):
    assert transform(x) == pytest.approx(y, abs=1e-5)
    assert transform(-x) == pytest.approx(-y, abs=1e-5)


def test_inverse_of_the_largest_value():
    y, e = 300.0, 0.001
    textbook = ((np.sqrt(1 + 4 * e * (y + 1 + e)) - 1) / (2 * e)) ** 2 - 1
    assert inverse_transform(y) == pytest.approx(textbook, rel=1e-5)
    assert inverse_transform(y) == pytest.approx(5.87e4, rel=1e-3)


def test_transform_and_back_keep_their_digits_in_float32():
    np.testing.assert_allclose(transform(SCALARS), slow_transform(SCALARS), rtol=1e-6)
    np.testing.assert_allclose(inverse_transform(transform(SCALARS)), SCALARS, rtol=2e-6)


def test_gradients_are_finite_at_zero():
    assert jax.grad(lambda x: transform(x).sum())(0.0) == pytest.approx(0.501)
    assert np.isfinite(jax.grad(lambda y: inverse_transform(y).sum())(0.0))


def test_two_hot_against_a_loop():
    support = Support(5)
    y = np.array([-9, -5, -4.75, -0.25, 0, 0.5, 3, 4.999, 5, 7], np.float32)
    expected = np.stack([slow_two_hot(item, 5) for item in y])
    found = np.asarray(jax.jit(support.two_hot)(y))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    mean = found @ np.arange(-5, 6)
    np.testing.assert_allclose(mean, np.clip(y, -5, 5), atol=1e-6)


def test_cross_entropy_against_the_two_hot_array():
    support = Support(20)
    x = np.random.default_rng(0).normal(size=(3, 7)) * np.array([1, 30, 900])[:, None]
    logits = np.random.default_rng(1).normal(size=(3, 7, support.bins)) * 3
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    target = np.array([slow_two_hot(slow_transform(item), 20) for item in x.ravel()])
    expected = -(target.reshape(log_p.shape) * log_p).sum(-1)
    found = jax.jit(support.cross_entropy)(logits, x)
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    half = jax.eval_shape(support.cross_entropy, jnp.asarray(logits, jnp.bfloat16), x)
    assert half.dtype == jnp.float32


def test_decode_inverts_the_two_hot_of_the_transform():
    support = Support(300)
    x = np.array([-5e4, -123, -1, -0.01, 0, 0.5, 7, 400, 5e4])
    logits = jnp.log(support.two_hot(transform(x)) + 1e-30)
    decoded = jax.jit(support.decode)(logits)
    np.testing.assert_allclose(decoded, x, rtol=1e-3, atol=1e-4)
    assert decoded.dtype == jnp.float32


def test_decode_against_a_loop_and_small_values_are_zero():
    support = Support(3)
    logits = np.random.default_rng(0).normal(size=(6, 7)).astype(np.float32)
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    expected = inverse_transform((p * np.arange(-3, 4)).sum(-1))
    decode = jax.jit(support.decode)
    np.testing.assert_allclose(decode(logits), expected, rtol=1e-4)
    tiny = np.zeros((6, 7), np.float32)
    tiny[1, 0] = 1e-4
    assert decode(tiny).tolist() == [0] * 6


def test_logits_of_another_support_are_refused():
    support = Support(3)
    with pytest.raises(AssertionError, match="equal to '7' on axis"):
        support.decode(jnp.zeros((2, 9)))
    with pytest.raises(AssertionError, match="shape compatibility"):
        support.cross_entropy(jnp.zeros((2, 9)), jnp.zeros(2))
    with pytest.raises(AssertionError, match="shape compatibility"):
        support.cross_entropy(jnp.zeros((2, 7)), jnp.zeros((2, 1)))
