"""The package's search and the plain tree, run on the same roots with the same noise."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from delayzero.planning import Planner, SearchResult

from . import oracle

CLEAR = 2e-5
"""The lead that a decision needs to be the same in float32 and in float64."""
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
"""Compilation takes most of the time of these tests."""


class Draws(NamedTuple):
    """The random numbers of one search, by the same splits of its key."""

    gumbel: np.ndarray
    """Added to the root's logits, ``[B, A]``."""
    dirichlet: np.ndarray
    """Mixed into the root's prior, ``[B, A]``."""
    action: np.ndarray
    """PUCT's choice, given the visits: by visits to the power of 1 / temperature, ``[B]``."""


@functools.lru_cache
def compiled(model, config, explore):
    """Compile a search that returns its result and its draws.

    All but the model's kind, the config and whether it explores can change from call to call.
    """

    def run(
        variables, key, latent, discount=0.9, prefix_horizon=5, invalid=None, temperature=1.0
    ) -> tuple[SearchResult, Draws]:
        planner = Planner(model, config, discount, prefix_horizon)
        result = planner.search(
            variables,
            key,
            latent,
            explore=explore,
            temperature=temperature,
            invalid_actions=invalid,
        )
        return result, draws(config, key, result.visits, temperature)

    return jax.jit(run, compiler_options=QUICK)


def draws(config, key, visits, temperature):
    batch, num_actions = visits.shape
    if config.method == "gumbel":
        search_key, noise_key = jax.random.split(key)
        gumbel = jax.random.gumbel(jax.random.split(search_key)[1], visits.shape)
        action = None
    else:
        action_key, search_key = jax.random.split(key)
        _, noise_key, _ = jax.random.split(search_key, 3)
        gumbel = None
        action = jax.random.categorical(action_key, jnp.log(visits) / temperature)
    noise = jnp.zeros(visits.shape)
    if config.dirichlet_fraction:
        alpha = jnp.full(num_actions, config.dirichlet_alpha)
        noise = jax.random.dirichlet(noise_key, alpha, (batch,))
    return Draws(gumbel, noise, action)


def plain_search(model, config, drawn, latents, explore, discount, prefix_horizon, invalid=None):
    """Search each root with the plain tree.

    Returns:
        For each root what was found, and the tree.
    """
    share = config.dirichlet_fraction if explore else 0.0
    results = []
    for i, latent in enumerate(latents):
        whole_tree = config.q_range == "tree"
        tree = oracle.Tree(model, discount, prefix_horizon, config.q_floor, whole_tree)
        noise = np.asarray(drawn.dirichlet[i], np.float64)
        mask = [False] * noise.size if invalid is None else invalid[i].tolist()
        if config.method == "gumbel":
            prior = np.asarray(oracle.softmax(model.predict(latent)[0]))
            found = oracle.gumbel_search(
                tree,
                latent,
                simulations=config.simulations,
                considered=config.considered_actions,
                gumbel=(np.asarray(drawn.gumbel[i], np.float64) * explore).tolist(),
                q_scale=config.q_scale,
                q_visits=config.q_visits,
                noisy_logits=np.log((1 - share) * prior + share * noise) if share else None,
                invalid=mask,
            )
        else:
            found = oracle.puct_search(
                tree,
                latent,
                simulations=config.simulations,
                c_init=config.c_init,
                c_base=config.c_base,
                noise=noise.tolist(),
                fraction=share,
                invalid=mask,
            )
            if explore:
                found = found._replace(action=int(drawn.action[i]))
        if config.value == "policy":
            found = found._replace(value=oracle.value_under(tree, found.policy))
        results.append((found, tree))
    return results


def compare(result, plain):
    """Check all roots whose plain search had no near tie; return how many that were."""
    checked = 0
    for i, (found, tree) in enumerate(plain):
        if tree.margin < CLEAR:
            continue
        checked += 1
        assert result.visits[i].tolist() == found.visits
        np.testing.assert_allclose(result.value[i], found.value, atol=1e-5)
        np.testing.assert_allclose(result.network_value[i], tree.root.network_value, atol=1e-5)
        np.testing.assert_allclose(result.policy[i], found.policy, atol=1e-4)
        assert int(result.action[i]) == found.action
    return checked
