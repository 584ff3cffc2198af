"""A running average of the weights, with which runs play."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from delayzero.settings import LearnerConfig

from . import oracle

STACK, DECAY = 2, 0.8
KEY = jax.random.key(3)
LEARNER = oracle.small_learner(average=DECAY)
update = oracle.quick_jit(LEARNER.update)


@pytest.fixture(scope="module")
def replay():
    return oracle.filled(oracle.random_history(seed=0), 48, 60, stack=STACK)


@pytest.fixture(scope="module")
def begin():
    return oracle.first_state(LEARNER, jnp.zeros((1, STACK, 3)))


def test_the_average_is_that_of_the_weights_after_each_update(begin, replay):
    state, current, average = begin, replay, begin.variables
    for n in range(40):
        state, current, _ = update(state, current, KEY, 1)
        keep = min(DECAY, (1 + n) / (10 + n))
        average = jax.tree.map(
            lambda old, new, keep=keep: keep * old + (1 - keep) * new, average, state.variables
        )
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), average, state.target
        )
    assert LEARNER.playing(state) is state.target
    assert LEARNER.target_variables(state) is state.target
    assert not oracle.leaves_equal(state.target, state.variables)


def test_learning_itself_does_not_change(begin, replay):
    plain = oracle.small_learner()
    expected, _, _ = oracle.quick_jit(plain.update)(begin._replace(target=()), replay, KEY, 5)
    state, _, _ = update(begin, replay, KEY, 5)
    assert oracle.leaves_equal(state.variables, expected.variables)
    assert plain.playing(expected) is expected.variables


def test_settling_is_for_the_weights_that_play():
    learner = oracle.small_learner("conv", average=DECAY, settle=2)
    frames = np.random.default_rng(0).random((40, 10, 10, 2)).astype(np.float32)
    history = oracle.random_history(seed=0, length=40)
    replay = oracle.filled(history, 40, 40, frame=lambda row: frames[row.time])
    state = oracle.first_state(learner, jnp.zeros((1, 1, 10, 10, 2)))
    settled = oracle.quick_jit(learner.settled)(state, replay, KEY)
    assert oracle.leaves_equal(settled.variables, state.variables)
    assert oracle.leaves_equal(settled.target["params"], state.target["params"])
    assert not oracle.leaves_equal(settled.target["batch_stats"], state.target["batch_stats"])


def test_one_setting_chooses_the_weights_of_reanalysis():
    with pytest.raises(ValueError, match=r"--learner.average and --learner.target-period"):
        LearnerConfig(average=0.99, target_period=200)
    with pytest.raises(ValueError, match=r"--learner.average is 1"):
        LearnerConfig(average=1.0)
