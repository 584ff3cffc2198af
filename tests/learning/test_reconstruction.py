"""Reconstruction: which frames are compared with what, and what learns from it."""

from dataclasses import replace

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from delayzero.agents import build_agent
from delayzero.arguments import UsageError
from delayzero.learning.batch import Batch
from delayzero.learning.in_training import InTraining
from delayzero.learning.loss import efficientzero_loss, unroll_model
from delayzero.learning.reconstruction import reconstruction_losses
from delayzero.model.decoder import Decoder
from delayzero.settings.keywords import configure

from ..made import full_queue, spaces_of
from . import oracle

ROWS, LENGTH, STACK, LEADS, LONGEST = 48, 60, 2, 3, 4
KEY = jax.random.key(5)
LEARNER = replace(
    oracle.small_learner("conv", batch_size=8, reconstruction_weight=1.5, consistency_steps=1),
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
    """A frame that tells its row: a bright square, somewhere on a constant background."""
    frame = np.full((10, 10, 2), 40, np.uint8)
    y, x = (3 * row.time + row.env) % 8, (5 * row.time + row.episode) % 8
    frame[y : y + 3, x : x + 3, row.time % 2] = 250
    frame[row.episode % 10, row.env, 1] = 5 * row.episode
    return frame


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


@pytest.mark.parametrize("augment", [False, True])
def test_frames_are_those_seen_then_without_shifts(history, sampled, augment):
    sample, batch = sampled
    learner = replace(LEARNER, augment=augment)
    changed = oracle.quick_jit(learner.augmented)(batch, KEY)
    assert augment == (changed.observation.dtype == jnp.float32)
    newest = np.asarray(changed.newest)
    for b in range(8):
        episode, i = history.find(int(sample.times[b]), int(sample.envs[b]))
        lead = int(batch.lead.lengths[b]) if b < LEADS else 0
        assert np.array_equal(newest[b, 0], frame_of(episode[i - lead]))
        step = int(batch.compared[b, 0]) + 1
        if oracle.is_taken(episode, i, step):
            assert np.array_equal(newest[b, 1], frame_of(episode[i + step]))


def batch_with(size, newest, lead):
    """A batch of which only these fields are read."""
    return Batch(*(None,) * 8, jnp.ones(size), None, lead=lead, newest=jnp.asarray(newest))


def test_the_loss_is_the_share_of_the_variance_that_is_not_explained():
    rng = np.random.default_rng(0)
    newest = rng.uniform(size=(5, 3, 4, 6, 2)).astype(np.float32)
    predicted = rng.uniform(size=(3, 5, 4, 6, 2)).astype(np.float32)
    compared = np.array([[1, 1, 0, 1, 1], [1, 0, 0, 1, 1]], np.float32)
    batch = batch_with(5, newest, full_queue(jnp.zeros((2, 3), jnp.int32)))
    mean = newest.reshape(-1, 4, 6, 2).mean(0)
    variance = ((newest - mean) ** 2).mean()
    got = reconstruction_losses(jnp.asarray(predicted), batch, jnp.asarray(compared))
    for k in range(3):
        for b in range(5):
            error = ((predicted[k, b] - newest[b, k]) ** 2).mean() / variance
            counts = b >= 2 if k == 0 else compared[k - 1, b]
            assert np.isclose(got[k, b], error * counts, rtol=1e-4), (k, b)
    without = reconstruction_losses(jnp.asarray(predicted), batch._replace(lead=None), compared)
    assert (np.asarray(without[0]) > 0).all()


def test_equal_frames_have_no_loss():
    """However wrong the decoder is: an error over a variance of 0 would outweigh all else."""
    newest = np.full((4, 2, 3, 3, 1), 0.5, np.float32)

    def total(predicted):
        return reconstruction_losses(predicted, batch_with(4, newest, None), jnp.ones((1, 4))).sum()

    loss, gradient = jax.value_and_grad(total)(jnp.zeros((2, 4, 3, 3, 1)))
    assert loss == 0
    assert not np.asarray(gradient).any()


def test_the_part_in_the_whole_loss(sampled, begin):
    """One frame of each position, and one compared frame that stands for all unrolled steps."""
    batch, config, model = LEARNER.augmented(sampled[1], KEY), LEARNER.config, LEARNER.planner.model
    batch = batch._replace(weight=jnp.ones(8))

    def both(variables, batch):
        frames = unroll_model(InTraining(model, variables), batch, config).frames
        return efficientzero_loss(model, variables, batch, config)[1].metrics, frames

    metrics, frames = oracle.quick_jit(both)(begin.variables, batch)
    alive = np.asarray(batch.alive, np.float32)
    taken = np.concatenate([np.ones((8, 1)), alive[:, :-1]], axis=1)[:, 1:]
    compared = taken[np.arange(8), np.asarray(batch.compared)[:, 0]][None]
    errors = np.asarray(reconstruction_losses(frames, batch, jnp.asarray(compared)))
    own, imagined = errors[0].mean(), errors[1].mean()
    assert np.isclose(metrics["loss/reconstruction"], own + config.unroll * imagined, rtol=1e-4)
    names = ("policy", "value", "prefix", "consistency", "reconstruction")
    parts = [getattr(config, f"{name}_weight") * metrics[f"loss/{name}"] for name in names]
    assert np.isclose(metrics["loss"], sum(parts) / config.unroll, rtol=1e-4)


@pytest.mark.slow
def test_what_learns_from_frames(sampled, begin):
    """Encoder, dynamics and decoder; positions with a lead teach the dynamics too."""
    learner = replace(LEARNER, config=ALONE)
    batch = learner.augmented(sampled[1], KEY)
    gradients = oracle.quick_jit(learner.gradients)
    gradient, _ = gradients(begin.variables, batch)
    norms = {name: float(optax.tree.norm(part)) for name, part in gradient.items()}
    assert min(norms[name] for name in ("encoder", "dynamics", "decoder")) > 1e-4
    assert max(norms[name] for name in ("prefix", "prediction", "projector")) == 0
    leads = batch._replace(weight=jnp.where(jnp.arange(8) < LEADS, 1.0, 0.0))
    gradient, _ = gradients(begin.variables, leads)
    assert float(optax.tree.norm(gradient["dynamics"])) > 1e-4


class Blind(Decoder):
    """A decoder that sees no latent: it learns the mean frame."""

    @nn.compact
    def __call__(self, latent):
        return super().__call__(jnp.zeros_like(latent))


@pytest.mark.slow
def test_frames_are_learned_from_latents(stored):
    def loss_after(kind):
        planner = LEARNER.planner
        model = planner.model.clone(decoder=kind(2, 2))
        learner = replace(LEARNER, planner=replace(planner, model=model), config=ALONE, leads=0)
        state = oracle.first_state(learner, jnp.zeros((1, STACK, 10, 10, 2)))
        repeat = oracle.quick_jit(learner.update)
        state, replay, _ = repeat(state, stored, KEY, 120)
        return float(repeat(state, replay, KEY, 20)[2]["loss/reconstruction"])

    assert loss_after(Decoder) < 0.8 * loss_after(Blind)


def test_reconstruction_needs_networks_of_images():
    settings = {"learner": {"reconstruction_weight": 2.0}}
    message = r"--learner\.reconstruction-weight 2\.0 is for networks of images"
    with pytest.raises(UsageError, match=message):
        build_agent(configure(["cartpole"], settings), spaces_of((4,), np.float32, 2))
    images = spaces_of((10, 10, 4), np.float32, 3)
    with pytest.raises(UsageError, match=message):
        build_agent(configure(["minatar"], {**settings, "model": {"kind": "mlp"}}), images)
    for chosen, detail in ((settings, 2), ({}, None)):
        decoder = build_agent(configure(["minatar"], chosen), images).learner.planner.model.decoder
        assert (None if decoder is None else decoder.detail) == detail
