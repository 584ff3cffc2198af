"""Tree search with a learned model: Gumbel and PUCT, two settings of one function.

The tree is mctx's. What is added here: rewards from value prefixes, whose bookkeeping travels in
the embedding of a node, and the scaling of Q over the whole tree with a floor
(:mod:`delayzero.planning.qtransforms`).

Differences from EfficientZero's own PUCT, all deliberate:

1. The prior counts from a node's first visit on (EfficientZero's first choice is random).
2. An action not yet tried has the value of its node (EfficientZero passes a mean Q down the path).
3. The root's value counts the network's value once, as every other node's does.
4. The range of Q is that of the edges themselves (EfficientZero mixes up siblings' prefixes).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import mctx
from jax import Array

from delayzero.model import Memory, WorldModel
from delayzero.planning.qtransforms import completed_by_mixed_value, filled_by_node_value
from delayzero.settings import SearchConfig

Variables = Any
"""Parameters and statistics of a model, as flax keeps them."""


class SearchResult(NamedTuple):
    """What a search found, for each of ``B`` roots."""

    action: Array
    """The decision, ``[B]``."""
    policy: Array
    """The improved policy, a target for the network's, ``[B, A]``."""
    value: Array
    """The mean of the network's value and all returns found below the root, ``[B]``."""
    network_value: Array
    """The network's value of the root, ``[B]``."""
    visits: Array
    """How often each action of the root was tried, ``[B, A]``."""


class Node(NamedTuple):
    """A node's embedding: its latent, and where it stands in its value prefix."""

    latent: Array
    memory: Memory
    prefix: Array
    """The value prefix predicted up to here since the last restart, ``[B]``."""
    age: Array
    """Steps since the last restart, ``[B]``."""


@dataclass(frozen=True)
class Planner:
    """Searches with a model.

    Attributes:
        model: The world model.
        config: How to search, resolved.
        discount: Of the problem, per step.
        prefix_horizon: After so many steps a value prefix starts again from zero, as in training.
    """

    model: WorldModel
    config: SearchConfig
    discount: float
    prefix_horizon: int

    def search(
        self,
        variables: Variables,
        key: Array,
        latent: Array,
        *,
        explore: bool,
        temperature: Array | float = 1.0,
        invalid_actions: Array | None = None,
    ) -> SearchResult:
        """Search from latents.

        Args:
            variables: The model's.
            key: A random key.
            latent: The roots, ``[B, ...]``.
            explore: With noise (self-play), or without (evaluation).
            temperature: PUCT: visits are sampled to this power's inverse while exploring.
            invalid_actions: True for actions that the root must not take, ``[B, A]``.
        """
        root = self._root(variables, latent)
        if self.config.method == "gumbel":
            return self._gumbel(variables, key, root, explore, invalid_actions)
        return self._puct(variables, key, root, explore, temperature, invalid_actions)

    def _root(self, variables: Variables, latent: Array) -> mctx.RootFnOutput:
        model = self.model.bind(variables)
        prediction = model.predict(latent)
        batch = latent.shape[0]
        node = Node(
            latent=latent,
            memory=model.initial_memory(batch),
            prefix=jnp.zeros(batch),
            age=jnp.zeros(batch, jnp.int32),
        )
        value = self.model.support.decode(prediction.value_logits)
        return mctx.RootFnOutput(prior_logits=prediction.policy_logits, value=value, embedding=node)

    def expand(
        self, variables: Variables, key: Array, action: Array, node: Node
    ) -> tuple[mctx.RecurrentFnOutput, Node]:
        """Imagine one step: mctx's recurrent function.

        The reward of an edge is the difference of value prefixes. The child where a prefix has
        reached its horizon hands zeros on, so its own children predict a fresh prefix.
        """
        del key
        model, support = self.model.bind(variables), self.model.support
        latent = model.step(node.latent, action)
        prefix_logits, memory = model.value_prefix(latent, node.memory)
        prediction = model.predict(latent)
        prefix, age = support.decode(prefix_logits), node.age + 1
        restart = age >= self.prefix_horizon
        output = mctx.RecurrentFnOutput(
            reward=prefix - node.prefix,
            discount=jnp.full_like(prefix, self.discount),
            prior_logits=prediction.policy_logits,
            value=support.decode(prediction.value_logits),
        )
        child = Node(
            latent=latent,
            memory=jax.tree.map(
                lambda m: jnp.where(restart[:, None], 0, m).astype(m.dtype), memory
            ),
            prefix=jnp.where(restart, 0.0, prefix),
            age=jnp.where(restart, 0, age),
        )
        return output, child

    def _gumbel(
        self,
        variables: Variables,
        key: Array,
        root: mctx.RootFnOutput,
        explore: bool,
        invalid_actions: Array | None,
    ) -> SearchResult:
        config = self.config
        transform = functools.partial(
            completed_by_mixed_value,
            whole_tree=config.q_range == "tree",
            floor=config.q_floor,
            scale=config.q_scale,
            visit_offset=config.q_visits,
        )
        search_key, noise_key = jax.random.split(key)
        logits = root.prior_logits
        if explore and config.dirichlet_fraction:
            root = root.replace(prior_logits=self._noisy(noise_key, logits))
        output = mctx.gumbel_muzero_policy(
            variables,
            search_key,
            root,
            self.expand,
            config.simulations,
            invalid_actions=invalid_actions,
            qtransform=transform,
            max_num_considered_actions=config.considered_actions,
            gumbel_scale=1.0 if explore else 0.0,
        )
        tree = output.search_tree
        # The target improves on the network's own prior: noise is for trying, not for learning.
        scores = logits + jax.vmap(transform, in_axes=(0, None))(tree, tree.ROOT_INDEX)
        if invalid_actions is not None:
            scores = jnp.where(invalid_actions, jnp.finfo(scores.dtype).min, scores)
        return _result(output.action, jax.nn.softmax(scores), tree)

    def _puct(
        self,
        variables: Variables,
        key: Array,
        root: mctx.RootFnOutput,
        explore: bool,
        temperature: Array | float,
        invalid_actions: Array | None,
    ) -> SearchResult:
        config = self.config
        transform = functools.partial(
            filled_by_node_value, whole_tree=config.q_range == "tree", floor=config.q_floor
        )
        choice_key, search_key = jax.random.split(key)
        output = mctx.muzero_policy(
            variables,
            search_key,
            root,
            self.expand,
            config.simulations,
            invalid_actions=invalid_actions,
            qtransform=transform,
            dirichlet_fraction=config.dirichlet_fraction if explore else 0.0,
            dirichlet_alpha=config.dirichlet_alpha,
            pb_c_init=config.c_init,
            pb_c_base=config.c_base,
        )
        policy = output.action_weights
        if explore:
            # Not mctx's own choice: at a high temperature it may take what was never tried.
            power = 1 / jnp.maximum(temperature, 1e-6)
            logits = jnp.where(policy > 0, power * jnp.log(policy), -jnp.inf)
            action = jax.random.categorical(choice_key, logits)
        else:
            action = jnp.argmax(policy, axis=-1)
        return _result(action.astype(jnp.int32), policy, output.search_tree)

    def _noisy(self, key: Array, logits: Array) -> Array:
        """Logits of the prior mixed with Dirichlet noise, ``[B, A]``."""
        fraction = self.config.dirichlet_fraction or 0.0
        concentration = jnp.full(logits.shape[-1], self.config.dirichlet_alpha)
        noise = jax.random.dirichlet(key, concentration, logits.shape[:-1])
        mixed = (1 - fraction) * jax.nn.softmax(logits) + fraction * noise
        return jnp.log(jnp.maximum(mixed, jnp.finfo(mixed.dtype).tiny))


def _result(action: Array, policy: Array, tree: Any) -> SearchResult:
    root = tree.ROOT_INDEX
    return SearchResult(
        action=action,
        policy=policy,
        value=tree.node_values[:, root],
        network_value=tree.raw_values[:, root],
        visits=tree.children_visits[:, root],
    )
