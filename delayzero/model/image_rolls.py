"""Rolling image dynamics through many actions, with a gradient that costs little.

A roll is a chain of convolutions so small that starting them takes a GPU longer than computing
them. So whatever does not depend on the chain is taken out of it. Before the chain, normalisation
is folded into the kernels, and what the actions add is computed for all steps at once. After it,
the gradient of a kernel is one convolution over the inputs of all steps.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import Array

from delayzero.model.layers import convolve, convolve_constants, norm_factors, scale_to_unit
from delayzero.model.parts import ImageDynamics, encode_actions
from delayzero.model.world_model import WorldModel


class Chain(NamedTuple):
    """Image dynamics outside of training, made ready for ``T`` steps of ``B`` latents.

    The first of its ``2 N + 1`` convolutions sees the action; ``N`` residual blocks follow.
    """

    kernels: tuple[Array, ...]
    """The folded kernels, ``[3, 3, C, C]`` each."""
    offsets: tuple[Array, ...]
    """What is added after each convolution, ``[C]`` each."""
    actions: Array
    """What the actions add after the first one, ``[T, B, H, W, C]``."""


def can_chain(model: WorldModel) -> bool:
    """Return whether a model's rolls can be made by :func:`roll_images`."""
    return type(model.dynamics) is ImageDynamics


def roll_images(
    model: WorldModel, variables: Any, latent: Array, actions: Array, moves: Array
) -> Array:
    """Roll latents as ``model.step`` does outside of training, one action after the other.

    Args:
        model: A model of images.
        variables: Its variables.
        latent: ``[B, H, W, C]``.
        actions: ``[T, B]``.
        moves: Which latents take which step, ``[T, B]``; the others stay as they are.
    """
    chex.assert_rank(latent, 4)
    chex.assert_shape([actions, moves], (None, latent.shape[0]))
    chex.assert_type(actions, int)
    chain = _chain(model, variables, latent, actions)
    rolled: Array = _rolled(latent, chain, moves[:, :, None, None, None], model.scales)
    return rolled


def _chain(model: WorldModel, variables: Any, latent: Array, actions: Array) -> Chain:
    dynamics, dtype = model.dynamics, model.dtype
    assert isinstance(dynamics, ImageDynamics)
    steps, batch = actions.shape
    params, statistics = (variables[kind]["dynamics"] for kind in ("params", "batch_stats"))
    layers: list[tuple[str, ...]] = [("ConvNorm_0",)]
    for block in range(dynamics.blocks):
        layers += [(f"ResidualBlock_{block}", f"ConvNorm_{n}") for n in range(2)]
    folded = [_folded(_at(params, names), _at(statistics, names)) for names in layers]
    kernels = [kernel.astype(dtype) for kernel, _ in folded]
    offsets = [offset.astype(dtype) for _, offset in folded]
    channels = latent.shape[-1]
    # Position by position, here and in _by_kernel: devices that share the batch keep their rows.
    code = encode_actions(actions.T.reshape(-1), dynamics.actions, dynamics.action_code)
    added = convolve_constants(code.astype(dtype), kernels[0][:, :, channels:], latent)
    return Chain(
        kernels=(kernels[0][:, :, :channels], *kernels[1:]),
        offsets=tuple(offsets),
        actions=added.reshape(batch, steps, *latent.shape[1:]).swapaxes(0, 1),
    )


def _at(tree: Any, names: Sequence[str]) -> Any:
    for name in names:
        tree = tree[name]
    return tree


def _folded(params: Mapping[str, Any], statistics: Mapping[str, Any]) -> tuple[Array, Array]:
    """Return the kernel and the offset of a ``ConvNorm`` outside of training."""
    norm, running = params["BatchNorm_0"], statistics["BatchNorm_0"]
    factor, offset = norm_factors(norm["scale"], norm["bias"], running["mean"], running["var"])
    return params["kernel"] * factor, offset


def _forward(
    latent: Array, chain: Chain, moves: Array, scales: bool
) -> tuple[Array, tuple[Array, ...]]:
    """Return the rolled latents, and the states of all steps, ``[T, B, H, W, C]`` each.

    These are the inputs of the convolutions in their order, and last the state before scaling.
    """
    kernels, offsets = chain.kernels, chain.offsets

    def move(latent: Array, step: tuple[Array, Array]) -> tuple[Array, tuple[Array, ...]]:
        added, moves = step
        x = nn.relu(convolve(latent, kernels[0]) + added + offsets[0] + latent)
        states = [latent, x]
        for n in range(1, len(kernels), 2):
            y = nn.relu(convolve(x, kernels[n]) + offsets[n])
            x = nn.relu(x + (convolve(y, kernels[n + 1]) + offsets[n + 1]))
            states += [y, x]
        after = scale_to_unit(x) if scales else x
        return jnp.where(moves, after, latent), tuple(states)

    return jax.lax.scan(move, latent, (chain.actions, moves))


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def _rolled(latent: Array, chain: Chain, moves: Array, scales: bool) -> Array:
    return _forward(latent, chain, moves, scales)[0]


def _rolled_forward(
    latent: Array, chain: Chain, moves: Array, scales: bool
) -> tuple[Array, tuple[tuple[Array, ...], Array, tuple[Array, ...]]]:
    after, states = _forward(latent, chain, moves, scales)
    return after, (chain.kernels, moves, states)


def _rolled_backward(scales: bool, kept: Any, gradient: Array) -> tuple[Array, Chain, None]:
    """Return the gradients of the first latents and of the chain."""
    kernels, moves, states = kept

    def back(gradient: Array, step: tuple[Array, ...]) -> tuple[Array, tuple[Array, ...]]:
        """Go back by one step; also return the gradient of each convolution's result."""
        moves, _, *after = step
        g = jnp.where(moves, gradient, 0)
        if scales:
            (g,) = jax.vjp(scale_to_unit, after[-1])[1](g)
        results: list[Array] = []
        for n in reversed(range(1, len(kernels), 2)):
            g_block = jnp.where(after[n + 1] > 0, g, 0)
            g_inner = jnp.where(after[n] > 0, _by_input(g_block, kernels[n + 1]), 0)
            g = g_block + _by_input(g_inner, kernels[n])
            results = [g_inner, g_block, *results]
        first = jnp.where(after[0] > 0, g, 0)
        before = first + _by_input(first, kernels[0]) + jnp.where(moves, 0, gradient)
        return before, (first, *results)

    before, results = jax.lax.scan(back, gradient, (moves, *states), reverse=True)
    chain = Chain(
        kernels=tuple(map(_by_kernel, states, results, kernels)),
        offsets=tuple(map(_sum_by_channel, results)),
        actions=results[0],
    )
    return before, chain, None


_rolled.defvjp(_rolled_forward, _rolled_backward)


def _by_input(gradient: Array, kernel: Array) -> Array:
    """Return the gradient of a convolution's input from that of its result."""
    like = jax.ShapeDtypeStruct(gradient.shape, gradient.dtype)
    result: Array = jax.linear_transpose(lambda x: convolve(x, kernel), like)(gradient)[0]
    return result


def _by_kernel(inputs: Array, gradients: Array, kernel: Array) -> Array:
    """Return the gradient of a kernel, from its inputs and results ``[T, B, H, W, C]``."""
    rows, g = (x.swapaxes(0, 1).reshape(-1, *x.shape[2:]) for x in (inputs, gradients))
    result: Array = jax.linear_transpose(lambda k: convolve(rows, k), kernel)(g)[0]
    return result


def _sum_by_channel(x: Array) -> Array:
    return jnp.sum(x, axis=tuple(range(x.ndim - 1)), dtype=jnp.float32).astype(x.dtype)
