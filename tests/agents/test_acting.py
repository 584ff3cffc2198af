import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from delayzero.actions import ActionSpec
from delayzero.agents import Carry, Decision, PlanningAgent, RandomAgent, act, begin_acting
from delayzero.model import build_model
from delayzero.planning import Planner
from delayzero.settings import ModelConfig, SearchConfig

from ..made import no_queue, spaces_of
from ..training.small import stirred

ENVS, STACK, SIZE, ACTIONS = 3, 4, 2, 3
NONE = no_queue(ENVS)
SPACES = spaces_of((SIZE,), np.float32, ACTIONS)


@pytest.fixture(scope="module")
def agent():
    """A planner, its variables, and the compiled ways to act."""
    model = build_model(
        ModelConfig(latent=8, width=16, lstm=8, support=5), (SIZE,), ActionSpec(ACTIONS)
    )
    config = SearchConfig(simulations=2, dirichlet_fraction=0.5).resolved(ACTIONS)
    planner = Planner(model, config, discount=0.9, prefix_horizon=2)
    example = jnp.zeros((1, STACK, SIZE))
    variables = model.init(jax.random.key(0), example, jnp.zeros(1, jnp.int32), method="everything")
    calm = jax.jit(functools.partial(act, PlanningAgent(planner), explore=False))
    return planner, stirred(variables), calm


def test_stacks_belong_to_their_own_environments(agent):
    _, variables, calm = agent
    carry = begin_acting(PlanningAgent(agent[0]), ENVS, SPACES, STACK)
    assert carry.frames.shape == (ENVS, STACK, SIZE)
    assert not carry.frames.any()
    first = np.array([[1, 1, 1], [0, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 1], [1, 0, 0]], bool)
    frames = np.random.default_rng(0).normal(size=(6, ENVS, SIZE)).astype(np.float32)
    history = [[] for _ in range(ENVS)]
    for time in range(6):
        carry, _ = calm(variables, carry, frames[time], first[time], NONE, jax.random.key(time))
        for i in range(ENVS):
            if first[time, i]:
                history[i] = [frames[time, i]] * STACK
            else:
                history[i] = [*history[i][1:], frames[time, i]]
            np.testing.assert_array_equal(carry.frames[i], history[i])


def test_the_search_sees_the_stack(agent):
    planner, variables, calm = agent
    frames = np.random.default_rng(1).normal(size=(ENVS, SIZE)).astype(np.float32)
    old = jnp.asarray(np.random.default_rng(2).normal(size=(ENVS, STACK, SIZE)), jnp.float32)
    first, key = np.array([True, False, False]), jax.random.key(3)
    (stack, _), decision = calm(variables, Carry(old, ()), frames, first, NONE, key)
    found = decision.search

    @jax.jit
    def search(stack):
        latent = planner.model.bind(variables).represent(stack)
        return planner.search(variables, jax.random.split(key)[0], latent, explore=False)

    expected = search(stack)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    (changed, _), other = calm(variables, Carry(old + 1, ()), frames, first, NONE, key)
    same = np.asarray(found.network_value) == np.asarray(other.search.network_value)
    np.testing.assert_array_equal(same, first)
    np.testing.assert_array_equal(changed[0], stack[0])
    assert (np.asarray(changed)[1:, :-1] != np.asarray(stack)[1:, :-1]).all()


def test_without_exploring_the_key_does_not_matter(agent):
    _, variables, calm = agent
    carry = begin_acting(PlanningAgent(agent[0]), ENVS, SPACES, STACK)
    frames = np.random.default_rng(4).normal(size=(ENVS, SIZE)).astype(np.float32)
    first = np.ones(ENVS, bool)
    decisions = [
        calm(variables, carry, frames, first, NONE, jax.random.key(k))[1] for k in range(5)
    ]
    for other in decisions[1:]:
        np.testing.assert_array_equal(decisions[0].action, other.action)
        np.testing.assert_array_equal(decisions[0].search.policy, other.search.policy)


def test_at_random_the_action_alone_is_uniform(agent):
    _, variables, calm = agent
    carry = begin_acting(PlanningAgent(agent[0]), ENVS, SPACES, STACK)
    frames, first = np.ones((ENVS, SIZE), np.float32), np.ones(ENVS, bool)
    drawn = []
    for k in range(200):
        _, found = calm(variables, carry, frames, first, NONE, jax.random.key(k), at_random=True)
        drawn.append(np.asarray(found.action))
    counts = np.bincount(np.ravel(drawn), minlength=ACTIONS)
    assert len(counts) == ACTIONS
    assert (np.abs(counts - 200) < 5 * np.sqrt(200)).all()
    assert (np.array(drawn)[:, 0] != np.array(drawn)[:, 1]).any(), "each draws its own"
    # One program for both: two may round apart.
    _, decided = calm(variables, carry, frames, first, NONE, jax.random.key(199), at_random=False)
    assert len(np.unique(decided.action)) == 1
    for name in ("policy", "value", "network_value", "visits"):
        one, other = (getattr(decision.search, name) for decision in (found, decided))
        np.testing.assert_array_equal(one, other)


def test_stacks_keep_the_type_of_frames():
    spaces = spaces_of((4, 4, 1), np.uint8, ACTIONS)
    frames = begin_acting(RandomAgent(spaces.actions), 2, spaces, 3, latest=2).frames
    assert frames.dtype == np.uint8
    assert frames.shape == (2, 5, 4, 4, 1)


@dataclass(frozen=True)
class Watcher(RandomAgent):
    """Carries what it sees, and how often, since the beginning of an episode."""

    def init_state(self, num_envs):
        return jnp.zeros((num_envs, STACK)), jnp.zeros(num_envs, jnp.int32)

    def decide(self, variables, state, observed, key, *, explore, progress):
        steps = jnp.where(observed.first, 1, state[1] + 1)
        return (observed.stack[..., 0], steps), Decision(steps)


def test_an_agent_is_given_its_state_and_the_stack_as_it_was_when_it_arrived():
    agent, latest = Watcher(ActionSpec(9)), 3
    watch = jax.jit(functools.partial(act, agent, explore=False, latest=latest))
    carry = begin_acting(agent, 2, spaces_of((1,), np.float32, 9), STACK, latest)
    firsts = np.zeros((10, 2), bool)
    firsts[0], firsts[5, 1] = True, True
    shown = [[], []]
    for time in range(10):
        frames = np.array([[10.0 + time], [20.0 + time]], np.float32)
        age = np.minimum([time % 3, 2], [time, time - 5 * (time >= 5)])
        carry, decision = watch(
            *(None, carry, frames, firsts[time], no_queue(2), jax.random.key(0)), age=age
        )
        for i in range(2):
            shown[i] = [frames[i, 0]] if firsts[time, i] else [*shown[i], frames[i, 0]]
            arrived = shown[i][: len(shown[i]) - age[i]]
            wanted = ([arrived[0]] * STACK + arrived)[-STACK:]
            np.testing.assert_array_equal(carry.agent[0][i], wanted)
            assert int(decision.action[i]) == len(shown[i])
