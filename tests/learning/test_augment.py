import jax
import jax.numpy as jnp
import numpy as np
import pytest

from delayzero.learning.augment import augmented
from delayzero.learning.batch import Batch

from . import oracle


def slow(key, frames):
    """Pixel by pixel, with the draws that the key gives."""
    shift_key, intensity_key = jax.random.split(key)
    batch, _, height, width, _ = frames.shape
    shifts = np.asarray(jax.random.randint(shift_key, (batch, 2), -4, 5))
    noise = np.asarray(jax.random.normal(intensity_key, (batch, 1, 1, 1, 1))).ravel()
    out = np.zeros(frames.shape)
    for b in range(batch):
        down, right = shifts[b]
        scale = 1 + 0.05 * min(max(float(noise[b]), -2.0), 2.0)
        for y in range(height):
            for x in range(width):
                y_from = min(max(y + down, 0), height - 1)
                x_from = min(max(x + right, 0), width - 1)
                out[b, :, y, x] = frames[b, :, y_from, x_from] / 255 * scale
    return out, shifts, noise


@pytest.mark.parametrize("channels", [2, 4, 5])
def test_shift_and_intensity(channels):
    frames = np.random.default_rng(0).integers(0, 256, (48, 2, 7, 9, channels), np.uint8)
    key = jax.random.key(5)
    wanted, shifts, noise = slow(key, frames)
    got = oracle.quick_jit(augmented, static_argnums=2)(key, frames, jnp.float32)
    assert got.dtype == jnp.float32
    assert np.allclose(got, wanted, atol=1e-6)
    assert {-4, 4} <= set(shifts[:, 0]) & set(shifts[:, 1])
    assert np.abs(noise).max() > 2


def test_result_has_the_wanted_type():
    frames = jnp.full((2, 1, 5, 5, 1), 255, jnp.uint8)
    got = oracle.quick_jit(augmented, static_argnums=2)(jax.random.key(0), frames, jnp.bfloat16)
    assert got.dtype == jnp.bfloat16
    assert np.all(np.abs(np.asarray(got, np.float32) - 1) <= 0.11)


@pytest.mark.parametrize("on", [True, False])
def test_learner_changes_both_stacks_apart_and_nothing_else(on):
    learner = oracle.small_learner("conv", augment=on)
    frames = np.random.default_rng(1).integers(0, 256, (4, 2, 10, 10, 2), np.uint8)
    following = np.random.default_rng(2).integers(0, 256, (4, 6, 10, 10, 2), np.uint8)
    stacks = following.reshape(4, 3, 2, 10, 10, 2)
    batch = Batch(frames, stacks, *range(8))
    key = jax.random.key(3)
    if not on:
        assert learner.augmented(batch, key) is batch
        return
    got = oracle.quick_jit(learner.augmented)(batch, key)
    first, second = jax.random.split(key)
    assert np.allclose(got.observation, slow(first, frames)[0], atol=1e-6)
    wanted = slow(second, following)[0].reshape(stacks.shape)
    assert np.allclose(got.following, wanted, atol=1e-6)
    assert got._replace(observation=0, following=0) == batch._replace(observation=0, following=0)


def test_frames_of_a_wrong_shape_or_type_are_refused():
    frames = jnp.zeros((2, 1, 6, 6, 3), jnp.uint8)
    with pytest.raises(AssertionError, match="rank compatibility"):
        augmented(jax.random.key(0), frames[:, 0], jnp.float32)
    with pytest.raises(AssertionError, match="type compatibility"):
        augmented(jax.random.key(0), frames.astype(jnp.float32), jnp.float32)
