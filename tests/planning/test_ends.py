"""Predicted ends: nothing after a certain end counts, and an impossible one changes nothing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from delayzero.planning import Planner
from delayzero.settings import SearchConfig

from .runs import QUICK
from .toys import TableModel

SAFE, DEADLY = 0, 1
GAMMA = 0.5
METHODS = ("gumbel", "puct")


def world(end):
    """State 0 leads to state 1 (safe) or 2 (deadly, reward 0.25), which lead to themselves."""
    return {
        "successor": jnp.array([[1, 2], [1, 1], [2, 2]]),
        "reward": jnp.array([[0.0, 0.25], [1.0, 1.0], [1.0, 1.0]]),
        "logits": jnp.zeros((3, 2)),
        "value": jnp.array([1.0, 2.0, 2.0]),
        **({} if end is None else {"end": jnp.array([-jnp.inf, -jnp.inf, end])}),
    }


def search(tables, method):
    config = SearchConfig(method, simulations=8).resolved(2)
    planner = Planner(TableModel(), config, GAMMA, 5)

    def run(tables):
        key, roots = jax.random.key(0), TableModel.roots([0])
        return planner.search(tables, key, roots, explore=False)

    return jax.jit(run, compiler_options=QUICK)(tables)


@pytest.mark.parametrize("method", METHODS)
def test_an_impossible_end_changes_nothing(method):
    plain, impossible = search(world(None), method), search(world(-jnp.inf), method)
    for one, other in zip(plain, impossible, strict=True):
        assert np.array_equal(one, other)
    assert plain.policy[0, DEADLY] > 0.5, "without an end its reward makes it the better action"


@pytest.mark.parametrize("method", METHODS)
def test_after_a_certain_end_only_its_reward_counts(method):
    result = search(world(jnp.inf), method)
    safe, deadly = result.policy[0, SAFE], result.policy[0, DEADLY]
    # Both states are worth 2, found or foreseen.
    assert result.value[0] == pytest.approx(safe * GAMMA * 2.0 + deadly * 0.25)
    assert min(result.visits[0, SAFE], result.visits[0, DEADLY]) > 0
    assert result.policy[0, SAFE] > 0.5


def test_a_certain_end_is_a_state_without_value():
    """The same search as where the state after the end is worth nothing and pays nothing."""
    absorbing = world(None)
    absorbing["value"] = absorbing["value"].at[2].set(0.0)
    absorbing["reward"] = absorbing["reward"].at[2].set(0.0)
    predicted = world(jnp.inf)
    predicted["reward"] = absorbing["reward"]
    one, other = search(absorbing, "puct"), search(predicted, "puct")
    assert np.array_equal(one.visits, other.visits)
    assert one.value[0] == pytest.approx(float(other.value[0]))


def test_the_discount_of_an_edge():
    tables = world(jnp.log(3.0))  # a probability of 3/4
    planner = Planner(TableModel(), SearchConfig(), GAMMA, 5)
    node = planner._root(tables, TableModel.roots([0, 0])).embedding
    output, _ = planner.expand(tables, jax.random.key(0), jnp.array([SAFE, DEADLY]), node)
    assert output.discount.tolist() == pytest.approx([GAMMA, GAMMA / 4])
