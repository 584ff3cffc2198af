"""Rewards as differences of value prefixes that begin again every so many steps."""

import jax
import jax.numpy as jnp
import mctx
import numpy as np
import pytest

from delayzero.planning import Planner
from delayzero.settings import SearchConfig

from .runs import QUICK
from .toys import HashModel, TableModel

STATES, ACTIONS = 7, 3


def tables(seed):
    """A random world; rewards are eighths, so their sums are exact."""
    rng = np.random.default_rng(seed)
    return {
        "successor": jnp.asarray(rng.integers(STATES, size=(STATES, ACTIONS))),
        "reward": jnp.asarray(rng.integers(-8, 9, size=(STATES, ACTIONS)) / 8, jnp.float32),
        "logits": jnp.asarray(4 * rng.normal(size=(STATES, ACTIONS)), jnp.float32),
        "value": jnp.asarray(rng.normal(size=STATES), jnp.float32),
    }


@pytest.mark.parametrize("horizon", [1, 2, 3, 5, 20])
def test_steps_one_after_another_have_their_own_rewards(horizon):
    world, rng = tables(horizon), np.random.default_rng(horizon)
    planner = Planner(TableModel(), SearchConfig(), 0.5, horizon)
    expand, key = jax.jit(planner.expand), jax.random.key(0)
    states = np.array([0, 3, 5])
    node = planner._root(world, TableModel.roots(states)).embedding
    since = 0.0
    for step in range(1, 13):
        actions = rng.integers(ACTIONS, size=3)
        rewards = np.asarray(world["reward"])[states, actions]
        states = np.asarray(world["successor"])[states, actions]
        output, node = expand(world, key, jnp.asarray(actions), node)
        np.testing.assert_array_equal(output.reward, rewards)
        np.testing.assert_array_equal(output.discount, [0.5] * 3)
        np.testing.assert_array_equal(output.value, np.asarray(world["value"])[states])
        np.testing.assert_array_equal(output.prior_logits, np.asarray(world["logits"])[states])
        since = 0.0 if step % horizon == 0 else since + rewards
        # What the children go on from: nothing at all where a prefix has ended.
        np.testing.assert_array_equal(node.prefix, np.broadcast_to(since, 3))
        np.testing.assert_array_equal(node.memory[0][:, 0], np.broadcast_to(since, 3))
        np.testing.assert_array_equal(node.memory[1], np.full((3, 1), step % horizon))
        np.testing.assert_array_equal(node.age, [step % horizon] * 3)


def test_roots_at_different_ages_restart_at_different_steps():
    planner = Planner(HashModel(ACTIONS), SearchConfig(), 0.5, 3)
    seed, key = np.uint32(1), jax.random.key(0)
    root = planner._root(seed, np.arange(3, dtype=np.uint32)).embedding
    node = root._replace(age=jnp.array([0, 1, 2]), prefix=jnp.array([0.0, 1.0, 2.0]))
    output, child = planner.expand(seed, key, jnp.zeros(3, jnp.int32), node)
    fresh, _ = planner.expand(seed, key, jnp.zeros(3, jnp.int32), root)
    assert child.age.tolist() == [1, 2, 0]
    np.testing.assert_array_equal(np.asarray(child.prefix) != 0, [True, True, False])
    np.testing.assert_array_equal(np.asarray(child.memory[0][:, 0]), [1, 1, 0])
    np.testing.assert_allclose(output.reward, fresh.reward - node.prefix, atol=1e-6)


def test_memory_keeps_its_type():
    model = HashModel(ACTIONS)
    planner = Planner(model, SearchConfig(), 0.5, 1)
    root = planner._root(np.uint32(1), np.arange(3, dtype=np.uint32)).embedding
    half = root._replace(memory=jax.tree.map(lambda m: m.astype(jnp.bfloat16), root.memory))
    _, child = planner.expand(np.uint32(1), jax.random.key(0), jnp.zeros(3, jnp.int32), half)
    same = jax.eval_shape(lambda: model.value_prefix(root.latent, half.memory)[1])
    assert [m.dtype for m in child.memory] == [m.dtype for m in same]


def test_all_edges_of_a_tree_have_the_rewards_of_their_steps():
    world, starts = tables(0), np.array([0, 3, 5])

    def grown(horizon):
        # The trees of a search are not handed out, so this one is grown here.
        planner = Planner(TableModel(), SearchConfig(), 0.9, horizon)
        root = planner._root(world, TableModel.roots(starts))
        output = mctx.gumbel_muzero_policy(world, jax.random.key(0), root, planner.expand, 80)
        return output.search_tree

    grown = jax.jit(grown, compiler_options=QUICK)
    for horizon in (1, 2, 5):
        tree = jax.tree.map(np.asarray, grown(horizon))
        for i, start in enumerate(starts):
            states, depths = {0: start}, {0: 0}
            for index in range(1, 81):
                parent, action = tree.parents[i, index], tree.action_from_parent[i, index]
                reward = world["reward"][states[parent], action]
                assert tree.children_rewards[i, parent, action] == reward
                states[index] = int(world["successor"][states[parent], action])
                depths[index] = depths[parent] + 1
                assert tree.embeddings.age[i, index] == depths[index] % horizon
            assert max(depths.values()) > 5
