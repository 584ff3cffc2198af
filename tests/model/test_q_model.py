"""The networks of Delayed-Q: shapes, types of numbers, and rolling."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from delayzero.actions import ActionSpec
from delayzero.model import as_floats, image_q_model, vector_q_model
from delayzero.planning import roll

from ..made import full_queue, queue_of
from ..planning.test_rolling import ACTIONS, BATCH, NONE, QUEUES
from ..training.small import stirred

STACK = 2
SHAPES = {"vectors": (5,), "images": (7, 6, 4)}


@pytest.fixture(scope="module", params=list(SHAPES))
def made(request):
    """A model, its variables, and stacks of zeros and ones."""
    shape = SHAPES[request.param]
    make = {"vectors": vector_q_model, "images": image_q_model}[request.param]
    model = make(ActionSpec(ACTIONS), shape[-1], width=16)
    seen = jax.random.bernoulli(jax.random.key(1), 0.3, (BATCH, STACK, *shape))
    variables = jax.jit(model.init, static_argnames="method")(
        jax.random.key(0), seen, jnp.zeros(BATCH, jnp.int32), method="everything"
    )
    return model, stirred(variables), seen.astype(jnp.float32)


def test_shapes(made):
    model, variables, seen = made
    bound, action = model.bind(variables), jnp.arange(BATCH) % ACTIONS
    assert bound.values(seen).shape == (BATCH, ACTIONS)
    assert bound.forward_output(seen, action).shape == (BATCH, *seen.shape[2:])
    moved = bound.step(seen, action)
    assert moved.shape == seen.shape
    np.testing.assert_array_equal(moved[:, 0], seen[:, 1])


def test_the_action_matters(made):
    model, variables, seen = made
    newest = [model.bind(variables).step(seen, jnp.full(BATCH, a))[:, -1] for a in range(ACTIONS)]
    assert np.abs(newest[0] - newest[1]).max() > 1e-3
    assert np.abs(newest[0] - newest[2]).max() > 1e-3


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.uint8, jnp.int32, jnp.bool_])
def test_rolling_through_a_queue_is_one_step_after_another(made, dtype):
    model, variables, seen = made
    seen = (255 * seen).astype(dtype) if dtype == jnp.uint8 else seen.astype(dtype)
    queues = queue_of(QUEUES, NONE)
    rolled = jax.jit(lambda stack: roll(model, variables, as_floats(stack), queues))(seen)
    step = jax.jit(lambda stack, action: model.bind(variables).step(stack, action))
    for i, queue in enumerate(QUEUES):
        stack = seen[i : i + 1]
        for action in queue[queue != NONE]:
            stack = step(stack, jnp.array([action]))
        np.testing.assert_allclose(rolled[i], as_floats(stack)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [jnp.uint8, jnp.int32, jnp.bool_])
def test_the_type_of_numbers_does_not_matter(made, dtype):
    model, variables, seen = made
    bound, action = model.bind(variables), jnp.arange(BATCH) % ACTIONS
    stored = (255 * seen).astype(dtype) if dtype == jnp.uint8 else seen.astype(dtype)
    np.testing.assert_allclose(bound.values(stored), bound.values(seen), rtol=1e-5)
    np.testing.assert_allclose(bound.step(stored, action), bound.step(seen, action), rtol=1e-5)


@pytest.fixture(scope="module")
def untrained():
    """A model of images, its first variables, and stacks of zeros and ones."""
    model = image_q_model(ActionSpec(ACTIONS), 4, width=64)
    seen = jax.random.bernoulli(jax.random.key(1), 0.3, (BATCH, 1, 10, 10, 4)).astype(jnp.float32)
    variables = jax.jit(model.init, static_argnames="method")(
        jax.random.key(0), seen, jnp.zeros(BATCH, jnp.int32), method="everything"
    )
    return model, variables, seen


def test_rolled_images_stay_between_zero_and_one(untrained):
    model, variables, seen = untrained
    queue = full_queue(jax.random.randint(jax.random.key(2), (BATCH, 25), 0, ACTIONS))
    rolling = jax.jit(lambda variables: roll(model, variables, seen, queue))
    for weights in (variables, stirred(variables)):
        rolled = np.asarray(rolling(weights))
        assert np.isfinite(rolled).all()
        assert rolled.min() >= 0
        assert rolled.max() <= 1


def test_before_training_images_stay_as_they_are(untrained):
    model, variables, seen = untrained
    moved = model.bind(variables).step(seen, jnp.zeros(BATCH, jnp.int32))
    np.testing.assert_array_equal(np.rint(moved), seen)


def test_a_wrong_shape_is_refused(untrained):
    model, variables, seen = untrained
    bound, action = model.bind(variables), jnp.zeros(BATCH, jnp.int32)
    with pytest.raises(AssertionError, match="rank compatibility"):
        bound.values(seen[0])
    for wrong in (action[:-1], action[:, None]):
        with pytest.raises(AssertionError, match="shape compatibility"):
            bound.step(seen, wrong)
    with pytest.raises(AssertionError, match="type compatibility"):
        bound.step(seen, action.astype(jnp.float32))
