"""The scaling of Q by hand, and what its floor is for."""

import jax
import jax.numpy as jnp
import mctx
import numpy as np
import pytest

from delayzero.planning.qtransforms import completed_by_mixed_value, filled_by_node_value
from delayzero.settings import SearchConfig

from .runs import compiled
from .toys import TableModel

LOGITS = np.log([[0.5, 0.25, 0.25], [0.2, 0.3, 0.5], [1 / 3] * 3])
VISITS = np.array([[3, 1, 0], [2, 0, 0], [0, 0, 0]])
REWARDS = np.array([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
VALUES = np.array([[2.0, 4.0, 0.0], [-4.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
NETWORK = np.array([0.5, 1.5, 2.5])
MEANS = np.array([1.2, -0.6, 2.5])
# With a discount of 0.5, Q is 2 and 2 at node 0, -3 at node 1, nothing at node 2.
MIXED_0 = (0.5 + 4 * (0.5 * 2 + 0.25 * 2) / 0.75) / 5
MIXED_1 = (1.5 + 2 * -3) / 3


def hand_made_tree():
    """Three nodes of three actions; numbers that stand where nothing was tried mean nothing."""
    untried = VISITS == 0
    zeros = jnp.zeros((3, 3), jnp.int32)
    return mctx.Tree(
        node_visits=jnp.array([5, 3, 1]),
        raw_values=jnp.asarray(NETWORK),
        node_values=jnp.asarray(MEANS),
        parents=zeros[0],
        action_from_parent=zeros[0],
        children_index=zeros,
        children_prior_logits=jnp.asarray(LOGITS),
        children_values=jnp.asarray(np.where(untried, 99.0, VALUES)),
        children_visits=jnp.asarray(VISITS),
        children_rewards=jnp.asarray(np.where(untried, -77.0, REWARDS)),
        children_discounts=jnp.full((3, 3), 0.5),
        embeddings=None,
        root_invalid_actions=zeros[0],
        extra_data=None,
    )


@pytest.mark.parametrize(
    ("node", "q"),
    [(0, [2, 2, MIXED_0]), (1, [-3, MIXED_1, MIXED_1]), (2, [2.5, 2.5, 2.5])],
)
@pytest.mark.parametrize("whole_tree", [True, False], ids=["tree", "node"])
@pytest.mark.parametrize("floor", [0.01, 20.0])
def test_completed_by_mixed_value(node, q, whole_tree, floor):
    known = [*q, 2, 2, -3] if whole_tree else q
    scaled = (np.array(q) - min(known)) / max(max(known) - min(known), floor)
    weight = 0.3 * (7 + VISITS[node].max())
    found = jax.jit(
        lambda tree, node: completed_by_mixed_value(
            tree, node, whole_tree=whole_tree, floor=floor, scale=0.3, visit_offset=7.0
        )
    )(hand_made_tree(), node)
    np.testing.assert_allclose(found, weight * scaled, atol=1e-5)


@pytest.mark.parametrize(
    ("node", "q"), [(0, [2, 2, 1.2]), (1, [-3, -0.6, -0.6]), (2, [2.5, 2.5, 2.5])]
)
@pytest.mark.parametrize("whole_tree", [True, False], ids=["tree", "node"])
@pytest.mark.parametrize("floor", [0.01, 20.0])
def test_filled_by_node_value(node, q, whole_tree, floor):
    known = [*q, 2, 2, -3] if whole_tree else q
    scaled = (np.array(q) - min(known)) / max(max(known) - min(known), floor)
    found = jax.jit(
        lambda tree, node: filled_by_node_value(tree, node, whole_tree=whole_tree, floor=floor)
    )(hand_made_tree(), node)
    np.testing.assert_allclose(found, scaled, atol=1e-6)


def nearly_equal_actions():
    """Four actions that lead to four states for good; one of them is better by 0.0001."""
    value = [0.0, 0.0, 1e-4, 0.0, 0.0]
    logits = np.zeros((5, 4))
    logits[0] = np.log([0.4, 0.3, 0.2, 0.1])
    return {
        "successor": jnp.asarray([[1, 2, 3, 4], *([s] * 4 for s in range(1, 5))]),
        "reward": jnp.zeros((5, 4)),
        "logits": jnp.asarray(logits, jnp.float32),
        "value": jnp.asarray(value, jnp.float32),
    }


def test_differences_below_the_floor_leave_the_prior_alone():
    world, start = nearly_equal_actions(), TableModel.roots([0, 0, 0])
    prior = np.array([0.4, 0.3, 0.2, 0.1])
    policies = {}
    for name, config in {
        "floor": SearchConfig(simulations=16),
        "stretched": SearchConfig(simulations=16, q_range="node", q_floor=1e-8),
    }.items():
        search = compiled(TableModel(), config.resolved(4), False)
        result, _ = search(world, jax.random.key(0), start, 1.0)
        policies[name] = np.asarray(result.policy[0])
    np.testing.assert_allclose(policies["floor"], prior, atol=0.02)
    # The same numbers stretched to [0, 1]: noise becomes a confident policy.
    assert policies["stretched"].max() > 0.95
    assert policies["stretched"].argmax() == 1
