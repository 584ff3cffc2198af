"""Calling a model in training, where batch normalisation changes with every call."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from delayzero.model import WorldModel
from delayzero.model.layers import MOMENTUM


class InTraining:
    """A model that normalises by each batch's statistics; every call moves the running ones.

    Attributes:
        model: In training mode.
        variables: As the calls so far have left them; parameters never change.
    """

    def __init__(self, model: WorldModel, variables: Any) -> None:
        self.model = model.clone(train=True)
        self.variables = variables

    def __call__(self, method: str, *inputs: Any) -> Any:
        """Call a method of the model."""
        result, changed = self._apply(method, *inputs)
        self.variables = {**self.variables, **changed}
        return result

    def several(self, method: str, *inputs: Any) -> Any:
        """Call a method for each of several batches, ``[G, B, ...]``, as if one after the other.

        They are computed together, which takes a GPU little longer than one: no batch's results
        depend on the running statistics that another one leaves.
        """
        results, changed = jax.vmap(lambda *batch: self._apply(method, *batch))(*inputs)
        old = {name: self.variables[name] for name in changed}
        self.variables = {**self.variables, **jax.tree.map(_moved_in_turn, old, changed)}
        return results

    def _apply(self, method: str, *inputs: Any) -> tuple[Any, Any]:
        return self.model.apply(self.variables, *inputs, method=method, mutable=["batch_stats"])


def _moved_in_turn(old: jax.Array, each: jax.Array) -> jax.Array:
    """Running statistics after several batches in turn, from where each alone would move them.

    r_G = m^G old + (1 - m) sum_g m^(G-1-g) s_g, and each_g = m old + (1 - m) s_g.
    """
    shares = MOMENTUM ** jnp.arange(len(each) - 1, -1, -1, dtype=old.dtype)
    return old + jnp.tensordot(shares, each - old, axes=1)
