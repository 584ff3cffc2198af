"""Scaling of Q-values for action selection in a tree.

mctx rescales the Q-values of each node to [0, 1], however small their differences. With an
untrained model this turns noise into a confident policy, which then becomes its own target
(measured in ``docs/lab/2026-11-15-policy-collapse.md``). EfficientZero divides by the range over
the whole tree, or by a floor where the range is smaller.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import mctx
from jax import Array


def completed(tree: Any, node: Any) -> Array:
    """Return the Q-values of a node, ``[A]``; untried actions get the mixed value.

    The mixed value is the mean of the tried actions' Q-values under the prior, mixed with the
    network's value of the node (Danihelka et al., 2022).

    Args:
        tree: One tree of mctx, without batch dimension.
        node: The index of a node, ``[]``.
    """
    weighted: Array = mctx.qtransform_completed_by_mix_value(
        tree, node, value_scale=1.0, maxvisit_init=1.0, rescale_values=False
    )
    return weighted / (1 + jnp.max(tree.children_visits[node]))


def completed_by_mixed_value(
    tree: Any,
    node: Any,
    *,
    whole_tree: bool,
    floor: float,
    scale: float,
    visit_offset: float,
) -> Array:
    """Return Q for Gumbel search; untried actions get the mixed value, see :func:`completed`.

    Args:
        tree: One tree of mctx, without batch dimension.
        node: The index of a node, ``[]``.
        whole_tree: Whether the range is over all edges, or over this node's actions.
        floor: The smallest divisor: a smaller range is not rescaled to 1.
        scale: The weight of Q relative to the logits.
        visit_offset: Added to the largest visit count in that weight.

    Returns:
        ``(visit_offset + max visits) * scale * q``, with q in [0, 1], ``[A]``.
    """
    visits = jnp.max(tree.children_visits[node])
    q = _rescaled(tree, completed(tree, node), whole_tree, floor)
    return (visit_offset + visits) * scale * q


def filled_by_node_value(tree: Any, node: Any, *, whole_tree: bool, floor: float) -> Array:
    """Return Q for PUCT; untried actions get the value of their node.

    Args:
        tree: One tree of mctx, without batch dimension.
        node: The index of a node, ``[]``.
        whole_tree: Whether the range is over all edges, or over this node's actions.
        floor: The smallest divisor: a smaller range is not rescaled to 1.

    Returns:
        Q in [0, 1], ``[A]``.
    """
    tried = tree.children_visits[node] > 0
    q = jnp.where(tried, tree.qvalues(node), tree.node_values[node])
    return _rescaled(tree, q, whole_tree, floor)


def _rescaled(tree: Any, q: Array, whole_tree: bool, floor: float) -> Array:
    """Rescale a node's Q-values ``[A]`` by the range of Q, which includes these values."""
    low, high = jnp.min(q), jnp.max(q)
    if whole_tree:
        edges = tree.children_rewards + tree.children_discounts * tree.children_values
        tried = tree.children_visits > 0
        low = jnp.minimum(low, jnp.min(jnp.where(tried, edges, jnp.inf)))
        high = jnp.maximum(high, jnp.max(jnp.where(tried, edges, -jnp.inf)))
    return (q - low) / jnp.maximum(high - low, floor)
