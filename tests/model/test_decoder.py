"""The decoder: which part of a frame depends on which part of a latent."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from delayzero.actions import ActionSpec
from delayzero.model import build_model
from delayzero.model.decoder import Decoder, detail_of, resized
from delayzero.settings import ModelConfig

KEY = jax.random.key(0)


@pytest.mark.parametrize(("shape", "size"), [((10, 10, 4), (10, 10, 4)), ((7, 9, 2), (8, 10, 2))])
def test_frames_cover_the_observation(shape, size):
    model = build_model(ModelConfig(channels=8), shape, ActionSpec(3), decodes=True)
    inputs = jnp.zeros((2, 1, *shape)), jnp.zeros(2, jnp.int32)
    variables = model.init(KEY, *inputs, method="everything")
    bound = model.bind(variables)
    decoded = bound.decode(bound.represent(inputs[0]))
    assert decoded.shape == (2, *size)
    assert decoded.dtype == jnp.float32
    assert "decoder" in variables["params"]


def test_models_decode_nothing_unless_asked_to():
    model = build_model(ModelConfig(channels=8), (10, 10, 4), ActionSpec(3))
    assert model.decoder is None
    inputs = jnp.zeros((2, 1, 10, 10, 4)), jnp.zeros(2, jnp.int32)
    variables = model.init(KEY, *inputs, method="everything")
    assert "decoder" not in variables["params"]
    bound = model.bind(variables)
    with pytest.raises(AssertionError, match="decodes no frames"):
        bound.decode(bound.represent(inputs[0]))


def test_detail_is_bounded():
    assert [detail_of(96, 6), detail_of(10, 5), detail_of(7, 4), detail_of(4, 4)] == [8, 2, 2, 1]


def test_a_place_shows_in_its_own_pixels():
    """A place of the latent changes the pixels of its neighbourhood, three places wide."""
    decoder = Decoder(channels=2, detail=3, width=8)
    latent = jax.random.uniform(KEY, (1, 6, 5, 4))
    variables = decoder.init(KEY, latent)
    changed = latent.at[0, 2, 3].add(1.0)
    moved = np.asarray(decoder.apply(variables, changed) - decoder.apply(variables, latent))[0]
    where = np.argwhere(np.abs(moved).max(-1) > 1e-7)
    assert where.min(0).tolist() == [3, 6]
    assert where.max(0).tolist() == [11, 14]


def test_the_background_needs_no_latent():
    decoder = Decoder(channels=1, detail=2, width=8)
    latent = jnp.zeros((3, 2, 2, 4))
    params = decoder.init(KEY, latent)["params"]
    assert params["background"].shape == (4, 4, 1)
    background = jnp.arange(16.0).reshape(4, 4, 1)
    before = decoder.apply({"params": params}, latent)
    after = decoder.apply({"params": {**params, "background": background}}, latent)
    assert np.allclose(after - before, background)


def test_frames_are_resized_smoothly_and_scaled():
    frames = jnp.zeros((2, 3, 4, 4, 1), jnp.uint8).at[:, :, :, 2:].set(255)
    small = resized(frames, (2, 2, 1))
    assert small.shape == (2, 3, 2, 2, 1)
    # A triangle over four pixels of weights 1, 3, 3, 1; at the edge its outer pixel is missing.
    assert np.allclose(small[..., 0, 0], 1 / 7, atol=1e-6)
    assert np.allclose(small[..., 1, 0], 6 / 7, atol=1e-6)
    numbers = jnp.full((1, 4, 4, 1), 3.0)
    assert np.allclose(resized(numbers, (4, 4, 1)), 3.0)
    with pytest.raises(AssertionError):
        resized(numbers, (4, 4, 2))
