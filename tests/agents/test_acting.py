import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from delayzero.agents import PlanningAgent, act, first_stack
from delayzero.model import build_model
from delayzero.planning import Planner
from delayzero.settings import ModelConfig, SearchConfig

from ..training.small import stirred

ENVS, STACK, SIZE, ACTIONS = 3, 4, 2, 3
NONE = np.zeros((ENVS, 0), np.int32)


@pytest.fixture(scope="module")
def agent():
    """A planner, its variables, and the compiled ways to act."""
    model = build_model(ModelConfig(latent=8, width=16, memory=8, support=5), (SIZE,), ACTIONS)
    config = SearchConfig(simulations=2, dirichlet_fraction=0.5).resolved(ACTIONS)
    planner = Planner(model, config, discount=0.9, prefix_horizon=2)
    example = jnp.zeros((1, STACK, SIZE))
    variables = model.init(jax.random.key(0), example, jnp.zeros(1, jnp.int32), method="everything")
    calm = jax.jit(functools.partial(act, PlanningAgent(planner), explore=False))
    return planner, stirred(variables), calm


def test_stacks_belong_to_their_own_environments(agent):
    _, variables, calm = agent
    stack = first_stack(ENVS, STACK, (SIZE,), np.float32)
    assert stack.shape == (ENVS, STACK, SIZE)
    assert not stack.any()
    first = np.array([[1, 1, 1], [0, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 1], [1, 0, 0]], bool)
    frames = np.random.default_rng(0).normal(size=(6, ENVS, SIZE)).astype(np.float32)
    history = [[] for _ in range(ENVS)]
    for time in range(6):
        stack, _ = calm(variables, stack, frames[time], first[time], NONE, jax.random.key(time))
        for i in range(ENVS):
            if first[time, i]:
                history[i] = [frames[time, i]] * STACK
            else:
                history[i] = [*history[i][1:], frames[time, i]]
            np.testing.assert_array_equal(stack[i], history[i])


def test_the_search_sees_the_stack(agent):
    planner, variables, calm = agent
    frames = np.random.default_rng(1).normal(size=(ENVS, SIZE)).astype(np.float32)
    old = jnp.asarray(np.random.default_rng(2).normal(size=(ENVS, STACK, SIZE)), jnp.float32)
    first, key = np.array([True, False, False]), jax.random.key(3)
    stack, found = calm(variables, old, frames, first, NONE, key)

    @jax.jit
    def search(stack):
        latent = planner.model.bind(variables).represent(stack)
        return planner.search(variables, jax.random.split(key)[0], latent, explore=False)

    expected = search(stack)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    changed, other = calm(variables, old + 1, frames, first, NONE, key)
    same = np.asarray(found.network_value) == np.asarray(other.network_value)
    np.testing.assert_array_equal(same, first)
    np.testing.assert_array_equal(changed[0], stack[0])
    assert (np.asarray(changed)[1:, :-1] != np.asarray(stack)[1:, :-1]).all()


def test_without_exploring_the_key_does_not_matter(agent):
    _, variables, calm = agent
    stack = first_stack(ENVS, STACK, (SIZE,), np.float32)
    frames = np.random.default_rng(4).normal(size=(ENVS, SIZE)).astype(np.float32)
    first = np.ones(ENVS, bool)
    found = [calm(variables, stack, frames, first, NONE, jax.random.key(k))[1] for k in range(5)]
    for other in found[1:]:
        np.testing.assert_array_equal(found[0].action, other.action)
        np.testing.assert_array_equal(found[0].policy, other.policy)


def test_at_random_the_action_alone_is_uniform(agent):
    _, variables, calm = agent
    stack = first_stack(ENVS, STACK, (SIZE,), np.float32)
    frames, first = np.ones((ENVS, SIZE), np.float32), np.ones(ENVS, bool)
    drawn = []
    for k in range(200):
        _, found = calm(variables, stack, frames, first, NONE, jax.random.key(k), at_random=True)
        drawn.append(np.asarray(found.action))
    counts = np.bincount(np.ravel(drawn), minlength=ACTIONS)
    assert len(counts) == ACTIONS
    assert (np.abs(counts - 200) < 5 * np.sqrt(200)).all()
    assert (np.array(drawn)[:, 0] != np.array(drawn)[:, 1]).any(), "each draws its own"
    # One program for both: two may round apart.
    _, decided = calm(variables, stack, frames, first, NONE, jax.random.key(199), at_random=False)
    assert len(np.unique(decided.action)) == 1
    for name in ("policy", "value", "network_value", "visits"):
        np.testing.assert_array_equal(getattr(found, name), getattr(decided, name))


def test_stacks_keep_the_type_of_frames():
    stack = first_stack(2, 3, (4, 4, 1), np.uint8)
    assert stack.dtype == np.uint8
    assert stack.shape == (2, 3, 4, 4, 1)
