"""Tree search with a learned model: Gumbel and PUCT, two settings of one function.

mctx does the search. This module adds rewards from value prefixes, whose bookkeeping is part of a
node's embedding, and the scaling of Q over the whole tree with a floor
(:mod:`delayzero.planning.qtransforms`).

Four deliberate differences from EfficientZero's PUCT:

1. The prior counts from a node's first visit on (EfficientZero's first choice is random).
2. An untried action has the value of its node (EfficientZero passes a mean Q down the path).
3. The root's value counts the network's value once, as at every other node.
4. The range of Q is that of the edges themselves (EfficientZero mixes up siblings' prefixes).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import mctx
from jax import Array

from delayzero.model import Memory, WorldModel
from delayzero.planning.qtransforms import (
    completed,
    completed_by_mixed_value,
    filled_by_node_value,
)
from delayzero.settings import SearchConfig

Variables = Any
"""The parameters and statistics of a model, in flax's format."""
PER_NODE, PER_EDGE = 5, 6
"""Numbers of 4 bytes that mctx keeps for each node of a tree, and for each of its actions."""


class SearchResult(NamedTuple):
    """The result of a search from ``B`` roots."""

    action: Array
    """The chosen action, ``[B]``."""
    policy: Array
    """The improved policy, a target for the network's, ``[B, A]``."""
    value: Array
    """The value of the root, see ``--search.value``, ``[B]``."""
    network_value: Array
    """The network's value of the root, ``[B]``."""
    visits: Array
    """The number of visits of each action at the root, ``[B, A]``."""


class Node(NamedTuple):
    """A node's embedding: its latent, and its position within a value prefix."""

    latent: Array
    memory: Memory
    prefix: Array
    """The predicted value prefix from its last restart to this node, ``[B]``."""
    age: Array
    """The number of steps since that restart, ``[B]``."""


@dataclass(frozen=True)
class Planner:
    """A model and its tree search.

    Attributes:
        model: The world model.
        config: The search's settings, resolved.
        discount: The discount per step.
        prefix_horizon: The number of steps after which a value prefix restarts from zero, as in
            training.
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
            variables: The model's variables.
            key: A random key.
            latent: The roots, ``[B, ...]``.
            explore: Whether to search with noise (self-play) or without (evaluation).
            temperature: For PUCT while exploring: an action is drawn with a probability
                proportional to its visits to the power ``1 / temperature``, ``[]``.
            invalid_actions: True for actions that the root must not take, ``[B, A]``.
        """
        chex.assert_rank(temperature, 0)
        root = self._root(variables, latent)
        if invalid_actions is not None:
            chex.assert_equal_shape([invalid_actions, root.prior_logits])
        if self.config.method == "gumbel":
            return self._gumbel(variables, key, root, explore, invalid_actions)
        return self._puct(variables, key, root, explore, temperature, invalid_actions)

    def tree_bytes(self, variables: Variables, latent: Array) -> int:
        """Return the size of the trees of a search, from the shapes of its variables and roots."""
        root = jax.eval_shape(self._root, variables, latent)
        roots, actions = root.prior_logits.shape
        node = sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(root.embedding))
        node += 4 * roots * (PER_NODE + PER_EDGE * actions)
        assert self.config.simulations is not None
        return int((self.config.simulations + 1) * node)

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
        chex.assert_rank([prediction.policy_logits, value], [2, 1])
        chex.assert_equal_shape_prefix([latent, prediction.policy_logits, value], 1)
        return mctx.RootFnOutput(prior_logits=prediction.policy_logits, value=value, embedding=node)

    def expand(
        self, variables: Variables, key: Array, action: Array, node: Node
    ) -> tuple[mctx.RecurrentFnOutput, Node]:
        """Imagine one step; this is mctx's recurrent function.

        The reward of an edge is the difference of two value prefixes. A child whose prefix has
        reached its horizon passes on zeros, so that its children start a new prefix. With a model
        that predicts ends, the discount of an edge is gamma (1 - p) for an end of probability p.

        Args:
            variables: The model's variables.
            key: Not used.
            action: ``[B]``.
            node: The nodes to expand.

        Returns:
            Reward, discount, prior and value of the step, and the embedding of the children.
        """
        del key
        model, support = self.model.bind(variables), self.model.support
        latent = model.step(node.latent, action)
        prefix_logits, memory = model.value_prefix(latent, node.memory)
        prediction = model.predict(latent)
        prefix, age = support.decode(prefix_logits), node.age + 1
        restart = age >= self.prefix_horizon
        discount = jnp.full_like(prefix, self.discount)
        if prediction.end_logits is not None:
            discount = discount * jax.nn.sigmoid(-prediction.end_logits)
        output = mctx.RecurrentFnOutput(
            reward=prefix - node.prefix,
            discount=discount,
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
        # The target improves on the network's prior without noise, which is only for exploration.
        scores = logits + jax.vmap(transform, in_axes=(0, None))(tree, tree.ROOT_INDEX)
        if invalid_actions is not None:
            scores = jnp.where(invalid_actions, jnp.finfo(scores.dtype).min, scores)
        return self._result(output.action, jax.nn.softmax(scores), tree)

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
            # Not mctx's choice: at a high temperature it may take an action without visits.
            power = 1 / jnp.maximum(temperature, 1e-6)
            logits = jnp.where(policy > 0, power * jnp.log(policy), -jnp.inf)
            action = jax.random.categorical(choice_key, logits)
        else:
            action = jnp.argmax(policy, axis=-1)
        return self._result(action.astype(jnp.int32), policy, output.search_tree)

    def _result(self, action: Array, policy: Array, tree: Any) -> SearchResult:
        root = tree.ROOT_INDEX
        value = tree.node_values[:, root]
        if self.config.value == "policy":
            q = jax.vmap(completed, in_axes=(0, None))(tree, root)
            value = jnp.sum(policy * q, axis=-1)
        return SearchResult(
            action=action,
            policy=policy,
            value=value,
            network_value=tree.raw_values[:, root],
            visits=tree.children_visits[:, root],
        )

    def _noisy(self, key: Array, logits: Array) -> Array:
        """Mix the prior with Dirichlet noise, both as logits ``[B, A]``."""
        fraction = self.config.dirichlet_fraction or 0.0
        concentration = jnp.full(logits.shape[-1], self.config.dirichlet_alpha)
        noise = jax.random.dirichlet(key, concentration, logits.shape[:-1])
        mixed = (1 - fraction) * jax.nn.softmax(logits) + fraction * noise
        return jnp.log(jnp.maximum(mixed, jnp.finfo(mixed.dtype).tiny))
