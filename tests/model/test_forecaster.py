"""The direct forecaster: what it may depend on, and what it must not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from delayzero.actions import ActionSpec, Queue
from delayzero.model import build_model
from delayzero.model.forecaster import step_code
from delayzero.planning import foresee, roll
from delayzero.settings import ModelConfig

ACTIONS = 4
KINDS = {"mlp": (3,), "conv": (10, 10, 2)}


@pytest.fixture(scope="module", params=KINDS)
def built(request):
    """A model with a forecaster that changes latents, its variables, and latents."""
    config = ModelConfig(support=10, latent=8, width=16, lstm=8, channels=8, head=16)
    model = build_model(config, KINDS[request.param], ActionSpec(ACTIONS), forecasts=True)
    rng = np.random.default_rng(0)
    seen = jnp.asarray(rng.normal(size=(3, 1, *KINDS[request.param])), jnp.float32)
    init = jax.jit(lambda key: model.init(key, seen, jnp.zeros(3, int), method="everything"))
    variables = init(jax.random.key(0))
    change = variables["params"]["forecaster"]["change"]
    change["kernel"] = jnp.asarray(rng.normal(size=change["kernel"].shape), jnp.float32)
    latent = jax.jit(lambda v: model.bind(v).represent(seen))(variables)
    return model, variables, latent


def queues(lengths, width, seed=0):
    actions = np.random.default_rng(seed).integers(ACTIONS, size=(len(lengths), width))
    return Queue(jnp.asarray(actions), jnp.arange(width) < jnp.asarray(lengths)[:, None])


def forecast(built, queue):
    model, variables, latent = built
    return np.asarray(jax.jit(lambda v, x: foresee(model, v, x, queue))(variables, latent))


def test_an_empty_queue_changes_nothing(built):
    *_, latent = built
    after = forecast(built, queues([0, 3, 0], 5))
    assert np.array_equal(after[[0, 2]], latent[np.array([0, 2])])
    assert np.abs(after[1] - latent[1]).max() > 1e-3
    assert np.array_equal(forecast(built, queues([0, 0, 0], 0)), latent)


def test_empty_slots_mean_nothing(built):
    queue = queues([1, 4, 2], 4)
    after = forecast(built, queue)
    other = jnp.where(queue.mask, queue.action, (queue.action + 1) % ACTIONS)
    assert np.allclose(forecast(built, Queue(other, queue.mask)), after, atol=1e-6)
    wide = Queue(jnp.pad(queue.action, ((0, 0), (0, 3))), jnp.pad(queue.mask, ((0, 0), (0, 3))))
    assert np.allclose(forecast(built, wide), after, atol=1e-5)


def test_actions_and_their_order_count(built):
    actions = jnp.array([[0, 1, 2]] * 3)
    mask = jnp.ones((3, 3), bool)
    one = forecast(built, Queue(actions, mask))
    for other in (actions[:, ::-1], actions.at[:, 1].set(3)):
        assert np.abs(forecast(built, Queue(other, mask)) - one).max() > 1e-4


def test_rows_do_not_touch(built):
    model, variables, latent = built
    queue = queues([1, 4, 2], 4)
    rows = [Queue(queue.action[i, None], queue.mask[i, None]) for i in range(3)]
    alone = [foresee(model, variables, latent[i, None], row) for i, row in enumerate(rows)]
    assert np.allclose(np.concatenate(alone), forecast(built, queue), atol=1e-5)


def test_latents_stay_in_their_range(built):
    model, *_ = built
    after = forecast(built, queues([2, 2, 2], 2))
    if model.scales:
        assert after.min() >= 0
        assert after.max() <= 1
    else:
        assert np.allclose(after.mean(axis=1), 0, atol=1e-5)


def test_a_model_without_a_forecaster_is_rolled(built):
    model, variables, latent = built
    rolled = model.clone(forecaster=None)
    queue = queues([1, 4, 2], 4)
    wanted = roll(rolled, variables, latent, queue)
    assert np.array_equal(foresee(rolled, variables, latent, queue), wanted)
    with pytest.raises(AssertionError, match="roll it instead"):
        rolled.bind(variables).forecast(latent, queue)


def test_steps_are_told_apart():
    codes = np.asarray(step_code(jnp.arange(200), 32))
    assert codes.shape == (200, 32)
    distances = np.linalg.norm(codes[:, None] - codes[None], axis=-1) + 10 * np.eye(200)
    assert distances.min() > 0.3
