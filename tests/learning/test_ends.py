"""A model that predicts the ends of returns, and is unrolled over lost lives."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from delayzero.learning.health import measure_health
from delayzero.learning.leads import lead_queues
from delayzero.learning.loss import efficientzero_loss
from delayzero.replay import Sample, Targets, Transitions, append, create

from ..made import spaces_of
from . import oracle

ROWS, LENGTH, STACK, LONGEST = 48, 60, 2, 6
LEARNER = oracle.small_learner(ends="predicted", batch_size=12, unroll=3)
KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def history():
    return oracle.random_history(seed=3, length=LENGTH)


@pytest.fixture(scope="module")
def stored(history):
    return oracle.filled(history, ROWS, LENGTH, stack=STACK)


@pytest.fixture(scope="module")
def begin():
    return oracle.first_state(LEARNER, jnp.zeros((1, STACK, 3)))


@pytest.fixture(scope="module")
def batch(begin, stored):
    return oracle.quick_jit(LEARNER.batch)(begin, stored, KEY)[1]


@oracle.quick_jit
def probabilities(variables, batch):
    """Of an end in each unrolled step, ``[B, K]``."""
    model = LEARNER.planner.model.bind(variables)
    latent, found = model.represent(batch.observation), []
    for k in range(batch.action.shape[1]):
        latent = model.step(latent, batch.action[:, k])
        found.append(jax.nn.sigmoid(model.predict(latent).end_logits))
    return jnp.stack(found, axis=1)


def test_the_loss_of_ends_is_that_of_the_steps_that_were_taken(batch, begin):
    found = np.asarray(probabilities(begin.variables, batch), np.float64)
    losses = np.zeros(len(found))
    for b, k in np.ndindex(found.shape):
        if batch.alive[b, k]:
            losses[b] -= np.log(found[b, k] if batch.ended[b, k] else 1 - found[b, k])
    assert np.sum(batch.ended & batch.alive[:, :-1]) > 0
    assert not batch.alive.all()

    @oracle.quick_jit
    def loss(weight):
        config = replace(LEARNER.config)
        object.__setattr__(config, "end_weight", weight)
        return efficientzero_loss(LEARNER.planner.model, begin.variables, batch, config)

    (none, output), (some, _) = loss(0.0), loss(0.7)
    assert output.metrics["loss/ends"] == pytest.approx(losses.mean(), rel=1e-4)
    added = 0.7 * np.mean(losses * np.asarray(batch.weight)) / LEARNER.config.unroll
    assert some - none == pytest.approx(added, rel=1e-3)


def test_a_batch_without_ends_is_refused(batch, begin):
    with pytest.raises(AssertionError, match="predicts ends"):
        jax.eval_shape(LEARNER.gradients, begin.variables, batch._replace(ended=None))


def test_leads_cross_lost_lives_but_not_starts(history, stored):
    plan = oracle.Plan(unroll=2, td_steps=2, stack=STACK)
    rows = oracle.complete_rows(history, ROWS, LENGTH, plan)
    times, envs = (np.array(column, np.int32) for column in zip(*rows, strict=True))
    sample, wanted = Sample(times, envs, np.ones(len(rows))), np.full(len(rows), LONGEST)
    queue = lead_queues(stored, sample, wanted, LONGEST, predicts_ends=True)
    crossed = shortened = 0
    for b, (time, env) in enumerate(rows):
        episode, i = history.find(time, env)
        oldest = LENGTH - ROWS + STACK - 1
        way = [row for row in episode[:i] if row.time >= max(oldest, time - LONGEST)]
        assert queue.row(b) == [row.action for row in way]
        crossed += any(row.terminated for row in way)
        shortened += len(way) < LONGEST and way[:1] == episode[:1]
    assert crossed > 5
    assert shortened > 5


@pytest.mark.slow
def test_the_learner_passes_its_model_on(stored, begin):
    learner = replace(LEARNER, leads=6, longest_lead=LONGEST)
    state, _, metrics = oracle.quick_jit(learner.update)(begin, stored, KEY, 2)
    assert state.failed < 0
    assert metrics["loss/ends"] > 0
    old, new = (s.variables["params"]["prediction"]["ends"] for s in (begin, state))
    assert not oracle.leaves_equal(old, new)


def test_recall_is_the_share_of_likely_ends(history, stored, batch, begin):
    learner = replace(LEARNER, config=replace(LEARNER.config, batch_size=1000))
    plan = oracle.Plan(unroll=3, td_steps=2, stack=STACK)
    rows = oracle.complete_rows(history, ROWS, LENGTH, plan)
    rows = [(t, n) for t, n in rows if t >= LENGTH - ROWS + STACK - 1]
    stacks, actions, ends = [], [], []
    for time, env in rows:
        episode, i = history.find(time, env)
        stacks.append(oracle.stack_at(episode, i, STACK))
        steps = [*episode[i : i + 3], *[None] * 3][:3]
        actions.append([0 if row is None else row.action for row in steps])
        ends.append([row is not None and row.terminated for row in steps])
    batch = batch._replace(observation=jnp.array(stacks), action=jnp.array(actions))
    likely = np.asarray(probabilities(begin.variables, batch))
    shift = np.log(1 / np.median(likely[np.array(ends)]) - 1)  # half of the ends become likely
    variables = jax.tree.map(lambda x: x, begin.variables)
    bias = variables["params"]["prediction"]["ends"]["Perceptron_0"]["Linear_1"]
    bias["bias"] = bias["bias"] + shift
    share = np.mean(np.asarray(probabilities(variables, batch))[np.array(ends)] >= 0.5)
    assert 0.3 < share < 0.7

    @oracle.quick_jit
    def measure(replay):
        return measure_health(learner, begin._replace(variables=variables), replay, KEY)

    assert measure(stored)["health/end_recall"] == pytest.approx(share, abs=0.05)
    endless = jnp.zeros_like(stored.transitions.terminated)
    transitions = stored.transitions._replace(terminated=endless)
    assert np.isnan(measure(stored._replace(transitions=transitions))["health/end_recall"])


PLACES, SAFE, DEADLY = 4, 0, 1
WORTH = 5.0
"""The value of every place, as the stored targets have it."""


def lives():
    """A circle of places; each step pays 1, but a deadly one pays nothing and leads to the start.

    A lost life looks exactly like the start of the game.
    """
    grid = (100, 4)
    rng = np.random.default_rng(0)
    action = np.where(rng.random(grid) < 0.25, DEADLY, SAFE)
    place, no = np.zeros(grid, int), np.zeros(grid, bool)
    for t in range(1, len(place)):
        place[t] = np.where(action[t - 1] == DEADLY, 0, (place[t - 1] + 1) % PLACES)
    rows = Transitions(
        first=np.arange(100)[:, None] + np.zeros(grid) == 0,
        final=no,
        action=action.astype(np.int32),
        reward=(action == SAFE).astype(np.float32),
        terminated=action == DEADLY,
        truncated=no,
    )
    targets = Targets(
        policy=np.full((*grid, oracle.ACTIONS), 1 / oracle.ACTIONS, np.float32),
        search_value=np.full(grid, WORTH, np.float32),
        network_value=np.full(grid, WORTH, np.float32),
        made_at=np.zeros(grid, np.int32),
    )
    empty = create(*grid, spaces_of((PLACES,), np.float32, oracle.ACTIONS))
    return append(empty, np.eye(PLACES, dtype=np.float32)[place], rows, targets)


@pytest.mark.parametrize("ends", ["predicted", pytest.param("absorbing", marks=pytest.mark.slow)])
def test_a_new_life_has_its_value_and_losing_one_has_none(ends):
    """Where the state after the end absorbs, it cannot be that of the new life as well."""
    settings = {"optimiser": "adam", "learning_rate": 1e-2, "batch_size": 32, "unroll": 3}
    learner = oracle.small_learner(ends=ends, td_steps=1, **settings)
    state = oracle.first_state(learner, jnp.zeros((1, 1, PLACES)))
    state, _, _ = oracle.quick_jit(learner.update)(state, lives(), KEY, 400)
    model, planner = learner.planner.model.bind(state.variables), learner.planner

    def value(latent):
        return float(model.support.decode(model.predict(latent).value_logits)[0])

    def q(latent, action):
        node = planner._root(state.variables, latent).embedding
        output, child = planner.expand(state.variables, KEY, jnp.array([action]), node)
        return float((output.reward + output.discount * output.value)[0]), child.latent

    start, third = (model.represent(jnp.eye(PLACES)[None, None, i]) for i in (0, 2))
    safe, _ = q(third, SAFE)
    deadly, new_life = q(third, DEADLY)
    assert safe > 3.5
    assert deadly < 1
    assert value(start) > 2.5
    later = model.step(new_life, jnp.array([SAFE]))
    worth = [value(new_life) > 2.5, value(later) > 2.5]
    assert all(worth) == (ends == "predicted"), worth
