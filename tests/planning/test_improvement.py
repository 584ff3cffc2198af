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


def random_world(seed):
    """A deterministic world, its optimal Q ``[S, A]``, and tables with uniform priors."""
    rng = np.random.default_rng(seed)
    successor = rng.integers(STATES, size=(STATES, ACTIONS))
    reward = rng.uniform(-1, 1, size=(STATES, ACTIONS))
    value = np.zeros(STATES)
    for _ in range(300):
        q = reward + DISCOUNT * value[successor]
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
