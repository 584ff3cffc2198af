import jax
import numpy as np
import optax
import pytest

from delayzero.learning.optimiser import learning_rate, make_optimiser
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
