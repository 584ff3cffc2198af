import jax
import jax.numpy as jnp
import numpy as np
import pytest

from delayzero.actions import ActionSpec
from delayzero.agents.planning import PlanningAgent, temperature
from delayzero.model import build_model
from delayzero.planning import Planner, plan_queue, roll
from delayzero.settings import ModelConfig, SearchConfig

from ..made import no_queue, queue_of
from ..training.small import stirred

ACTIONS, BATCH, SIZE = 3, 6, 4
NONE = ACTIONS


@pytest.fixture(scope="module")
def made():
    """A model, its variables, latents, and what they were encoded from."""
    model = build_model(
        ModelConfig(latent=8, width=16, lstm=8, support=5), (SIZE,), ActionSpec(ACTIONS)
    )
    seen = jax.random.normal(jax.random.key(1), (BATCH, 1, SIZE))
    action = jnp.zeros(BATCH, jnp.int32)
    variables = stirred(model.init(jax.random.key(0), seen, action, method="everything"))
    return model, variables, model.bind(variables).represent(seen), seen


QUEUES = np.array(
    [
        [0, 1, 2, 1],
        [2, 2, 0, NONE],
        [1, 0, NONE, NONE],
        [2, NONE, NONE, NONE],
        [NONE, NONE, NONE, NONE],
        [1, 1, 1, 1],
    ]
)


def stepwise(model, variables, latent, queue):
    """One latent after another, one action after another."""
    rolled = []
    for one, actions in zip(latent, queue, strict=True):
        for action in actions:
            if action != NONE:
                one = model.bind(variables).step(one[None], jnp.array([action]))[0]
        rolled.append(one)
    return jnp.stack(rolled)


@pytest.mark.parametrize("rows", [slice(None), slice(2, 5), slice(4, 5)], ids=["all", "2", "0"])
def test_each_latent_is_rolled_through_its_own_queue(made, rows):
    model, variables, latent, _ = made
    queue = queue_of(QUEUES[rows], NONE)
    rolled = jax.jit(lambda v, x, q: roll(model, v, x, q))(variables, latent[rows], queue)
    expected = stepwise(model, variables, latent[rows], QUEUES[rows])
    np.testing.assert_allclose(rolled, expected, rtol=1e-4, atol=1e-5)
    empty = (QUEUES[rows] == NONE).all(axis=1)
    np.testing.assert_array_equal(rolled[empty], latent[rows][empty], "left alone, to the bit")


def test_without_queues_nothing_is_done(made):
    model, _, latent, _ = made
    assert roll(model, None, latent, no_queue(BATCH)) is latent


def test_a_queue_of_another_batch_is_refused():
    with pytest.raises(AssertionError, match="shape prefixes"):
        roll(Counted(), None, jnp.zeros((BATCH, 2)), queue_of(QUEUES[:-1], NONE))
    with pytest.raises(AssertionError, match="rank compatibility"):
        roll(Counted(), None, jnp.zeros((BATCH, 2)), queue_of(QUEUES[0], NONE))


def test_a_choice_for_another_batch_is_refused():
    def choose(bound, state, key):
        return jnp.zeros((len(state), 1), jnp.int32)

    with pytest.raises(AssertionError, match="shape compatibility"):
        plan_queue(Counted(), None, jax.random.key(0), jnp.zeros((BATCH, 2)), 3, choose)


class Counted:
    """A model that tells a list of every step that it really takes."""

    def __init__(self):
        self.taken = []

    def bind(self, variables):
        return self

    def step(self, state, action):
        jax.debug.callback(lambda: self.taken.append(1))
        return state + 1


@pytest.mark.parametrize("longest", [0, 1, 2, 4])
def test_no_more_steps_are_taken_than_the_longest_queue_has(longest):
    queue = np.where(np.arange(4) < np.array([[longest], [0], [longest // 2]]), 1, NONE)
    model = Counted()
    rolled = jax.jit(lambda q: roll(model, None, jnp.zeros((3, 2)), q))(queue_of(queue, NONE))
    jax.effects_barrier()
    assert len(model.taken) == longest
    np.testing.assert_array_equal(rolled[:, 0], [longest, 0, longest // 2])


def test_a_planned_queue_is_drawn_from_the_policy_along_its_way(made):
    model, variables, latent, seen = made
    agent = PlanningAgent(Planner(model, SearchConfig().resolved(ACTIONS), 0.9, 5))
    greedy = agent.first_queue(variables, seen, jax.random.key(0), 5, explore=False)
    state = latent
    for k in range(5):
        logits = model.bind(variables).predict(state).policy_logits
        np.testing.assert_array_equal(greedy[:, k], jnp.argmax(logits, -1))
        state = model.bind(variables).step(state, greedy[:, k])
    many = jnp.repeat(seen[:1], 4000, axis=0)
    drawn = agent.first_queue(variables, many, jax.random.key(1), 2, explore=True)
    policy = jax.nn.softmax(model.bind(variables).predict(latent[:1]).policy_logits)[0]
    shares = np.bincount(np.asarray(drawn[:, 0]), minlength=ACTIONS) / 4000
    np.testing.assert_allclose(shares, policy, atol=4 * 0.5 / np.sqrt(4000))
    pairs = np.corrcoef(drawn[:-1, 0], drawn[1:, 0])[0, 1]
    assert abs(pairs) < 4 / np.sqrt(4000), "each draws its own"


@pytest.mark.parametrize(
    ("progress", "expected"),
    [(0.0, 1.0), (0.5, 1.0), (0.51, 0.5), (0.75, 0.5), (0.8, 0.25), (1, 0.25)],
)
def test_the_temperature_falls_with_the_share_of_self_play(progress, expected):
    assert float(temperature(progress)) == expected
