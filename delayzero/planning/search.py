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
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import mctx
from jax import Array

from delayzero.bounds import COUNT, NOT_NEGATIVE, POSITIVE, SHARE, check_choice, check_numbers
from delayzero.model import Memory, WorldModel
from delayzero.planning.qtransforms import completed_by_mixed_value, filled_by_node_value

Variables = Any
"""Parameters and statistics of a model, as flax keeps them."""
Method = Literal["gumbel", "puct"]
QRange = Literal["tree", "node"]


@dataclass(frozen=True)
class SearchConfig:
    """How to search."""

    method: Method = "gumbel"
    """Gumbel: sequential halving at the root. PUCT: visit counts, Dirichlet noise, temperature."""
    simulations: int | None = None
    """Expansions per search; by itself 50 for PUCT, 16 for Gumbel, 4 with fewer than 4 actions."""
    considered_actions: int | None = None
    """Gumbel: root actions that are tried; by itself 2, 4 or 8 for fewer than 4, 16, or more."""
    q_range: QRange = "tree"
    """Scale Q by its range over the whole tree, or over the actions of each node."""
    q_floor: float = 0.01
    """The smallest range of Q that is stretched to one; below it, differences stay small."""
    q_scale: float = 0.1
    """Gumbel: how much scaled Q counts against the prior's logits."""
    q_visits: float = 50.0
    """Gumbel: visits added to the largest visit count in the weight of Q."""
    dirichlet_fraction: float | None = None
    """Share of noise in the root's prior while exploring; by itself 0.25 for PUCT, 0 for Gumbel."""
    dirichlet_alpha: float = 0.3
    """Concentration of that noise."""
    c_init: float = 1.25
    """PUCT: weight of the prior."""
    c_base: float = 19652.0
    """PUCT: visits at which that weight begins to grow."""

    def __post_init__(self) -> None:
        """Refuse settings that no search can have."""
        check_choice("search.method", self.method, Method)
        check_choice("search.q_range", self.q_range, QRange)
        bounds = {
            COUNT: ("simulations", "considered_actions"),
            POSITIVE: ("q_floor", "dirichlet_alpha", "c_base"),
            NOT_NEGATIVE: ("q_scale", "q_visits", "c_init"),
            SHARE: ("dirichlet_fraction",),
        }
        check_numbers(self, "search.", bounds)

    def resolved(self, num_actions: int) -> SearchConfig:
        """The same with every figure that was left to itself, by EfficientZero V2's rules."""
        few, puct = num_actions < 4, self.method == "puct"
        simulations = self.simulations or (50 if puct else 4 if few else 16)
        considered = self.considered_actions or (2 if few else 4 if num_actions < 16 else 8)
        fraction = self.dirichlet_fraction
        return replace(
            self,
            simulations=simulations,
            considered_actions=min(considered, num_actions),
            dirichlet_fraction=(0.25 if puct else 0.0) if fraction is None else float(fraction),
        )


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
