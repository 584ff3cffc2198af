"""Calling a model in training mode, where every call updates batch normalisation."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.sharding import Mesh

from delayzero.model import WorldModel
from delayzero.model.layers import MOMENTUM
from delayzero.replay import divide_batch


class InTraining:
    """A model in training mode: it normalises by the batch, and calls update running statistics.

    Attributes:
        model: The model in training mode.
        variables: The variables after the calls so far; parameters never change.
        mesh: The devices that share a batch; None for one device.
    """

    def __init__(self, model: WorldModel, variables: Any, mesh: Mesh | None = None) -> None:
        self.model = model.clone(train=True)
        self.variables, self.mesh = variables, mesh

    def __call__(self, method: str, *inputs: Any) -> Any:
        """Call a method of the model with one batch, ``[B, ...]``."""
        result, statistics = self._apply(method, *inputs)
        self.variables = {**self.variables, **statistics}
        return result

    def together(self, method: str, *inputs: Any) -> Any:
        """Call a method of the model with several batches, ``[G, B, ...]``, as one of G * B rows.

        They are normalised by their common statistics, as outside of training. The running ones
        move towards these as far as in G calls: moved once, they would follow the weights G times
        as slowly.
        """
        groups = jax.tree.leaves(inputs)[0].shape[0]
        results, statistics = self._apply(method, *merged(self.mesh, inputs))
        old = {name: self.variables[name] for name in statistics}
        factor = (1 - MOMENTUM**groups) / (1 - MOMENTUM)
        moved = jax.tree.map(lambda old, new: old + factor * (new - old), old, statistics)
        self.variables = {**self.variables, **moved}
        return apart(self.mesh, results, groups)

    def several(self, method: str, *inputs: Any) -> Any:
        """Call a method of the model with several batches, ``[G, B, ...]``, one after another.

        Each is normalised by its own statistics. They are computed in parallel, which takes a GPU
        little longer than one batch: the results of a batch do not depend on the running
        statistics.
        """
        results, statistics = jax.vmap(lambda *batch: self._apply(method, *batch))(*inputs)
        old = {name: self.variables[name] for name in statistics}
        self.variables = {**self.variables, **jax.tree.map(_updated_in_turn, old, statistics)}
        return results

    def _apply(self, method: str, *inputs: Any) -> tuple[Any, Any]:
        return self.model.apply(self.variables, *inputs, method=method, mutable=["batch_stats"])


def merged(mesh: Mesh | None, groups: Any) -> Any:
    """Return batches ``[G, B, ...]`` as one, ``[G * B, ...]``.

    Group by group; where devices share the batches, position by position, so that all rows of a
    position stay on its device.
    """

    def one(x: Array) -> Array:
        x = x if mesh is None else x.swapaxes(0, 1)
        return x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])

    return divide_batch(mesh, jax.tree.map(one, groups))


def apart(mesh: Mesh | None, rows: Any, count: int) -> Any:
    """Return the ``count`` batches ``[G, B, ...]`` of which :func:`merged` made one."""

    def several(x: Array) -> Array:
        if mesh is None:
            return x.reshape(count, x.shape[0] // count, *x.shape[1:])
        return x.reshape(x.shape[0] // count, count, *x.shape[1:]).swapaxes(0, 1)

    return jax.tree.map(several, rows)


def _updated_in_turn(old: Array, each: Array) -> Array:
    """Return the running statistics after G batches in turn.

    With batch statistics s_g they are r_G = m^G old + (1 - m) sum_g m^(G-1-g) s_g. The s_g follow
    from ``each``, ``[G, ...]``: the running statistics after one batch alone,
    each_g = m old + (1 - m) s_g.
    """
    shares = MOMENTUM ** jnp.arange(len(each) - 1, -1, -1, dtype=old.dtype)
    return old + jnp.tensordot(shares, each - old, axes=1)
