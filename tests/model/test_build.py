from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from delayzero.actions import ActionSpec
from delayzero.model import build_model
from delayzero.model.atari import AtariEncoder
from delayzero.model.conv import ConvEncoder
from delayzero.model.parts import Perceptron, encode_actions
from delayzero.settings import ModelConfig


@pytest.mark.parametrize(("shape", "encoder"), [
    ((96, 96, 3), AtariEncoder), ((64, 64, 1), AtariEncoder), ((10, 10, 4), ConvEncoder),
    ((4,), Perceptron),
])  # fmt: skip
def test_auto_goes_by_the_shape(shape, encoder):
    assert isinstance(build_model(ModelConfig(), shape, ActionSpec(4)).encoder, encoder)


def test_kind_and_sizes_can_be_given():
    config = ModelConfig(kind="conv", channels=16, lstm=32, support=20)
    model = build_model(config, (96, 96, 1), ActionSpec(4))
    assert isinstance(model.encoder, ConvEncoder)
    assert model.encoder.channels == 16
    assert model.memory_size == 32
    assert model.support.bins == 41
    flat = build_model(ModelConfig(kind="mlp"), (4, 4, 2), ActionSpec(3))
    latent = jax.eval_shape(
        lambda key: flat.init_with_output(
            key, jnp.zeros((2, 3, 4, 4, 2)), jnp.zeros(2, jnp.int32), method="everything"
        ),
        jax.random.key(0),
    )[0][0]
    assert latent.shape == (2, 64)


def test_dtype_is_float32_on_a_cpu_and_bfloat16_on_a_gpu(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "cpu")
    assert build_model(ModelConfig(), (4,), ActionSpec(2)).dtype == jnp.float32
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert build_model(ModelConfig(), (4,), ActionSpec(2)).dtype == jnp.bfloat16
    assert build_model(ModelConfig(dtype="float32"), (4,), ActionSpec(2)).dtype == jnp.float32


def test_models_can_be_compared_and_hashed():
    first, second = (build_model(ModelConfig(), (10, 10, 4), ActionSpec(3)) for _ in range(2))
    assert first == second
    assert hash(first) == hash(second)


@pytest.mark.parametrize("shape", [(), (96, 96), (4, 10, 10, 3), (0,)])
def test_other_shapes_are_refused_with_advice(shape):
    with pytest.raises(ValueError, match="FlattenObservation"):
        build_model(ModelConfig(), shape, ActionSpec(4))


def test_vectors_into_image_networks_are_refused():
    with pytest.raises(ValueError, match="use kind mlp or auto"):
        build_model(ModelConfig(kind="atari"), (4,), ActionSpec(2))


def test_sizes_are_checked():
    with pytest.raises(ValueError, match=r"--model\.width is 0; it should be at least 8"):
        ModelConfig(width=0)
    with pytest.raises(ValueError, match="number of actions is at least 1"):
        build_model(ModelConfig(), (4,), ActionSpec(0))


@pytest.mark.parametrize("shape", [(96, 96, 3), (10, 10, 4), (5,)], ids=["atari", "conv", "mlp"])
def test_actions_are_told_one_by_one_or_by_one_number(shape):
    for code, numbers in (("one_hot", 7), ("plane", 1)):
        model = build_model(ModelConfig(action_code=code), shape, ActionSpec(7))
        example = jnp.zeros((2, 1, *shape)), jnp.zeros(2, jnp.int32)
        init = partial(model.init, method="everything")
        params = jax.eval_shape(init, jax.random.key(0), *example)["params"]["dynamics"]
        first = params["Linear_0"] if len(shape) == 1 else params["ConvNorm_0"]
        channels = {1: 64, 10: 32, 96: 64}[1 if len(shape) == 1 else shape[0]]
        assert first["kernel"].shape[-2] == channels + numbers


@pytest.mark.parametrize("shape", [(96, 96, 3), (10, 10, 4), (5,)], ids=["atari", "conv", "mlp"])
def test_ends_are_one_more_head(shape):
    example = jnp.zeros((2, 1, *shape)), jnp.zeros(2, jnp.int32)
    shapes = {}
    for ends in ("absorbing", "predicted"):
        model = build_model(ModelConfig(ends=ends), shape, ActionSpec(7))
        assert model.predicts_ends == (ends == "predicted")
        init = partial(model.init, method="everything")
        shapes[ends] = jax.eval_shape(init, jax.random.key(0), *example)
        out = jax.eval_shape(partial(model.apply, method="everything"), shapes[ends], *example)
        logits = out[3].end_logits
        assert (logits is not None) == model.predicts_ends
        if logits is not None:
            assert (logits.shape, logits.dtype) == ((2,), jnp.float32)
    for part in shapes["predicted"].values():
        part["prediction"].pop("ends", None)
    assert shapes["predicted"] == shapes["absorbing"]


def test_ends_are_rare_before_training():
    model = build_model(ModelConfig(ends="predicted"), (5,), ActionSpec(3))
    example = jnp.ones((2, 1, 5)), jnp.zeros(2, jnp.int32)
    out, _ = jax.jit(lambda key: model.init_with_output(key, *example, method="everything"))(
        jax.random.key(0)
    )
    assert jax.nn.sigmoid(out[3].end_logits).tolist() == pytest.approx([0.018] * 2, abs=1e-3)


def test_codes_of_actions():
    action = jnp.array([0, 2, 3])
    assert np.array_equal(encode_actions(action, ActionSpec(4), "plane"), [[0], [0.5], [0.75]])
    wanted = [[1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    assert np.array_equal(encode_actions(action, ActionSpec(4), "one_hot"), wanted)
