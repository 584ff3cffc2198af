"""The agent that observes its queue: every part sees the queue of its own row."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from delayzero.actions import Queue
from delayzero.agents import Carry, PlanningAgent, act
from delayzero.planning import Planner
from delayzero.settings import SearchConfig

from ..learning.oracle import ACTIONS, emptied, random_queues, random_variables, small_model
from ..made import queue_of

BATCH, STACK, QUEUE = 4, 2, 3
MODEL = small_model(sees_queue=True)
SEARCH = SearchConfig(simulations=4).resolved(ACTIONS)
AGENT = PlanningAgent(Planner(MODEL, SEARCH, discount=0.9, prefix_horizon=2), queue_width=QUEUE)
KEY = jax.random.key(3)
decide = jax.jit(functools.partial(act, AGENT, explore=False))


@pytest.fixture(scope="module")
def variables():
    return random_variables(MODEL, jnp.zeros((1, STACK, 3)), queue=QUEUE)


@pytest.fixture(scope="module")
def seen():
    return jax.random.normal(jax.random.key(1), (BATCH, STACK, 3))


@jax.jit
def policy(variables, stack, queue):
    model = MODEL.bind(variables)
    return model.predict(model.represent(stack, queue)).policy_logits


def test_a_decision_is_that_of_a_search_that_knows_the_queue(variables, seen):
    queue = random_queues(0, BATCH, QUEUE)
    assert len({tuple(queue.row(i)) for i in range(BATCH)}) == BATCH
    first = np.zeros(BATCH, bool)
    (stack, _), decision = decide(variables, Carry(seen, ()), seen[:, -1], first, queue, KEY)
    found = decision.search

    @jax.jit
    def search(stack, queue):
        latent = MODEL.bind(variables).represent(stack, queue)
        return AGENT.planner.search(variables, jax.random.split(KEY)[0], latent, explore=False)

    expected = search(stack, queue)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    empty = search(stack, emptied(queue))
    assert not np.allclose(found.network_value, empty.network_value, atol=1e-3)


def test_a_decision_depends_on_the_queue_of_its_own_environment_alone(variables, seen):
    queue, first = random_queues(0, BATCH, QUEUE), np.zeros(BATCH, bool)
    assert queue.mask[2, 0]
    other = Queue(queue.action.copy(), queue.mask)
    other.action[2, 0] = (other.action[2, 0] + 1) % ACTIONS
    decisions = [
        decide(variables, Carry(seen, ()), seen[:, -1], first, q, KEY)[1] for q in (queue, other)
    ]
    values = [np.asarray(decision.search.network_value) for decision in decisions]
    np.testing.assert_array_equal(values[0] != values[1], np.arange(BATCH) == 2)


@pytest.mark.parametrize("length", [1, QUEUE])
def test_each_action_of_the_first_queue_is_decided_behind_those_before_it(length, variables, seen):
    plan = jax.jit(functools.partial(AGENT.first_queue, length=length, explore=False))
    planned = np.asarray(plan(variables, seen, KEY))
    assert planned.shape == (BATCH, length)
    for k in range(length):
        before = np.full((BATCH, QUEUE), ACTIONS)
        before[:, :k] = planned[:, :k]
        best = np.argmax(policy(variables, seen, queue_of(before, ACTIONS)), axis=-1)
        np.testing.assert_array_equal(planned[:, k], best)


def test_in_self_play_the_first_queue_is_drawn_from_the_policy(variables, seen):
    count = 4000
    plan = jax.jit(functools.partial(AGENT.first_queue, length=2, explore=True))
    drawn = np.asarray(plan(variables, jnp.repeat(seen[:1], count, axis=0), KEY))
    for k, before in ((0, []), (1, [0])):
        drawn = drawn[drawn[:, 0] == 0] if k else drawn
        queue = queue_of([before + [ACTIONS] * (QUEUE - k)], ACTIONS)
        shares = np.bincount(drawn[:, k], minlength=ACTIONS) / len(drawn)
        expected = jax.nn.softmax(policy(variables, seen[:1], queue))[0]
        np.testing.assert_allclose(shares, expected, atol=4 * 0.5 / np.sqrt(len(drawn)))
