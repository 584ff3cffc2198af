"""Running statistics are made those of the newest weights."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from delayzero.learning.health import measure_health
from delayzero.learning.in_training import InTraining
from delayzero.learning.loss import unroll_model

from . import oracle

PASSES = 60


@pytest.fixture(scope="module")
def stale():
    """A learner with a state whose running statistics are nonsense, and a replay."""
    frames = np.random.default_rng(0).random((40, 10, 10, 2)).astype(np.float32)
    history = oracle.random_history(seed=0, length=40)
    replay = oracle.filled(history, 40, 40, frame=lambda row: frames[row.time])
    learner = oracle.small_learner("conv", unroll=2, batch_size=32, settle=PASSES)
    state = oracle.first_state(learner, jnp.zeros((1, 1, 10, 10, 2)))
    statistics = jax.tree.map(lambda x: 50 + 100 * x, state.variables["batch_stats"])
    return learner, state._replace(variables={**state.variables, "batch_stats": statistics}), replay


@pytest.fixture(scope="module")
def settled(stale):
    learner, state, replay = stale
    return oracle.quick_jit(learner.settled)(state, replay, jax.random.key(1))


def latents(learner, variables, batch, *, train):
    """The encoded observations of a batch."""
    if train:
        return InTraining(learner.planner.model, variables)("represent", batch.observation)
    return learner.planner.model.bind(variables).represent(batch.observation)


def test_settled_statistics_are_those_of_the_weights(stale, settled):
    learner, state, replay = stale
    batch = learner.batch(state, replay, jax.random.key(2))[1]
    by_batch = latents(learner, state.variables, batch, train=True)
    nonsense = latents(learner, state.variables, batch, train=False)
    mended = latents(learner, settled.variables, batch, train=False)
    error = float(jnp.abs(mended - by_batch).mean())
    assert error < 0.05
    assert float(jnp.abs(nonsense - by_batch).mean()) > 5 * error


def test_nothing_else_changes(stale, settled):
    _, state, _ = stale
    same = settled._replace(
        variables={**settled.variables, "batch_stats": state.variables["batch_stats"]}
    )
    jax.tree.map(np.testing.assert_array_equal, same, state)


def test_without_passes_the_state_is_returned_as_it_is(stale):
    learner, state, replay = stale
    plain = replace(learner, config=replace(learner.config, settle=0))
    assert plain.settled(state, replay, jax.random.key(1)) is state


def test_models_without_statistics_have_nothing_to_settle():
    learner = oracle.small_learner(settle=4)
    state = oracle.first_state(learner, jnp.zeros((1, 2, 3)))
    assert learner.settled(state, None, jax.random.key(1)) is state


@pytest.mark.slow
def test_updates_end_with_settled_statistics(stale):
    learner, state, replay = stale
    update = oracle.quick_jit(learner.update)
    made = update(state, replay, jax.random.key(3), 1)[0].variables["batch_stats"]
    wrong = max(float(jnp.abs(x).max()) for x in jax.tree.leaves(made))
    assert wrong < 20


@pytest.mark.slow
def test_health_tells_stale_statistics_from_bad_weights(stale, settled):
    learner, state, replay = stale
    measure = oracle.quick_jit(lambda s, k: measure_health(learner, s, replay, k))
    before, after = (measure(s, jax.random.key(4)) for s in (state, settled))
    for name in ("health/value_in_training", "health/prefix_in_training"):
        assert before[name] == pytest.approx(float(after[name]), abs=1e-5)
    gap = {
        when: abs(float(m["health/value_in_training"] - m["health/value_explained"]))
        for when, m in (("before", before), ("after", after))
    }
    assert gap["after"] < gap["before"] / 2


@pytest.mark.slow
def test_what_training_explains_is_that_of_the_loss(stale):
    learner, state, replay = stale
    batch = learner.batch(state, replay, jax.random.key(2))[1]
    model = learner.planner.model
    out = unroll_model(InTraining(model, state.variables), batch, learner.config)
    other = {
        **state.variables,
        "batch_stats": jax.tree.map(jnp.zeros_like, state.variables["batch_stats"]),
    }
    again = unroll_model(InTraining(model, other), batch, learner.config)
    np.testing.assert_array_equal(out.value_logits, again.value_logits)
