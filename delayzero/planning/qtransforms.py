"""Scaling of Q for the choice of actions in a tree.

mctx stretches the Q-values of each node to [0, 1], however small their differences: with an
untrained model that turns noise into a confident policy, which then teaches itself
(``docs/efficientzero.md`` has the measurement). EfficientZero stretches by the range over the
whole tree, and never by more than one over a floor.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import mctx
from jax import Array


def completed_by_mixed_value(
    tree: Any,
    node: Any,
    *,
    whole_tree: bool,
    floor: float,
    scale: float,
    visit_offset: float,
) -> Array:
    """Q for Gumbel search: actions not tried have the mixed value (Danihelka et al., 2022).

    Args:
        tree: One tree of mctx, without batch dimension.
        node: The index of a node, ``[]``.
        whole_tree: Whether the range is that of all edges, or of this node's actions.
        floor: The smallest range that is stretched to one.
        scale: The weight of Q against logits.
        visit_offset: Added to the largest visit count in that weight.

    Returns:
        ``(visit_offset + max visits) * scale * q``, with q in [0, 1], ``[A]``.
    """
    visits = jnp.max(tree.children_visits[node])
    completed = mctx.qtransform_completed_by_mix_value(
        tree, node, value_scale=1.0, maxvisit_init=1.0, rescale_values=False
    )
    q = _stretched(tree, completed / (1 + visits), whole_tree, floor)
    return (visit_offset + visits) * scale * q


def filled_by_node_value(tree: Any, node: Any, *, whole_tree: bool, floor: float) -> Array:
    """Q for PUCT: actions not tried have the value of their node.

    Args:
        tree: One tree of mctx, without batch dimension.
        node: The index of a node, ``[]``.
        whole_tree: Whether the range is that of all edges, or of this node's actions.
        floor: The smallest range that is stretched to one.

    Returns:
        Q in [0, 1], ``[A]``.
    """
    tried = tree.children_visits[node] > 0
    q = jnp.where(tried, tree.qvalues(node), tree.node_values[node])
    return _stretched(tree, q, whole_tree, floor)


def _stretched(tree: Any, q: Array, whole_tree: bool, floor: float) -> Array:
    """Q of a node, ``[A]``, by the range of Q, which always contains the node's own."""
    low, high = jnp.min(q), jnp.max(q)
    if whole_tree:
        edges = tree.children_rewards + tree.children_discounts * tree.children_values
        tried = tree.children_visits > 0
        low = jnp.minimum(low, jnp.min(jnp.where(tried, edges, jnp.inf)))
        high = jnp.maximum(high, jnp.max(jnp.where(tried, edges, -jnp.inf)))
    return (q - low) / jnp.maximum(high - low, floor)
