"""The search against a plain Python tree: same visits, values, policies and actions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from delayzero.model import ModelConfig, build_model
from delayzero.planning import Planner, SearchConfig

from .runs import compare, compiled, plain_search
from .toys import HashModel, PlainHashModel

BATCH = 3
DISCOUNT = 0.9
SEEDS = range(4)

CASES = {
    "gumbel-3-16": (3, SearchConfig(simulations=16)),
    "gumbel-3-50": (3, SearchConfig(simulations=50, considered_actions=3)),
    "gumbel-6-16": (6, SearchConfig(simulations=16, q_scale=0.3, q_visits=10.0)),
    "gumbel-6-50": (6, SearchConfig(simulations=50, considered_actions=6, q_range="node")),
    "gumbel-18-16": (18, SearchConfig(simulations=16, dirichlet_fraction=0.5)),
    "gumbel-18-50": (18, SearchConfig(simulations=50, q_floor=20.0)),
    "puct-3-16": (3, SearchConfig("puct", simulations=16, dirichlet_alpha=1.0)),
    "puct-3-50": (3, SearchConfig("puct")),
    "puct-6-16": (6, SearchConfig("puct", simulations=16, q_range="node")),
    "puct-6-50": (6, SearchConfig("puct", c_base=20.0, c_init=0.7)),
    "puct-18-16": (18, SearchConfig("puct", simulations=16, dirichlet_fraction=0.6)),
    "puct-18-50": (18, SearchConfig("puct", q_floor=20.0)),
}


def settings(name):
    num_actions, config = CASES[name]
    return num_actions, config.resolved(num_actions)


def roots(seed):
    return np.random.default_rng(seed).integers(2**32, size=BATCH, dtype=np.uint32)


def masks(seed, num_actions):
    """One mask that leaves all actions, one that leaves two, one that leaves half of them."""
    rng = np.random.default_rng(seed)
    orders = rng.permuted(np.tile(np.arange(num_actions), (BATCH, 1)), axis=-1)
    return orders >= np.array([[num_actions], [2], [(num_actions + 1) // 2]])


def drawn(key, visits, temperature):
    """PUCT's draw of an action: visits to the power of 1 / temperature."""
    with np.errstate(divide="ignore"):
        logits = np.log(np.asarray(visits, np.float64)) / temperature
    return jax.random.categorical(jax.random.split(key, 3)[0], jnp.asarray(logits, jnp.float32))


def check(name, explore, masked, horizons=(1, 2, 5)):
    num_actions, config = settings(name)
    search = compiled(HashModel(num_actions), config, explore)
    checked, deepest = 0, 0
    for seed in SEEDS:
        for horizon in horizons:
            key = jax.random.key(10 * seed + horizon)
            latents, invalid = roots(seed), masks(seed, num_actions) if masked else None
            temperature = 0.5 + seed / 2
            world = PlainHashModel(num_actions, 31 * seed)
            result = search(
                np.uint32(31 * seed), key, latents, DISCOUNT, horizon, invalid, temperature
            )
            plain = plain_search(
                world, config, key, latents, explore, DISCOUNT, horizon, invalid
            )
            sampling = config.method == "puct" and explore
            sampled = drawn(key, result.visits, temperature) if sampling else None
            checked += compare(result, plain, sampled)
            deepest = max(deepest, *(tree.depth() for _, tree in plain))
    assert checked > 0.8 * len(SEEDS) * len(horizons) * BATCH
    return deepest


@pytest.mark.parametrize("name", CASES)
def test_search_with_noise_is_that_of_the_plain_tree(name):
    deepest = check(name, explore=True, masked=False)
    # Deep enough to pass restarts: after two steps everywhere, after five in the long searches.
    assert deepest > (5 if name.endswith("-50") else 2)


@pytest.mark.parametrize("name", ["gumbel-6-16", "puct-6-16"])
def test_search_without_noise_is_that_of_the_plain_tree(name):
    check(name, explore=False, masked=False)


@pytest.mark.parametrize("name", ["gumbel-6-50", "gumbel-18-16", "puct-18-16"])
def test_search_with_masks_is_that_of_the_plain_tree(name):
    check(name, explore=True, masked=True)
