"""Search in small worlds that the model knows: it finds what is best."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from delayzero.settings import SearchConfig

from .runs import compiled
from .toys import TableModel

DISCOUNT = 0.8
STATES, ACTIONS = 6, 4


def random_world(seed, discount=DISCOUNT):
    """A deterministic world, its optimal Q ``[S, A]``, and tables with uniform priors."""
    rng = np.random.default_rng(seed)
    successor = rng.integers(STATES, size=(STATES, ACTIONS))
    reward = rng.uniform(-1, 1, size=(STATES, ACTIONS))
    value = np.zeros(STATES)
    for _ in range(300):
        q = reward + discount * value[successor]
        value = q.max(-1)
    tables = {
        "successor": jnp.asarray(successor),
        "reward": jnp.asarray(reward, jnp.float32),
        "logits": jnp.zeros((STATES, ACTIONS)),
        "value": jnp.asarray(value, jnp.float32),
    }
    return tables, q


@pytest.mark.parametrize("method", ["gumbel", "puct"])
def test_with_true_values_the_best_action_is_found(method):
    config = SearchConfig(method, simulations=16, considered_actions=4).resolved(ACTIONS)
    search = compiled(TableModel(), config, False)
    for seed in range(5):
        tables, q = random_world(seed)
        starts = TableModel.roots(np.arange(STATES))
        result, _ = search(tables, jax.random.key(seed), starts, DISCOUNT)
        clear = np.diff(np.sort(q), axis=-1)[:, -1] > 0.5
        np.testing.assert_array_equal(result.action[clear], q.argmax(-1)[clear])
        np.testing.assert_array_equal(np.argmax(result.policy, -1)[clear], q.argmax(-1)[clear])
        np.testing.assert_allclose(result.network_value, q.max(-1), atol=1e-5)
        # No return is above the truth, and the policy is better than the prior.
        assert np.all(np.asarray(result.value) <= q.max(-1) + 1e-5)
        assert np.all((np.asarray(result.policy) * q).sum(-1) > q.mean(-1))


@pytest.mark.parametrize(("value", "is_right"), [("policy", True), ("visits", False)])
def test_searches_that_learn_from_each_other_reach_the_truth(value, is_right):
    """Each search bootstraps with what the last one found, as targets do.

    The visits of a Gumbel search are divided among the actions that it considers. Their mean is
    the value of a policy that errs, in every search again.
    """
    search = compiled(TableModel(), SearchConfig(value=value).resolved(ACTIONS), False)
    states = TableModel.roots(np.arange(STATES))
    errors = []
    for seed in range(3):
        tables, q = random_world(seed)
        tables["value"] = jnp.zeros(STATES)
        for _ in range(60):
            result, _ = search(tables, jax.random.key(0), states, DISCOUNT)
            tables["value"] = result.value
            tables["logits"] = jnp.maximum(jnp.log(result.policy), -8)
        errors.append(np.mean(result.value - q.max(-1)))
        best = np.all(np.sum(result.policy * q, -1) > q.max(-1) - 0.1)
        assert best or not is_right
    if is_right:
        np.testing.assert_allclose(errors, 0, atol=0.02)
    else:
        assert np.max(errors) < -0.5


def test_without_values_more_simulations_come_closer_to_the_truth():
    errors, regrets = [], []
    for simulations in (16, 128):
        config = SearchConfig("puct", simulations=simulations).resolved(ACTIONS)
        search = compiled(TableModel(), config, False)
        error, regret = [], []
        for seed in range(5):
            tables, q = random_world(seed)
            tables["value"] = jnp.zeros(STATES)
            starts = TableModel.roots(np.arange(STATES))
            result, _ = search(tables, jax.random.key(seed), starts, DISCOUNT)
            error.append(np.abs(result.value - q.max(-1)))
            regret.append(q.max(-1) - q[np.arange(STATES), result.action])
        errors.append(np.mean(error))
        regrets.append(np.mean(regret))
    assert errors[0] > 1.3 * errors[1]
    assert regrets[0] > regrets[1]
