from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from delayzero.replay import (
    Sample,
    draw_uniformly,
    row_times,
    sample,
    window_slots,
    with_priorities,
)

from ..learning import oracle
from ..learning.oracle import Plan

ROWS = 20
PLAN = Plan(unroll=2, td_steps=3, stack=4)
LENGTHS = {"filling": 15, "just-full": 20, "one-over": 21, "wrapped": 70}


@partial(oracle.quick_jit, static_argnames=("batch", "exponent", "weights"))
def draws(replay, keys, batch, exponent, correction=0.4, weights="truncated"):
    """Independent batches, one for each key."""
    settings = {"ahead": 5, "exponent": exponent, "correction": correction}
    settings["weights"] = weights
    return jax.vmap(lambda key: sample(replay, key, batch, **settings))(keys)


def replay_of(length, seed=0, stack=4):
    history = oracle.random_history(seed=seed, num_envs=2, length=length)
    replay = oracle.filled(history, ROWS, length, stack=stack)
    priority = np.random.default_rng(seed).uniform(0.05, 3, replay.priority.shape)
    return history, replay._replace(priority=jnp.asarray(priority, jnp.float32))


def places(drawn):
    return list(zip(drawn.times.ravel().tolist(), drawn.envs.ravel().tolist(), strict=True))


@pytest.mark.parametrize("stack", [1, 4])
@pytest.mark.parametrize("name", LENGTHS)
def test_only_rows_with_their_whole_window_are_sampled(name, stack):
    length = LENGTHS[name]
    history, replay = replay_of(length, seed=length, stack=stack)
    plan = Plan(unroll=2, td_steps=3, stack=stack)
    allowed = set(oracle.complete_rows(history, ROWS, length, plan))
    drawn = draws(replay, jax.random.split(jax.random.key(1), 400), 3, 0.0)
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
    drawn = draws(replay, jax.random.split(jax.random.key(0), 2), len(allowed), 1.0)
    for one in range(2):
        batch = jax.tree.map(lambda x, one=one: x[one], drawn)
        assert sorted(places(batch)) == sorted(allowed)


@pytest.mark.parametrize("exponent", [0.0, 0.6, 1.0])
def test_frequencies_follow_the_priorities(exponent):
    history, replay = replay_of(70, seed=7)
    allowed = [(t, n) for t, n in oracle.complete_rows(history, ROWS, 70, PLAN) if t >= 53]
    number = 20_000
    drawn = draws(replay, jax.random.split(jax.random.key(2), number), 1, exponent)
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
    drawn = draws(replay, jax.random.split(jax.random.key(3), number), 2, 1.0)
    p = np.array([replay.priority[t % ROWS, n] for t, n in allowed], float)
    p /= p.sum()
    second = [
        [p[j] * p[i] / (1 - p[j]) if j != i else 0 for j in range(len(p))] for i in range(len(p))
    ]
    included = p + np.sum(second, axis=1)
    got = places(drawn)
    share = np.array([got.count(place) for place in allowed]) / number
    assert np.all(np.abs(share - included) < 5 * np.sqrt(included * (1 - included) / number))


def importance(replay, allowed, drawn, exponent, correction, kind):
    """Weights by their definition, one row after the other."""
    total = sum(float(replay.priority[t % ROWS, n]) ** exponent for t, n in allowed)
    chosen = places(drawn)
    share = [float(replay.priority[t % ROWS, n]) ** exponent / total for t, n in chosen]
    if kind == "relative":
        weights = [(len(allowed) * p) ** -correction for p in share]
        return np.array(weights) / max(weights)
    ratios = [min(len(chosen) * p, 1) / (len(chosen) / len(allowed)) for p in share]
    return np.array([min(1, ratio**-correction) for ratio in ratios])


@pytest.mark.parametrize("kind", ["truncated", "relative"])
@pytest.mark.parametrize("correction", [0.0, 0.4, 1.0])
def test_weights(correction, kind):
    history, replay = replay_of(70, seed=8)
    allowed = [(t, n) for t, n in oracle.complete_rows(history, ROWS, 70, PLAN) if t >= 53]
    time, env = allowed[3]
    replay = replay._replace(priority=replay.priority.at[time % ROWS, env].set(40.0))
    drawn = draws(replay, jax.random.split(jax.random.key(4), 3), 5, 0.6, correction, kind)
    for one in range(3):
        batch = jax.tree.map(lambda x, one=one: x[one], drawn)
        wanted = importance(replay, allowed, batch, 0.6, correction, kind)
        assert np.allclose(batch.weights, wanted, rtol=1e-5)


@pytest.mark.parametrize("priority", [0.0, 1e-6, 1.0, np.inf])
def test_equal_priorities_weigh_alike_and_all_rows_are_drawn(priority):
    history, replay = replay_of(70, seed=8)
    allowed = {(t, n) for t, n in oracle.complete_rows(history, ROWS, 70, PLAN) if t >= 53}
    replay = replay._replace(priority=jnp.full_like(replay.priority, priority))
    drawn = draws(replay, jax.random.split(jax.random.key(5), 200), 5, 0.6, 1.0)
    assert np.allclose(drawn.weights, 1, atol=1e-5)
    assert set(places(drawn)) == allowed


def test_one_infinite_priority_is_in_every_batch_and_harms_no_other():
    history, replay = replay_of(70, seed=8)
    allowed = [(t, n) for t, n in oracle.complete_rows(history, ROWS, 70, PLAN) if t >= 53]
    time, env = allowed[3]
    replay = replay._replace(priority=replay.priority.at[time % ROWS, env].set(np.inf))
    drawn = draws(replay, jax.random.split(jax.random.key(6), 200), 5, 0.6, 1.0)
    weights = np.asarray(drawn.weights)
    assert np.isfinite(weights).all()
    infinite = (np.asarray(drawn.times) == time) & (np.asarray(drawn.envs) == env)
    assert infinite.any(axis=1).all()
    assert np.allclose(weights[infinite], 5 / len(allowed), rtol=1e-4)
    assert np.all(weights[~infinite] == 1)
    assert set(places(drawn)) == set(allowed)


def test_a_row_without_priority_does_not_make_others_weigh_less():
    history, replay = replay_of(70, seed=8)
    allowed = [(t, n) for t, n in oracle.complete_rows(history, ROWS, 70, PLAN) if t >= 53]
    time, env = allowed[3]
    replay = replay._replace(priority=jnp.ones_like(replay.priority).at[time % ROWS, env].set(1e-6))
    weights = {}
    for kind in ("truncated", "relative"):
        drawn = draws(replay, jax.random.split(jax.random.key(7), 1), len(allowed), 0.6, 1.0, kind)
        weights[kind] = np.asarray(drawn.weights)
    assert weights["truncated"].min() > 0.8
    assert np.sort(weights["relative"].ravel())[-2] < 0.001


def test_rows_are_drawn_uniformly_among_those_that_are_usable():
    usable = jnp.array([[True, False, True], [False, False, True]])
    slots, envs = draw_uniformly(jax.random.key(0), usable, 30_000)
    counts = np.zeros((2, 3))
    np.add.at(counts, (np.asarray(slots), np.asarray(envs)), 1)
    assert np.all(counts[~np.asarray(usable)] == 0)
    assert np.all(np.abs(counts[np.asarray(usable)] - 10_000) < 5 * np.sqrt(10_000 * 2 / 3))
    nothing = draw_uniformly(jax.random.key(0), jnp.zeros((2, 3), bool), 4)
    assert all(x.shape == (4,) for x in nothing)


def test_with_priorities_sets_just_those():
    _, replay = replay_of(70, seed=9)
    chosen = Sample(jnp.array([55, 55, 69]), jnp.array([0, 1, 0]), jnp.ones(3))
    before = np.array(replay.priority)
    renewed = with_priorities(replay, chosen, jnp.array([7.0, 8.0, 9.0]))
    before[15, 0], before[15, 1], before[9, 0] = 7, 8, 9
    assert np.array_equal(renewed.priority, before)
    assert oracle.leaves_equal(renewed._replace(priority=0), replay._replace(priority=0))


def test_one_priority_for_several_rows_is_refused():
    _, replay = replay_of(70, seed=9)
    chosen = Sample(jnp.array([55, 55, 69]), jnp.array([0, 1, 0]), jnp.ones(3))
    for wrong in (jnp.ones(1), jnp.ones((3, 1))):
        with pytest.raises(AssertionError, match="different shapes"):
            with_priorities(replay, chosen, wrong)
    with pytest.raises(AssertionError, match="rank compatibility"):
        sample(replay, jax.random.key(0), 2, ahead=5, exponent=0.6, correction=jnp.ones(2))


def test_window_slots_hold_the_rows_behind():
    _, replay = replay_of(70, seed=9)
    chosen = Sample(jnp.array([53, 58, 64]), jnp.array([0, 1, 0]), jnp.ones(3))
    slots, envs = window_slots(replay, chosen, 5)
    assert slots.shape == envs.shape == (3, 6)
    wanted = np.array([[53], [58], [64]]) + np.arange(6)
    assert np.array_equal(np.asarray(row_times(replay))[np.asarray(slots)], wanted)
    assert np.array_equal(envs, np.array([[0], [1], [0]]) * np.ones(6))
