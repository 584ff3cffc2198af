"""The package's search and the plain tree, run on the same roots with the same noise."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from delayzero.planning import Planner

from . import oracle

CLEAR = 5e-5
"""The lead that a decision needs to be the same in float32 and in float64."""


@functools.lru_cache
def compiled(model, config, explore):
    """A search where all but the model's class, the config and noise may change at each call."""

    def run(variables, key, latent, discount, prefix_horizon, invalid=None, temperature=1.0):
        planner = Planner(model, config, discount, prefix_horizon)
        return planner.search(
            variables,
            key,
            latent,
            explore=explore,
            temperature=temperature,
            invalid_actions=invalid,
        )

    return jax.jit(run)


def noise_of_gumbel(config, key, logits, explore):
    """What one search draws: Gumbel noise ``[B, A]``, and the noisy logits or None."""
    shape = logits.shape
    if not explore:
        return np.zeros(shape), None
    search_key, noise_key = jax.random.split(key)
    gumbel = jax.random.gumbel(jax.random.split(search_key)[1], shape)
    if not config.dirichlet_fraction:
        return np.asarray(gumbel), None
    noise = dirichlet(config, noise_key, shape)
    prior = np.asarray(jax.nn.softmax(logits))
    share = config.dirichlet_fraction
    return np.asarray(gumbel), np.log((1 - share) * prior + share * noise)


def dirichlet(config, key, shape):
    alpha = jnp.full(shape[-1], config.dirichlet_alpha)
    return np.asarray(jax.random.dirichlet(key, alpha, shape[:-1]))


def plain_search(model, config, key, latents, explore, discount, prefix_horizon, invalid=None):
    """Search each root with the plain tree.

    Returns:
        For each root what was found, and the tree.
    """
    logits = np.asarray([model.predict(latent)[0] for latent in latents], np.float32)
    if config.method == "gumbel":
        gumbel, noisy = noise_of_gumbel(config, key, logits, explore)
    else:
        noise = dirichlet(config, jax.random.split(key, 3)[1], logits.shape)
    results = []
    for i, latent in enumerate(latents):
        whole_tree = config.q_range == "tree"
        tree = oracle.Tree(model, discount, prefix_horizon, config.q_floor, whole_tree)
        mask = None if invalid is None else [bool(x) for x in invalid[i]]
        if config.method == "gumbel":
            found = oracle.gumbel_search(
                tree,
                latent,
                simulations=config.simulations,
                considered=config.considered_actions,
                gumbel=gumbel[i].tolist(),
                q_scale=config.q_scale,
                q_visits=config.q_visits,
                noisy_logits=None if noisy is None else noisy[i].tolist(),
                invalid=mask,
            )
        else:
            found = oracle.puct_search(
                tree,
                latent,
                simulations=config.simulations,
                c_init=config.c_init,
                c_base=config.c_base,
                noise=noise[i].tolist(),
                fraction=config.dirichlet_fraction if explore else 0.0,
                invalid=mask,
            )
        results.append((found, tree))
    return results


def compare(result, plain, sampled=None):
    """Check all roots whose plain search had no near tie.

    Args:
        result: Of the package's search.
        plain: Of the plain one.
        sampled: PUCT while exploring: what the action should be, given the visits ``[B]``.

    Returns:
        How many roots were checked.
    """
    checked = 0
    for i, (found, tree) in enumerate(plain):
        if tree.margin < CLEAR:
            continue
        checked += 1
        assert result.visits[i].tolist() == found.visits
        np.testing.assert_allclose(result.value[i], found.value, atol=1e-5)
        np.testing.assert_allclose(result.network_value[i], tree.root.network_value, atol=1e-6)
        np.testing.assert_allclose(result.policy[i], found.policy, atol=1e-4)
        assert result.action[i] == (found.action if sampled is None else sampled[i])
    return checked
