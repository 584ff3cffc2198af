from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from delayzero.replay import Sample, row_times, sample, window_slots, with_priorities

from ..learning import oracle
from ..learning.oracle import Plan

ROWS = 20
PLAN = Plan(unroll=2, td_steps=3, stack=4)
LENGTHS = {"filling": 15, "just-full": 20, "one-over": 21, "wrapped": 70}


@partial(oracle.quick_jit, static_argnames=("batch", "stack", "exponent"))
def draws(replay, keys, batch, stack, exponent, correction=0.4):
    """Independent batches, one for each key."""
    settings = {"ahead": 5, "stack": stack, "exponent": exponent, "correction": correction}
    return jax.vmap(lambda key: sample(replay, key, batch, **settings))(keys)


def replay_of(length, seed=0):
    history = oracle.random_history(seed=seed, num_envs=2, length=length)
    replay = oracle.filled(history, ROWS, length)
    priority = np.random.default_rng(seed).uniform(0.05, 3, replay.priority.shape)
    return history, replay._replace(priority=jnp.asarray(priority, jnp.float32))


def places(drawn):
    return list(zip(drawn.times.ravel().tolist(), drawn.envs.ravel().tolist(), strict=True))


@pytest.mark.parametrize("stack", [1, 4])
@pytest.mark.parametrize("name", LENGTHS)
def test_only_rows_with_their_whole_window_are_sampled(name, stack):
    length = LENGTHS[name]
    history, replay = replay_of(length, seed=length)
    plan = Plan(unroll=2, td_steps=3, stack=stack)
    allowed = set(oracle.complete_rows(history, ROWS, length, plan))
    drawn = draws(replay, jax.random.split(jax.random.key(1), 400), 3, stack, 0.0)
    seen = set(places(drawn))
    assert seen <= allowed
    # In a full ring, rows too young for a whole stack behind them may be left out; no others.
    oldest = length - ROWS + stack - 1 if length > ROWS else 0
    assert seen >= {(t, n) for t, n in allowed if t >= oldest}
    for batch in np.asarray(drawn.times) * 2 + np.asarray(drawn.envs):
        assert len(set(batch.tolist())) == 3


def test_a_batch_can_take_every_row_once():
    history, replay = replay_of(15, seed=15)
    allowed = oracle.complete_rows(history, ROWS, 15, PLAN)
    drawn = draws(replay, jax.random.split(jax.random.key(0), 2), len(allowed), 4, 1.0)
    for one in range(2):
        batch = jax.tree.map(lambda x, one=one: x[one], drawn)
        assert sorted(places(batch)) == sorted(allowed)


@pytest.mark.parametrize("exponent", [0.0, 0.6, 1.0])
def test_frequencies_follow_the_priorities(exponent):
    history, replay = replay_of(70, seed=7)
    allowed = [(t, n) for t, n in oracle.complete_rows(history, ROWS, 70, PLAN) if t >= 53]
    number = 20_000
    drawn = draws(replay, jax.random.split(jax.random.key(2), number), 1, 4, exponent)
    priority = np.array([replay.priority[t % ROWS, n] for t, n in allowed], float)
    wanted = priority**exponent / np.sum(priority**exponent)
    got = places(drawn)
    counts = np.array([got.count(place) for place in allowed])
    assert counts.sum() == number
    # Pearson's statistic has mean d and standard deviation sqrt(2 d).
    freedom = len(allowed) - 1
    statistic = np.sum((counts - number * wanted) ** 2 / (number * wanted))
    assert statistic < freedom + 5 * np.sqrt(2 * freedom)


def test_pairs_come_as_if_drawn_one_after_the_other():
    history, replay = replay_of(70, seed=7)
    allowed = [(t, n) for t, n in oracle.complete_rows(history, ROWS, 70, PLAN) if t >= 53]
    number = 20_000
    drawn = draws(replay, jax.random.split(jax.random.key(3), number), 2, 4, 1.0)
    p = np.array([replay.priority[t % ROWS, n] for t, n in allowed], float)
    p /= p.sum()
    second = [
        [p[j] * p[i] / (1 - p[j]) if j != i else 0 for j in range(len(p))] for i in range(len(p))
    ]
    included = p + np.sum(second, axis=1)
    got = places(drawn)
    share = np.array([got.count(place) for place in allowed]) / number
    assert np.all(np.abs(share - included) < 5 * np.sqrt(included * (1 - included) / number))


@pytest.mark.parametrize("correction", [0.0, 0.4, 1.0])
def test_weights(correction):
    history, replay = replay_of(70, seed=8)
    allowed = [(t, n) for t, n in oracle.complete_rows(history, ROWS, 70, PLAN) if t >= 53]
    total = sum(float(replay.priority[t % ROWS, n]) ** 0.6 for t, n in allowed)
    drawn = draws(replay, jax.random.split(jax.random.key(4), 3), 5, 4, 0.6, correction)
    for one in range(3):
        batch = jax.tree.map(lambda x, one=one: x[one], drawn)
        p = np.array([float(replay.priority[t % ROWS, n]) ** 0.6 / total for t, n in places(batch)])
        weights = (len(allowed) * p) ** -correction
        assert np.allclose(batch.weights, weights / weights.max(), rtol=1e-5)


def test_with_priorities_sets_just_those():
    _, replay = replay_of(70, seed=9)
    chosen = Sample(jnp.array([55, 55, 69]), jnp.array([0, 1, 0]), jnp.ones(3))
    before = np.array(replay.priority)
    renewed = with_priorities(replay, chosen, jnp.array([7.0, 8.0, 9.0]))
    before[15, 0], before[15, 1], before[9, 0] = 7, 8, 9
    assert np.array_equal(renewed.priority, before)
    assert oracle.leaves_equal(renewed._replace(priority=0), replay._replace(priority=0))


def test_window_slots_hold_the_rows_behind():
    _, replay = replay_of(70, seed=9)
    chosen = Sample(jnp.array([53, 58, 64]), jnp.array([0, 1, 0]), jnp.ones(3))
    slots, envs = window_slots(replay, chosen, 5)
    assert slots.shape == envs.shape == (3, 6)
    wanted = np.array([[53], [58], [64]]) + np.arange(6)
    assert np.array_equal(np.asarray(row_times(replay))[np.asarray(slots)], wanted)
    assert np.array_equal(envs, np.array([[0], [1], [0]]) * np.ones(6))
