from functools import cache, partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from delayzero.actions import ActionSpec
from delayzero.model import Prediction, Support, build_model, flat_latents
from delayzero.settings import ModelConfig

from ..made import full_queue

ACTIONS = 6
SHAPES = {"mlp": (5,), "conv": (10, 10, 4), "atari": (96, 96, 3)}
LATENTS = {"mlp": (64,), "conv": (5, 5, 32), "atari": (6, 6, 64)}
PROJECTIONS = {"mlp": 128, "conv": 64, "atari": 1024}
SMALL = ["mlp", "conv"]
KEY = jax.random.key(0, impl="unsafe_rbg")  # the fastest to compile


def observations(kind, batch=3, stack=2, seed=0):
    rng = np.random.default_rng(seed)
    shape = (batch, stack, *SHAPES[kind])
    if kind == "mlp":
        return jnp.asarray(rng.normal(size=shape), jnp.float32)
    if kind == "conv":
        return jnp.asarray(rng.random(shape) < 0.3)
    return jnp.asarray(rng.integers(256, size=shape), jnp.uint8)


def actions(batch=3):
    return jnp.arange(batch) % ACTIONS


def build(kind, dtype="float32"):
    return build_model(ModelConfig(dtype=dtype), SHAPES[kind], ActionSpec(ACTIONS))


@cache
def fresh(kind):
    """The variables of a new model."""
    init = partial(build(kind).init, method="everything")
    return jax.device_get(jax.jit(init)(KEY, observations(kind), actions()))


def awake(kind):
    """The same with the zero layers filled, so that the heads say something."""
    rng = np.random.default_rng(1)
    params = jax.tree.map(
        lambda x: x if x.any() else (0.1 * rng.normal(size=x.shape)).astype(np.float32),
        fresh(kind)["params"],
    )
    return {**fresh(kind), "params": params}


@cache
def everything(kind, dtype="float32"):
    run = jax.jit(partial(build(kind, dtype).apply, method="everything"))
    return lambda *arguments: jax.device_get(run(*arguments))


@pytest.mark.parametrize(("kind", "dtype"), [
    ("mlp", "float32"), ("mlp", "bfloat16"), ("conv", "float32"), ("atari", "bfloat16"),
])  # fmt: skip
def test_shapes_and_types(kind, dtype):
    model = build(kind, dtype)
    init = partial(model.init_with_output, method="everything")
    outputs, variables = jax.eval_shape(init, KEY, observations(kind), actions())
    latent, prefix, memory, prediction, projection = outputs
    assert latent.shape == (3, *LATENTS[kind])
    assert prefix.shape == (3, 601)
    assert isinstance(prediction, Prediction)
    assert prediction.policy_logits.shape == (3, ACTIONS)
    assert prediction.value_logits.shape == (3, 601)
    assert projection.shape == (3, PROJECTIONS[kind])
    assert [m.shape for m in memory] == [(3, model.memory_size)] * 2
    assert all(x.dtype == jnp.dtype(dtype) for x in (latent, *memory, projection))
    assert prediction.end_logits is None
    assert all(x.dtype == jnp.float32 for x in (prefix, *prediction[:2]))
    assert all(x.dtype == jnp.float32 for x in jax.tree.leaves(variables))
    assert set(variables) == ({"params"} if kind == "mlp" else {"params", "batch_stats"})


@pytest.mark.parametrize(("num_actions", "prediction"), [(18, 133_611), (6, 133_611 - 396)])
def test_atari_has_the_published_parameters(num_actions, prediction):
    model = build_model(ModelConfig(action_code="plane"), (96, 96, 3), ActionSpec(num_actions))
    init = partial(model.init, method="everything")
    variables = jax.eval_shape(init, KEY, observations("atari", stack=4), actions())
    params = variables["params"]
    counts = {name: sum(x.size for x in jax.tree.leaves(params[name])) for name in sorted(params)}
    assert counts == {
        "encoder": 318_016,
        "dynamics": 111_552,
        "prefix": 2_270_729,
        "prediction": prediction,
        "projector": 4_465_664,
        "predictor": 1_051_136,
    }
    lstm = params["prefix"]["lstm_input"], params["prefix"]["lstm"]
    assert sum(x.size for x in jax.tree.leaves(lstm)) == 2_232_320


@pytest.mark.parametrize("kind", SMALL)
def test_a_new_model_is_indifferent(kind):
    outputs = everything(kind)(fresh(kind), observations(kind), actions())
    _, prefix, _, prediction, _ = outputs
    assert not prediction.policy_logits.any()
    assert Support().decode(prediction.value_logits).tolist() == [0] * 3
    assert Support().decode(prefix).tolist() == [0] * 3


@pytest.mark.parametrize("kind", SMALL)
def test_batch_elements_do_not_touch_outside_training(kind):
    variables, keep = awake(kind), np.arange(3) == 1
    keep = keep.reshape(3, *[1] * (1 + len(SHAPES[kind])))
    first = everything(kind)(variables, observations(kind), actions())
    other = np.where(keep, observations(kind), observations(kind, seed=1))
    second = everything(kind)(variables, other, actions())
    for x, y in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        np.testing.assert_allclose(x[1], y[1], rtol=1e-5, atol=1e-6)
        assert np.abs(x[0] - y[0]).max() > 1e-4


@pytest.mark.parametrize("kind", SMALL)
def test_bfloat16_is_close_to_float32(kind):
    variables = awake(kind)
    exact = everything(kind)(variables, observations(kind), actions())
    rough = everything(kind, "bfloat16")(variables, observations(kind), actions())
    for x, y in zip(jax.tree.leaves(exact), jax.tree.leaves(rough), strict=True):
        error = np.abs(x - y.astype(np.float32)).max()
        assert error < 0.05 * max(1, float(np.abs(x).max()))


def test_actions_matter_and_pixels_are_scaled():
    @jax.jit
    def run(variables, image):
        model = build("conv").bind(variables)
        latent = model.represent(image)
        return latent, model.step(jnp.repeat(latent, ACTIONS, axis=0), jnp.arange(ACTIONS))

    image = np.asarray(observations("conv", batch=1))
    latent, following = jax.device_get(run(fresh("conv"), image))
    pixels, _ = run(fresh("conv"), image.astype(np.uint8) * 255)
    np.testing.assert_allclose(latent, pixels, rtol=1e-4, atol=1e-5)
    for action in range(1, ACTIONS):
        assert np.abs(following[action] - following[0]).max() > 1e-3


def test_the_stack_keeps_frames_together_and_in_order():
    seen = []

    class Eye(nn.Module):
        @nn.compact
        def __call__(self, x, train):
            seen.append(x)
            return x

    observation = observations("conv")
    build("conv").clone(encoder=Eye()).apply({}, observation, method="represent")
    channels = SHAPES["conv"][-1]
    np.testing.assert_array_equal(seen[0][..., :channels], observation[:, 0])
    np.testing.assert_array_equal(seen[0][..., channels:], observation[:, 1])


def losses(model, observation, action):
    root = model.represent(observation)
    latent = model.step(root, action)
    logits, _ = model.value_prefix(latent, model.initial_memory(3))
    prediction = model.predict(latent)
    near, target = model.predict_projection(model.project(latent)), model.project(root)
    total = model.support.cross_entropy(logits, jnp.ones(3))
    total += model.support.cross_entropy(prediction.value_logits, jnp.ones(3))
    total -= jax.nn.log_softmax(prediction.policy_logits)[:, 0]
    return (total - (near * jax.lax.stop_gradient(target)).mean(-1)).mean()


@pytest.mark.parametrize("kind", SMALL)
def test_training_gives_gradients_and_statistics(kind):
    variables = awake(kind)
    learn = nn.apply(losses, build(kind).clone(train=True), mutable=["batch_stats"])

    gradient = jax.jit(jax.value_and_grad(learn, has_aux=True))
    result = jax.device_get(gradient(variables, observations(kind), actions()))
    (total, changed), grads = result
    assert np.isfinite(total)
    for path, leaf in jax.tree_util.tree_leaves_with_path(grads["params"]):
        assert np.isfinite(leaf).all(), path
    for name, part in grads["params"].items():
        assert any(leaf.any() for leaf in jax.tree.leaves(part)), name
    old, new = variables.get("batch_stats", {}), changed.get("batch_stats", {})
    assert jax.tree.structure(old) == jax.tree.structure(new)
    for x, y in zip(jax.tree.leaves(old), jax.tree.leaves(new), strict=True):
        assert np.isfinite(y).all()
        assert (x != y).any()


def test_each_call_updates_the_statistics_in_turn():
    latent = np.random.default_rng(2).random((3, *LATENTS["conv"]), np.float32)

    def calls(times):
        def run(model):
            for _ in range(times):
                model.step(jnp.asarray(latent), actions())

        model = build("conv").clone(train=True)
        _, changed = jax.jit(nn.apply(run, model, mutable=["batch_stats"]))(fresh("conv"))
        return np.asarray(changed["batch_stats"]["dynamics"]["ConvNorm_0"]["BatchNorm_0"]["mean"])

    np.testing.assert_allclose(calls(2), 1.9 * calls(1), rtol=1e-4, atol=1e-6)


def test_a_bound_model_works_inside_a_scan():
    @jax.jit
    def roll(variables, latent, sequence):
        bound = build("mlp").bind(variables)

        def body(latent, action):
            return bound.step(latent, action), bound.predict(latent)

        return jax.lax.scan(body, latent, sequence)

    latent, predictions = roll(fresh("mlp"), jnp.ones((3, 64)), jnp.zeros((4, 3), jnp.int32))
    assert latent.shape == (3, 64)
    assert predictions.policy_logits.shape == (4, 3, ACTIONS)


@pytest.mark.parametrize("kind", ["conv", pytest.param("atari", marks=pytest.mark.slow)])
def test_latents_of_images_stay_in_range_however_far_they_are_rolled(kind):
    shown = observations(kind)

    @partial(jax.jit, static_argnums=0)
    def rolled(model, variables):
        bound = model.bind(variables)
        latent = bound.represent(shown)
        steps = [latent := bound.step(latent, actions()) for _ in range(3)]
        return jnp.stack([bound.represent(shown), *steps])

    model = build(kind)
    latents = np.asarray(rolled(model, awake(kind))).reshape(4, 3, -1)
    np.testing.assert_allclose(latents.min(-1), 0, atol=1e-6)
    np.testing.assert_allclose(latents.max(-1), 1, atol=1e-6)
    assert latents.std(axis=1).max() > 0.01, "samples are scaled apart from each other"
    free = np.asarray(rolled(model.clone(scales=False), awake(kind)))
    lowest, highest = (f(free[0].reshape(3, -1), axis=1) for f in (np.min, np.max))
    by_hand = (free[0].reshape(3, -1) - lowest[:, None]) / (highest - lowest)[:, None]
    np.testing.assert_allclose(latents[0], by_hand, atol=1e-5)
    assert free.max() > 1.2


def test_vectors_are_normalised_by_layer_and_not_scaled():
    assert not build("mlp").scales
    assert not build_model(ModelConfig(scaled=False), SHAPES["conv"], ActionSpec(ACTIONS)).scales


BATCHED = jnp.zeros((3, 64))
MEMORY = build("mlp").initial_memory(3)


@pytest.mark.parametrize(("method", "arguments"), [
    ("represent", (jnp.zeros((2, 5)),)),
    ("step", (BATCHED[0], actions()[0])),
    ("step", (BATCHED, actions(4))),
    ("step", (BATCHED, actions()[:, None])),
    ("step", (BATCHED, actions().astype(jnp.float32))),
    ("predict", (BATCHED[0],)),
    ("project", (BATCHED[None],)),
    ("value_prefix", (BATCHED[:2], MEMORY)),
    ("value_prefix", (BATCHED, (MEMORY[0], MEMORY[1][:, 1:]))),
])  # fmt: skip
def test_a_wrong_shape_or_type_is_refused(method, arguments):
    call = partial(build("mlp").apply, fresh("mlp"), method=method)
    with pytest.raises(AssertionError, match=r"Error in (shape|rank|type) compatibility check"):
        jax.eval_shape(call, *arguments)


def test_a_queue_of_another_batch_is_refused():
    model = build_model(ModelConfig(), SHAPES["mlp"], ActionSpec(ACTIONS), sees_queue=True)
    queue = full_queue(jnp.zeros((3, 2), jnp.int32))
    init = partial(model.init, method="everything")
    jax.eval_shape(init, KEY, observations("mlp"), actions(), queue)
    with pytest.raises(AssertionError, match="shape compatibility"):
        jax.eval_shape(init, KEY, observations("mlp", batch=4), actions(4), queue)
    with pytest.raises(AssertionError, match="needs the pending actions"):
        jax.eval_shape(init, KEY, observations("mlp"), actions())


@pytest.mark.parametrize("kind", SMALL)
def test_flat_latents_keep_every_number(kind):
    latent = jnp.arange(2 * np.prod(LATENTS[kind])).reshape(2, *LATENTS[kind])
    flat = flat_latents(latent.astype(jnp.bfloat16))
    assert flat.dtype == jnp.float32
    np.testing.assert_array_equal(flat, latent.astype(jnp.bfloat16).reshape(2, -1))
