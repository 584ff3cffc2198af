import jax
import jax.numpy as jnp
import pytest

from delayzero.model import ModelConfig, build_model
from delayzero.model.atari import AtariEncoder
from delayzero.model.conv import ConvEncoder
from delayzero.model.parts import Perceptron


@pytest.mark.parametrize(("shape", "encoder"), [
    ((96, 96, 3), AtariEncoder), ((64, 64, 1), AtariEncoder), ((10, 10, 4), ConvEncoder),
    ((4,), Perceptron),
])  # fmt: skip
def test_auto_goes_by_the_shape(shape, encoder):
    assert isinstance(build_model(ModelConfig(), shape, 4).encoder, encoder)


def test_kind_and_sizes_can_be_given():
    config = ModelConfig(kind="conv", channels=16, memory=32, support=20)
    model = build_model(config, (96, 96, 1), 4)
    assert isinstance(model.encoder, ConvEncoder)
    assert model.encoder.channels == 16
    assert model.memory_size == 32
    assert model.support.bins == 41
    flat = build_model(ModelConfig(kind="mlp"), (4, 4, 2), 3)
    latent = jax.eval_shape(
        lambda key: flat.init_with_output(
            key, jnp.zeros((2, 3, 4, 4, 2)), jnp.zeros(2, jnp.int32), method="everything"
        ),
        jax.random.key(0),
    )[0][0]
    assert latent.shape == (2, 64)


def test_dtype_is_float32_on_a_cpu_and_bfloat16_on_a_gpu(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "cpu")
    assert build_model(ModelConfig(), (4,), 2).dtype == jnp.float32
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert build_model(ModelConfig(), (4,), 2).dtype == jnp.bfloat16
    assert build_model(ModelConfig(dtype="float32"), (4,), 2).dtype == jnp.float32


def test_models_can_be_compared_and_hashed():
    first, second = (build_model(ModelConfig(), (10, 10, 4), 3) for _ in range(2))
    assert first == second
    assert hash(first) == hash(second)


@pytest.mark.parametrize("shape", [(), (96, 96), (4, 10, 10, 3), (0,)])
def test_other_shapes_are_refused_with_advice(shape):
    with pytest.raises(ValueError, match="FlattenObservation"):
        build_model(ModelConfig(), shape, 4)


def test_vectors_into_image_networks_are_refused():
    with pytest.raises(ValueError, match="use kind mlp or auto"):
        build_model(ModelConfig(kind="atari"), (4,), 2)


def test_sizes_are_checked():
    with pytest.raises(ValueError, match=r"--model\.width is 0; it should be at least 8"):
        ModelConfig(width=0)
    with pytest.raises(ValueError, match="num_actions should be at least 1"):
        build_model(ModelConfig(), (4,), 0)
