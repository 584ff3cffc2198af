"""Batches from a real replay against targets computed from lists of episodes."""

from dataclasses import replace
from functools import partial
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from delayzero.actions import Queue
from delayzero.learning.batch import assemble, window_targets
from delayzero.learning.targets import (
    alive_steps,
    cuts,
    prefix_targets,
    steps_by_age,
    value_targets,
)
from delayzero.replay import Sample, Transitions, episode_starts, stacked_frames

from . import oracle
from .oracle import Plan

PLANS = {
    "plain": Plan(),
    "stack4-network": Plan(stack=4, bootstrap="network", td_steps=2),
    "unroll-past-horizon": Plan(unroll=7, horizon=3, td_steps=1, stack=2),
    "age-rule": Plan(unroll=2, td_steps=5, td_age=20, horizon=1, stack=4),
    "predicted-ends": Plan(unroll=5, td_steps=3, horizon=3, stack=2, predicts_ends=True),
}
LENGTHS = {"not-full": 40, "just-full": 48, "wrapped": 200}
ROWS, ENVS = 48, 3


def sample_of(places):
    """All places, and the first again and again: one shape, one compilation."""
    filled = places + places[:1] * (ROWS * ENVS - len(places))
    times, envs = np.array(filled, np.int32).T
    weights = np.linspace(0.1, 1, len(filled), dtype=np.float32)
    return Sample(jnp.asarray(times), jnp.asarray(envs), jnp.asarray(weights))


@partial(oracle.quick_jit, static_argnames="plan")
def assembled(replay, sample, updates, plan):
    targets = window_targets(replay, sample, plan.config.window)
    get = {
        "discount": plan.discount,
        "updates": updates,
        "predicts_ends": plan.predicts_ends,
    }
    steps = np.tile(np.arange(plan.unroll), (ROWS * ENVS, 1))
    compared = np.random.default_rng(0).permuted(steps, axis=1)[:, :2]
    return assemble(replay, sample, targets, compared, plan.config, **get)


def make_batch(replay, sample, plan):
    return jax.tree.map(np.asarray, assembled(replay, sample, 7, plan))


@pytest.mark.parametrize("ring", LENGTHS)
@pytest.mark.parametrize("name", PLANS)
def test_batch_is_what_the_episodes_say(name, ring):
    plan, length = PLANS[name], LENGTHS[ring]
    history = oracle.random_history(seed=len(name) + length, num_envs=ENVS, length=length)
    replay = oracle.filled(history, ROWS, length, stack=plan.stack)
    places = oracle.complete_rows(history, ROWS, length, plan)
    assert len(places) > 50
    batch = make_batch(replay, sample_of(places), plan)
    kinds, steps_compared = set(), set()
    for b, (time, env) in enumerate(places):
        episode, i = history.find(time, env)
        steps = oracle.steps_for((length - time) * history.num_envs, plan)
        assert np.array_equal(batch.observation[b], oracle.stack_at(episode, i, plan.stack))
        assert batch.age[b] == 7 - episode[i].made_at
        for k in range(plan.unroll + 1):
            alive = oracle.is_alive(episode, i, k, plan.predicts_ends)
            taken = oracle.is_taken(episode, i, k, plan.predicts_ends)
            assert batch.alive[b, k] == alive
            kinds.add((alive, taken, steps))
            if alive:
                assert np.array_equal(batch.policy[b, k], episode[i + k].policy)
            if taken:
                wanted = oracle.value_target(episode, i, k, steps, plan)
                assert batch.value[b, k] == pytest.approx(wanted, abs=2e-6), (time, env, k)
            if alive and k < plan.unroll:
                assert batch.action[b, k] == episode[i + k].action
                wanted = oracle.prefix_target(episode, i, k, plan)
                assert batch.prefix[b, k] == pytest.approx(wanted, abs=2e-6), (time, env, k)
                if plan.predicts_ends:
                    assert batch.ended[b, k] == episode[i + k].terminated
        for step, stack in zip(batch.compared[b], batch.following[b], strict=True):
            if oracle.is_taken(episode, i, step + 1, plan.predicts_ends):
                wanted = oracle.stack_at(episode, i + step + 1, plan.stack)
                assert np.array_equal(stack, wanted)
                steps_compared.add(int(step))
    assert {kind[:2] for kind in kinds} == {(True, True), (False, True), (False, False)}
    if plan.td_age is not None:
        assert {kind[2] for kind in kinds} == {1, 2, 3, 4}
    assert np.array_equal(batch.weight, sample_of(places).weights)
    assert steps_compared == set(range(plan.unroll))
    assert batch.following.shape[1:3] == (2, plan.stack)


def test_queues_are_those_of_the_rows_themselves():
    plan = PLANS["plain"]
    history = oracle.random_history(seed=3, num_envs=ENVS, length=200)
    replay = oracle.filled(history, ROWS, 200)
    queues = oracle.random_queues(0, ROWS, ENVS, 2)
    stored = Queue(jnp.asarray(queues.action, jnp.int16), jnp.asarray(queues.mask))
    decisions = replay.decisions._replace(queue=stored)
    places = oracle.complete_rows(history, ROWS, 200, plan)
    batch = make_batch(replay._replace(decisions=decisions), sample_of(places), plan)
    assert batch.queue.mask.shape == (ROWS * ENVS, plan.unroll + 1, 2)
    for b, (time, env) in enumerate(places):
        rows = (time + np.arange(plan.unroll + 1)) % ROWS
        for column, wanted in zip(batch.queue, queues, strict=True):
            np.testing.assert_array_equal(column[b], wanted[rows, env])


def test_history_has_every_kind_of_end():
    history = oracle.random_history(seed=1, length=150)
    episodes = [episode for env in history.episodes for episode in env]
    rows = [row for episode in episodes for row in episode]
    assert min(map(len, episodes)) <= 2
    ends = {(row.terminated, row.truncated) for row in rows}
    assert ends == {(False, False), (True, False), (False, True), (True, True)}
    lost = [
        (before, after)
        for episode in episodes
        for before, after in pairwise(episode)
        if before.terminated and not after.final
    ]
    assert len(lost) > 5


@pytest.mark.parametrize("searched_since", [0, 7, 8])
def test_old_samples_learn_the_searched_value_late(searched_since):
    plan = Plan(bootstrap="network", mixed_value_after=searched_since, mixed_value_age=90)
    history = oracle.random_history(seed=5, length=48)
    replay = oracle.filled(history, ROWS, 48)
    places = oracle.complete_rows(history, ROWS, 48, plan)
    assert {(48 - t) * 3 for t, _ in places} >= {90, 93}
    mixed = make_batch(replay, sample_of(places), plan)
    plain = make_batch(replay, sample_of(places), replace(plan, mixed_value_after=None))
    for b, (time, env) in enumerate(places):
        episode, i = history.find(time, env)
        for k in range(plan.unroll + 1):
            old = (48 - time) * 3 > 90 and searched_since <= 7
            if old and oracle.is_alive(episode, i, k):
                assert mixed.value[b, k] == np.float32(episode[i + k].search_value)
            else:
                assert mixed.value[b, k] == plain.value[b, k]


def test_stacks_of_every_row_begin_with_the_episode():
    history = oracle.random_history(seed=2, length=90)
    replay = oracle.filled(history, ROWS, 90, stack=4)
    places = oracle.complete_rows(history, ROWS, 90, Plan(unroll=1, td_steps=1, stack=4))
    sample = sample_of(places)
    start = episode_starts(replay, sample.times, sample.envs)
    stacks = np.asarray(stacked_frames(replay, sample.times, sample.envs, start))
    repeated = 0
    for got, (time, env) in zip(stacks, places, strict=False):
        episode, i = history.find(time, env)
        assert np.array_equal(got, oracle.stack_at(episode, i, 4))
        repeated += i < 3
    assert 0 < repeated < len(places)


def test_windows_by_hand():
    # Step 1 ends the return by a lost life; step 3 is cut off; row 4 is the last observation.
    reward = jnp.array([[1.0, 2.0, 4.0, 8.0, 0.0, 64.0]])
    terminated = jnp.array([[0, 1, 0, 0, 0, 0]], bool)
    truncated = jnp.array([[0, 0, 0, 1, 0, 0]], bool)
    value = jnp.array([[10.0, 20.0, 30.0, 40.0, 50.0, 60.0]])
    fields = (reward, terminated, truncated, value)

    def targets(begin, steps, unroll):
        alive = alive_steps((terminated | truncated)[:, begin:], unroll)
        window = (x[:, begin:] for x in fields)
        return value_targets(*window, jnp.array([steps]), alive, discount=0.5)

    alive = alive_steps(terminated | truncated, 3)
    assert alive.tolist() == [[True, True, False, False]]
    assert targets(0, 2, unroll=3)[0, :3].tolist() == [2.0, 2.0, 0.0]
    assert targets(0, 1, unroll=3)[0, :3].tolist() == [11.0, 2.0, 0.0]
    cut = targets(2, 2, unroll=1)
    assert cut.tolist() == [[4 + 0.5 * 8 + 0.25 * 50, 8 + 0.5 * 50]]
    past = targets(3, 1, unroll=1)
    assert past.tolist() == [[8 + 0.5 * 50, 50.0]]
    assert prefix_targets(reward, alive, 5).tolist() == [[1.0, 3.0, 3.0]]
    assert prefix_targets(reward, alive, 1).tolist() == [[1.0, 2.0, 0.0]]


def test_windows_by_hand_where_ends_are_predicted():
    # Row 1 loses a life; row 3 is cut off, with row 4 as its last; row 6 ends, with row 7.
    flags = dict(first=[0, 5], final=[4, 7], terminated=[1, 6], truncated=[3])
    flags = {k: jnp.zeros((1, 10), bool).at[0, jnp.array(v)].set(True) for k, v in flags.items()}
    reward = jnp.array([[1.0, 2.0, 4.0, 8.0, 0.0, 16.0, 32.0, 0.0, 64.0, 0.0]])
    value = jnp.arange(10.0, 110.0, 10)[None]
    rows = Transitions(action=jnp.zeros((1, 10), int), reward=reward, **flags)
    cut = cuts(rows, axis=1, predicts_ends=True)
    assert np.flatnonzero(cut[0, :-1]).tolist() == [3, 6]
    assert np.flatnonzero(cuts(rows, axis=1, predicts_ends=False)).tolist() == [1, 3, 6]

    def targets(begin, unroll):
        alive = alive_steps(cut[:, begin:], unroll)
        fields = (x[:, begin:] for x in (reward, rows.terminated, rows.truncated, value))
        got = value_targets(*fields, jnp.array([2]), alive, discount=0.5)
        return alive[0].tolist(), got[0].tolist(), prefix_targets(reward[:, begin:], alive, 5)

    alive, got, prefix = targets(0, unroll=4)
    assert alive == [True, True, True, True, False]
    assert got == [2.0, 2.0, 4 + 0.5 * 8 + 0.25 * 50, 8 + 0.5 * 50, 50.0]
    assert prefix.tolist() == [[1.0, 3.0, 7.0, 15.0]]
    alive, got, prefix = targets(5, unroll=2)
    assert alive == [True, True, False]
    assert got == [16 + 0.5 * 32, 32.0, 0.0]


def test_an_episode_that_begins_anew_is_not_a_lost_life():
    """As after a run was resumed: the last row of the old episode has ended, but is not final."""
    flags = {name: jnp.zeros((1, 4), bool) for name in ("final", "truncated")}
    flags |= {"terminated": jnp.array([[0, 1, 0, 0]], bool), "first": jnp.array([[1, 0, 1, 0]]) > 0}
    rows = Transitions(action=jnp.zeros((1, 4), int), reward=jnp.zeros((1, 4)), **flags)
    assert cuts(rows, axis=1, predicts_ends=True).tolist() == [[False, True, False, False]]


def test_what_lies_past_an_end_may_even_be_undefined():
    reward = jnp.array([[1.0, 2.0, jnp.nan, jnp.nan, jnp.nan]])
    value = jnp.array([[1.0, 1.0, 3.0, jnp.nan, jnp.nan]])
    no, end = jnp.zeros((1, 5), bool), jnp.array([[0, 1, 0, 0, 0]], bool)
    for terminated, truncated, last in ((end, no, 0.0), (no, end, 3.0)):
        alive = alive_steps(terminated | truncated, 3)
        got = value_targets(
            reward, terminated, truncated, value, jnp.array([1]), alive, discount=1.0
        )
        assert got.tolist() == [[2.0, 2.0 + last, last, 0.0]]
        assert prefix_targets(reward, alive, 2).tolist() == [[1.0, 3.0, 0.0]]


FLAGS = jnp.zeros((2, 6), bool)
NUMBERS = jnp.ones((2, 6))


@pytest.mark.parametrize("wrong", [
    {"reward": NUMBERS[:1]},
    {"value": NUMBERS[0]},
    {"truncated": FLAGS[:, :1]},
    {"terminated": FLAGS.astype(jnp.int32)},  # ~0 is -1, which counts as True
    {"steps": jnp.int32(2)},
    {"alive": FLAGS[:, :4].astype(jnp.int32)},
])  # fmt: skip
def test_targets_of_a_wrong_shape_or_type_are_refused(wrong):
    fields = {"reward": NUMBERS, "terminated": FLAGS, "truncated": FLAGS, "value": NUMBERS}
    fields |= {"steps": jnp.full(2, 2), "alive": ~FLAGS[:, :4]}
    value_targets(**fields, discount=0.9)
    with pytest.raises(AssertionError, match="Chex"):
        value_targets(**{**fields, **wrong}, discount=0.9)


def test_prefixes_of_a_wrong_shape_or_type_are_refused():
    alive = jnp.ones((2, 4), bool)
    with pytest.raises(AssertionError, match="shape prefixes"):
        prefix_targets(NUMBERS[:1], alive, 5)
    with pytest.raises(AssertionError, match="type compatibility"):
        prefix_targets(NUMBERS, alive.astype(jnp.float32), 5)


def test_windows_of_another_length_are_refused():
    plan = Plan()
    replay = oracle.filled(oracle.random_history(seed=2, length=40), ROWS, 40)
    sample = Sample(jnp.arange(4), jnp.zeros(4, jnp.int32), jnp.ones(4))
    compared = jnp.zeros((4, 1), jnp.int32)

    def batch_of(window, compared):
        targets = window_targets(replay, sample, window)
        get = {"discount": plan.discount, "updates": jnp.int32(0)}
        return jax.eval_shape(
            lambda: assemble(replay, sample, targets, compared, plan.config, **get)
        )

    assert batch_of(plan.config.window, compared).value.shape == (4, plan.unroll + 1)
    for window, steps in (
        (plan.config.window + 1, compared),
        (plan.config.window, compared[:1]),
        (plan.config.window, compared[:, 0]),
    ):
        with pytest.raises(AssertionError, match="shape compatibility"):
            batch_of(window, steps)


def test_steps_by_age():
    age = jnp.array([0, 9, 10, 19, 20, 39, 40, 49, 50, 10_000])
    assert steps_by_age(age, 5, 10).tolist() == [5, 5, 4, 4, 3, 2, 1, 1, 1, 1]
    assert steps_by_age(age, 5, None).tolist() == [5] * 10
