"""Predicted pictures: what is compared with what, and what learns from it."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from delayzero.agents import build_agent
from delayzero.arguments import UsageError
from delayzero.learning.augment import augmented
from delayzero.learning.batch import Batch
from delayzero.learning.pictures import picture_losses
from delayzero.settings.keywords import configure

from ..made import full_queue, spaces_of
from . import oracle

ROWS, LENGTH, STACK, LEADS, LONGEST = 48, 60, 2, 3, 4
KEY = jax.random.key(5)
LEARNER = replace(
    oracle.small_learner("conv", batch_size=8, picture_weight=1.5, consistency_steps=1),
    leads=LEADS,
    longest_lead=LONGEST,
)
ALONE = replace(
    LEARNER.config,
    policy_weight=0.0,
    value_weight=0.0,
    prefix_weight=0.0,
    consistency_weight=0.0,
)


def frame_of(row):
    """A picture that tells the row: every pixel is drawn from its own seed."""
    rng = np.random.default_rng((row.env, row.time, row.episode))
    return rng.integers(0, 256, (10, 10, 2), np.uint8)


@pytest.fixture(scope="module")
def history():
    return oracle.random_history(seed=3, length=LENGTH)


@pytest.fixture(scope="module")
def stored(history):
    return oracle.filled(history, ROWS, LENGTH, stack=STACK, frame=frame_of)


@pytest.fixture(scope="module")
def begin():
    return oracle.first_state(LEARNER, jnp.zeros((1, STACK, 10, 10, 2)))


@pytest.fixture(scope="module")
def sampled(stored, begin):
    return oracle.quick_jit(LEARNER.batch)(begin, stored, KEY)


def test_pictures_are_the_frames_seen_then(history, sampled):
    sample, batch = sampled
    pictures = np.asarray(LEARNER.augmented(batch, KEY).picture)
    for b in range(8):
        episode, i = history.find(int(sample.times[b]), int(sample.envs[b]))
        lead = int(batch.lead.lengths[b]) if b < LEADS else 0
        assert np.array_equal(pictures[b, 0], frame_of(episode[i - lead]))
        step = int(batch.compared[b, 0]) + 1
        if oracle.is_taken(episode, i, step):
            assert np.array_equal(pictures[b, 1], frame_of(episode[i + step]))


def test_pictures_have_the_shift_of_the_observation(sampled):
    learner = replace(LEARNER, augment=True)
    batch = oracle.quick_jit(learner.augmented)(sampled[1], KEY)
    assert np.array_equal(batch.picture[:, 0], batch.observation[:, -1])
    raw = sampled[1].following[:, :, -1]
    alike = augmented(jax.random.split(KEY)[0], raw, jnp.float32)
    assert np.allclose(batch.picture[:, 1:], alike, atol=1e-6)
    assert not np.allclose(batch.picture[:, 1:], batch.following[:, :, -1], atol=0.1)


def test_the_loss_is_the_share_of_the_variance_that_is_not_predicted():
    rng = np.random.default_rng(0)
    pictures = rng.uniform(size=(5, 3, 4, 6, 2)).astype(np.float32)
    predicted = rng.uniform(size=(3, 5, 4, 6, 2)).astype(np.float32)
    compared = np.array([[1, 1, 0, 1, 1], [1, 0, 0, 1, 1]], np.float32)
    lead = full_queue(jnp.zeros((2, 3), jnp.int32))
    batch = batch_with(5, pictures, lead)
    mean = pictures.reshape(-1, 4, 6, 2).mean(0)
    variance = ((pictures - mean) ** 2).mean()
    got = picture_losses(jnp.asarray(predicted), batch, jnp.asarray(compared))
    for k in range(3):
        for b in range(5):
            error = ((predicted[k, b] - pictures[b, k]) ** 2).mean() / variance
            counts = b >= 2 if k == 0 else compared[k - 1, b]
            assert np.isclose(got[k, b], error * counts, rtol=1e-4), (k, b)
    without = picture_losses(jnp.asarray(predicted), batch._replace(lead=None), compared)
    assert (np.asarray(without[0]) > 0).all()


def batch_with(size, pictures, lead):
    """A batch of which only these fields are read."""
    return Batch(*(None,) * 8, jnp.ones(size), None, lead=lead, picture=jnp.asarray(pictures))


def test_equal_pictures_cost_nothing():
    pictures = np.full((4, 2, 3, 3, 1), 0.5, np.float32)
    batch = batch_with(4, pictures, None)
    losses = picture_losses(jnp.asarray(pictures.swapaxes(0, 1)), batch, jnp.ones((1, 4)))
    assert np.array_equal(losses, np.zeros((2, 4)))


def test_what_learns_from_pictures(sampled, begin):
    """Encoder, dynamics and decoder; positions with a lead teach the dynamics too."""
    learner = replace(LEARNER, config=ALONE)
    batch = learner.augmented(sampled[1], KEY)
    gradients = oracle.quick_jit(learner.gradients)
    gradient, output = gradients(begin.variables, batch)
    norms = {name: float(optax.tree.norm(part)) for name, part in gradient.items()}
    assert min(norms[name] for name in ("encoder", "dynamics", "decoder")) > 1e-4
    assert max(norms[name] for name in ("prefix", "prediction", "projector")) == 0
    assert output.metrics["loss/pictures"] > 0
    leads = batch._replace(weight=jnp.where(jnp.arange(8) < LEADS, 1.0, 0.0))
    gradient, _ = gradients(begin.variables, leads)
    assert float(optax.tree.norm(gradient["dynamics"])) > 1e-4


def test_pictures_are_learned(stored, begin):
    learner = replace(LEARNER, config=replace(LEARNER.config, learning_rate=0.1))
    repeat = oracle.quick_jit(learner.update)
    state, replay, before = repeat(begin, stored, KEY, 5)
    _, _, after = repeat(state, replay, KEY, 60)
    assert after["loss/pictures"] < 0.8 * before["loss/pictures"]


def test_pictures_need_images():
    settings = {"learner": {"picture_weight": 2.0}}
    config = configure(["cartpole"], settings)
    with pytest.raises(UsageError, match=r"--learner\.picture-weight 2\.0 is for images"):
        build_agent(config, spaces_of((4,), np.float32, 2))
    config = configure(["minatar"], settings)
    learner = build_agent(config, spaces_of((10, 10, 4), np.float32, 3)).learner
    assert learner.planner.model.decoder.detail == 2
    config = configure(["minatar"], {})
    learner = build_agent(config, spaces_of((10, 10, 4), np.float32, 3)).learner
    assert learner.planner.model.decoder is None
