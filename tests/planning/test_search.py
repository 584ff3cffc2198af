"""The search against a plain Python tree: same visits, values, policies and actions."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from delayzero.actions import ActionSpec
from delayzero.model import build_model
from delayzero.planning import Planner
from delayzero.settings import ModelConfig, SearchConfig

from .runs import compare, compiled, plain_search
from .toys import HashModel, PlainHashModel

BATCH = 3
DISCOUNT = 0.9
SEEDS = range(3)
HORIZONS = (1, 2, 5)

CASES = {
    "gumbel-3-50": (3, SearchConfig(simulations=50, considered_actions=3, value="visits")),
    "gumbel-6-16": (6, SearchConfig(q_scale=0.3, q_visits=10.0)),
    "gumbel-18-16": (18, SearchConfig(dirichlet_fraction=0.3)),
    "gumbel-18-50": (18, SearchConfig(simulations=50, q_floor=4.0)),
    "puct-3-50": (3, SearchConfig("puct", dirichlet_alpha=1.0, value="visits")),
    "puct-6-16": (6, SearchConfig("puct", simulations=16, c_base=20.0, c_init=0.7)),
    "puct-18-50": (18, SearchConfig("puct", q_floor=4.0, dirichlet_fraction=0.4)),
}
NOISELESS = {
    "gumbel-6-16": (6, SearchConfig(considered_actions=6, q_range="node", value="visits")),
    "gumbel-6-16-policy": (6, SearchConfig()),
    "puct-6-16": (6, SearchConfig("puct", simulations=16, q_range="node")),
}


def roots(seed):
    return np.random.default_rng(seed).integers(2**32, size=BATCH, dtype=np.uint32)


def masks(seed, num_actions):
    """One mask that leaves all actions, one that leaves two, one that leaves half of them."""
    rng = np.random.default_rng(seed)
    places = rng.permuted(np.tile(np.arange(num_actions), (BATCH, 1)), axis=-1)
    return places >= np.array([[num_actions], [2], [(num_actions + 1) // 2]])


def check(num_actions, config, explore, masked, ends=False):
    """Compare searches of several worlds with the plain tree's; return the greatest depth."""
    config = config.resolved(num_actions)
    search = compiled(HashModel(num_actions, ends=ends), config, explore)
    checked, deepest = 0, 0
    for seed in SEEDS:
        for horizon in HORIZONS:
            world = 31 * seed + horizon
            key, latents = jax.random.key(world), roots(world)
            invalid = masks(world, num_actions) if masked else None
            temperature = 0.5 + seed / 2
            variables = np.uint32(world)
            result, drawn = search(variables, key, latents, DISCOUNT, horizon, invalid, temperature)
            plain = plain_search(
                PlainHashModel(num_actions, world, ends),
                config,
                drawn,
                latents,
                explore,
                DISCOUNT,
                horizon,
                invalid,
            )
            checked += compare(result, plain)
            deepest = max(deepest, *(tree.depth() for _, tree in plain))
    assert checked > 0.7 * len(SEEDS) * len(HORIZONS) * BATCH
    return deepest


@pytest.mark.parametrize("name", CASES)
def test_search_with_noise_and_masks_is_that_of_the_plain_tree(name):
    num_actions, config = CASES[name]
    deepest = check(num_actions, config, explore=True, masked=True)
    # Deep enough to pass restarts: every second step at least, every fifth in narrow trees.
    assert deepest > (5 if num_actions == 3 else 2)


@pytest.mark.parametrize("name", NOISELESS)
def test_search_without_noise_and_masks_is_that_of_the_plain_tree(name):
    check(*NOISELESS[name], explore=False, masked=False)


@pytest.mark.parametrize("name", ["gumbel-6-16", "puct-6-16"])
def test_search_with_predicted_ends_is_that_of_the_plain_tree(name):
    check(*CASES[name], explore=True, masked=True, ends=True)


class PlainNetworks:
    """A world model asked for one state at a time."""

    def __init__(self, model, variables):
        bound, self.support = model.bind(variables), model.support
        self._predict = jax.jit(bound.predict)
        self._step = jax.jit(bound.step)
        self._prefix = jax.jit(bound.value_prefix)
        self._empty = bound.initial_memory(1)

    def predict(self, latent):
        prediction = self._predict(latent[None])
        value = self.support.decode(prediction.value_logits)
        return np.asarray(prediction.policy_logits[0], np.float64).tolist(), float(value[0])

    def step(self, latent, action):
        return self._step(latent[None], jnp.array([action]))[0]

    def end(self, latent):
        logits = self._predict(latent[None]).end_logits
        return 0.0 if logits is None else float(jax.nn.sigmoid(logits[0]))

    def prefix(self, latents):
        memory = self._empty
        for latent in latents:
            logits, memory = self._prefix(latent[None], memory)
        return float(self.support.decode(logits)[0])


def small_model(key, ends):
    """Networks with random parameters, also in the last layers, which begin as zeros."""
    config = ModelConfig(latent=8, width=8, lstm=8, support=5, ends=ends)
    model = build_model(config, (4,), ActionSpec(3))
    observation = jax.random.normal(key, (BATCH, 1, 4))
    init = functools.partial(model.init, method="everything")
    shapes = jax.eval_shape(init, key, observation, jnp.zeros(BATCH, jnp.int32))
    rng = np.random.default_rng(0)
    params = jax.tree.map(lambda x: rng.normal(0, 0.5, x.shape).astype("f"), shapes["params"])
    variables = {"params": params}
    represent = jax.jit(lambda v, x: model.bind(v).represent(x))
    return model, variables, represent(variables, observation)


@pytest.mark.parametrize("ends", ["absorbing", "predicted"])
def test_search_with_networks_is_that_of_the_plain_tree(ends):
    model, variables, latents = small_model(jax.random.key(1), ends)
    config = SearchConfig(simulations=16).resolved(3)
    result, drawn = compiled(model, config, True)(
        variables, jax.random.key(2), latents, DISCOUNT, 2
    )
    networks = PlainNetworks(model, variables)
    plain = plain_search(networks, config, drawn, list(latents), True, DISCOUNT, 2)
    assert compare(result, plain) >= 2
    # The comparison means nothing if the networks say the same of all states.
    assert np.ptp([node.reward for _, tree in plain for node in tree.nodes]) > 0.1
    assert min(tree.depth() for _, tree in plain) > 2


@pytest.mark.parametrize("wrong", [
    {"invalid_actions": jnp.zeros((BATCH, 4), bool)},
    {"invalid_actions": jnp.zeros(3, bool)},
    {"temperature": jnp.ones(BATCH)},
])  # fmt: skip
def test_a_wrong_shape_is_refused(wrong):
    planner = Planner(HashModel(3), SearchConfig(simulations=2).resolved(3), DISCOUNT, 5)
    latent = jnp.zeros(BATCH, jnp.uint32)

    def search(latent, **options):
        return planner.search(np.uint32(0), jax.random.key(0), latent, explore=True, **options)

    assert jax.eval_shape(search, latent).policy.shape == (BATCH, 3)
    with pytest.raises(AssertionError, match=r"rank compatibility|same shape|shapes"):
        jax.eval_shape(search, latent, **wrong)


def test_a_latent_without_a_batch_is_refused():
    model = build_model(ModelConfig(kind="conv"), (10, 10, 4), ActionSpec(3))
    example = jnp.zeros((1, 1, 10, 10, 4)), jnp.zeros(1, jnp.int32)
    init = functools.partial(model.init, method="everything")
    variables = jax.eval_shape(init, jax.random.key(0), *example)
    planner = Planner(model, SearchConfig(simulations=2).resolved(3), DISCOUNT, 5)
    search = functools.partial(planner.search, explore=True)
    latent = jnp.zeros((5, 5, 32))
    with pytest.raises(AssertionError, match="rank compatibility"):
        jax.eval_shape(search, variables, jax.random.key(0), latent)
