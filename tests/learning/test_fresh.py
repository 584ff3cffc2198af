"""Predictions of rows from which nothing has been learned."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from delayzero.learning.fresh import Fit, Fresh, measure_fresh
from delayzero.learning.health import explained

from . import oracle

ROWS, LENGTH, STACK = 48, 60, 2
PLAN = oracle.Plan(unroll=2, td_steps=2, stack=STACK)
LEARNER = oracle.small_learner(batch_size=8)
WINDOW = LEARNER.window
BEGIN = oracle.first_state(LEARNER, jnp.zeros((1, STACK, 3)))


@pytest.fixture(scope="module")
def history():
    return oracle.random_history(seed=3, length=LENGTH)


@pytest.fixture(scope="module")
def replay(history):
    return oracle.filled(history, ROWS, LENGTH, stack=STACK)


@pytest.fixture(scope="module")
def state():
    variables = oracle.random_variables(LEARNER.planner.model, jnp.zeros((1, STACK, 3)), seed=1)
    return BEGIN._replace(variables=variables)


@oracle.quick_jit
def measure(state, replay, learned):
    return measure_fresh(LEARNER, state, replay, learned, rows=6)


def slow_rows(history, learned, rows=6):
    """The rows that became complete since the replay had a length, at most the newest few."""
    for time, env in oracle.complete_rows(history, ROWS, LENGTH, PLAN):
        newly = time + WINDOW >= learned
        if newly and LENGTH - WINDOW - rows <= time:
            yield time, env


def slow_values(history, state, learned):
    """Values and their targets, row by row."""
    model = LEARNER.planner.model.bind(state.variables)
    for time, env in slow_rows(history, learned):
        episode, i = history.find(time, env)
        latent = model.represent(oracle.stack_at(episode, i, STACK)[None])
        value = model.support.decode(model.predict(latent).value_logits)[0]
        yield float(value), oracle.value_target(episode, i, 0, PLAN.td_steps, PLAN)


@pytest.mark.parametrize("learned", [LENGTH - 1, LENGTH - 3, LENGTH - 6, 0])
def test_the_rows_that_became_complete_since_the_last_update(history, replay, state, learned):
    sums = measure(state, replay, jnp.int32(learned))
    said, targets = (
        np.array(column) for column in zip(*slow_values(history, state, learned), strict=True)
    )
    assert sums.value.rows == len(said)
    np.testing.assert_allclose(sums.value.target, targets.sum(), rtol=1e-4)
    np.testing.assert_allclose(sums.value.square, np.square(targets).sum(), rtol=1e-4)
    np.testing.assert_allclose(sums.value.error, np.square(targets - said).sum(), rtol=1e-4)
    expected = explained(jnp.array(said), jnp.array(targets))
    got = Fresh(*jax.tree.map(float, sums)).metrics()["health/value_fresh"]
    assert got == pytest.approx(float(expected), rel=1e-3)


def test_nothing_is_fresh_when_no_row_has_come(replay, state):
    sums = measure(state, replay, jnp.int32(LENGTH))
    assert all(total == 0 for total in jax.tree.leaves(sums))
    assert Fresh(*jax.tree.map(float, sums)).metrics() == {}


def test_a_short_replay_has_few_fresh_rows(history, state):
    short = oracle.filled(history, ROWS, WINDOW + 2, stack=STACK)
    sums = measure(state, short, jnp.int32(0))
    rows = [(t, n) for t, n in oracle.complete_rows(history, ROWS, WINDOW + 2, PLAN)]
    assert 0 < sums.value.rows == len(rows)


def test_explained_variance_of_sums():
    target, said = np.array([1.0, 2.0, 6.0]), np.array([1.5, 2.0, 5.0])
    fit = Fit(3, target.sum(), np.square(target).sum(), np.square(target - said).sum())
    assert fit.explained() == pytest.approx(float(explained(jnp.array(said), jnp.array(target))))
    assert Fit().explained() is None
    assert Fit(4, 8.0, 16.0, 1.0).explained() is None  # all targets are 2
