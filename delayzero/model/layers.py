"""The layers of all networks, initialised as in PyTorch.

Parameters are float32; activations have the layer's ``dtype``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import Array

Memory = tuple[Array, Array]
"""The LSTM's hidden state and cell (h, c), each ``[B, H]``."""
NormKind = Literal["batch", "layer"]
MOMENTUM = 0.9
"""The weight of the old running statistics when batch normalisation updates them."""


def uniform(bound: float) -> nn.initializers.Initializer:
    """Return an initialiser that draws uniformly from [-bound, bound)."""

    def init(key: Array, shape: Any, dtype: Any = jnp.float32, **_: Any) -> Array:
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return init


class Linear(nn.Module):
    """A linear layer with bias: ``[B, D]`` to ``[B, features]``.

    Attributes:
        features: The size of the output.
        logits: Whether this is the last layer of a head: initialised to zero, with float32 output.
    """

    features: int
    logits: bool = False
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x: Array) -> Array:
        inputs = x.shape[-1]
        init = nn.initializers.zeros if self.logits else uniform(1 / math.sqrt(inputs))
        kernel = self.param("kernel", init, (inputs, self.features)).astype(self.dtype)
        bias = self.param("bias", init, (self.features,))
        y = jnp.matmul(x.astype(self.dtype), kernel, preferred_element_type=jnp.float32) + bias
        return y if self.logits else y.astype(self.dtype)


def convolve_by_library(x: Array, kernel: Array, stride: int) -> Array:
    """Convolve ``[B, H, W, C]``, padded by half the kernel, with XLA's convolution."""
    if stride == 2 and kernel.shape[0] == 3 and x.shape[-1] % 8 and not x.shape[1] % 2:
        return convolve_in_blocks(x, kernel)
    # Explicit padding: "SAME" would pad a strided convolution on one side only.
    padding = [(size // 2, size // 2) for size in kernel.shape[:2]]
    return _convolved(x, kernel, stride, padding)


def convolve_in_blocks(x: Array, kernel: Array) -> Array:
    """Compute a 3x3 convolution with stride 2 as a stride-1 convolution of 2x2 pixel blocks.

    For images with few channels; the sides must be even. Tensor cores process channels in groups of
    eight. A stack of four RGB images has twelve channels, but a 2x2 block of it has four times as
    many. Each output depends on its whole block and on the nearest pixels of the blocks to the
    right and below; the kernel is zero at the other pixels of those blocks.
    """
    batch, height, width, channels = x.shape
    padded = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    blocks = padded.reshape(batch, height // 2 + 1, 2, width // 2 + 1, 2, channels)
    blocks = blocks.transpose(0, 1, 3, 2, 4, 5).reshape(*blocks.shape[:2], width // 2 + 1, -1)
    wide = jnp.pad(kernel, ((0, 1), (0, 1), (0, 0), (0, 0)))
    wide = wide.reshape(2, 2, 2, 2, *kernel.shape[2:]).transpose(0, 2, 1, 3, 4, 5)
    return _convolved(blocks, wide.reshape(2, 2, 4 * channels, -1), 1, [(0, 0), (0, 0)])


def _convolved(x: Array, kernel: Array, stride: int, padding: list[tuple[int, int]]) -> Array:
    dimensions = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(
        x, kernel, (stride, stride), padding, dimension_numbers=dimensions
    )


def convolve_by_products(x: Array, kernel: Array, stride: int) -> Array:
    """Convolve as in :func:`convolve_by_library`, by a sum of matrix products.

    There is one product for each position in the kernel. This is for CPUs: inside a compiled loop,
    where all searches and updates run, XLA's convolutions and their gradients take 5 to 20 times
    as long there (jax 0.10).
    """
    height, width, channels, features = kernel.shape
    padded = jnp.pad(x, ((0, 0), (height // 2,) * 2, (width // 2,) * 2, (0, 0)))
    rows, columns = -(-x.shape[1] // stride), -(-x.shape[2] // stride)
    total = jnp.zeros((x.shape[0] * rows * columns, features), x.dtype)
    for i in range(height):
        for j in range(width):
            pixels = padded[:, i : i + x.shape[1] : stride, j : j + x.shape[2] : stride]
            total = total + pixels.reshape(-1, channels) @ kernel[i, j]
    return total.reshape(x.shape[0], rows, columns, features)


def convolve(x: Array, kernel: Array, stride: int = 1) -> Array:
    """Convolve ``[B, H, W, C]``, padded by half the kernel, in the fastest way for the device."""
    on_cpu = jax.default_backend() == "cpu"
    implementation = convolve_by_products if on_cpu else convolve_by_library
    return implementation(x, kernel, stride)


def new_kernel(module: nn.Module, size: int, channels: int, features: int) -> Array:
    """Create the parameter ``kernel`` of a convolution, ``[size, size, channels, features]``."""
    shape = (size, size, channels, features)
    kernel: Array = module.param("kernel", uniform(1 / math.sqrt(math.prod(shape[:3]))), shape)
    return kernel


class Conv(nn.Module):
    """A convolution of ``[B, H, W, C]``: 3x3, padded by 1, without bias; or 1x1 with bias."""

    features: int
    size: Literal[1, 3] = 3
    stride: int = 1
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x: Array) -> Array:
        kernel = new_kernel(self, self.size, x.shape[-1], self.features)
        y = convolve(x.astype(self.dtype), kernel.astype(self.dtype), self.stride)
        if self.size == 1:
            init = uniform(1 / math.sqrt(x.shape[-1]))
            y = y + self.param("bias", init, (self.features,)).astype(self.dtype)
        return y


class BatchNorm(nn.Module):
    """Batch normalisation with learned scale and offset; statistics in float32.

    In training it uses the statistics of the batch and moves the running ones a tenth of the way
    towards them. Unlike PyTorch, it estimates the running variance with the biased estimator (a
    relative difference of 1/n, for n numbers per channel). Flax's implementation is not used
    because it does not expose :meth:`factors`, which convolutions fold into their kernels.
    """

    features: int
    dtype: Any = jnp.float32

    def setup(self) -> None:
        ones, zeros, shape = nn.initializers.ones, nn.initializers.zeros, (self.features,)
        self.scale, self.bias = self.param("scale", ones, shape), self.param("bias", zeros, shape)
        self.mean = self.variable("batch_stats", "mean", jnp.zeros, shape)
        self.var = self.variable("batch_stats", "var", jnp.ones, shape)

    def __call__(self, x: Array, train: bool) -> Array:
        wide = x.astype(jnp.float32)
        if train:
            axes = tuple(range(x.ndim - 1))
            mean = jnp.mean(wide, axes)
            var = jnp.maximum(jnp.mean(jnp.square(wide), axes) - jnp.square(mean), 0)
            for running, new in ((self.mean, mean), (self.var, var)):
                running.value = MOMENTUM * running.value + (1 - MOMENTUM) * new
            factor, offset = norm_factors(self.scale, self.bias, mean, var)
        else:
            factor, offset = self.factors()
        return (wide * factor + offset).astype(self.dtype)

    def factors(self) -> tuple[Array, Array]:
        """Return the factor and the offset per channel outside training, both ``[C]``."""
        return norm_factors(self.scale, self.bias, self.mean.value, self.var.value)


def norm_factors(scale: Array, bias: Array, mean: Array, var: Array) -> tuple[Array, Array]:
    """Return the factor and the offset of batch normalisation, all ``[C]``."""
    factor = scale * jax.lax.rsqrt(var + 1e-5)
    return factor, bias - mean * factor


class ConvNorm(nn.Module):
    """A 3x3 convolution of ``[B, H, W, C]``, then batch normalisation.

    Outside training the normalisation's factor is folded into the kernel. Only the offset remains,
    which GPUs add within the convolution.
    """

    features: int
    stride: int = 1
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x: Array, train: bool, constants: Array | None = None) -> Array:
        """Convolve and normalise images to which constant planes may be appended.

        Args:
            x: ``[B, H, W, C]``.
            train: Whether to normalise by the batch's statistics.
            constants: The values of the constant planes, ``[B, P]``; None for no planes.
        """
        channels = x.shape[-1]
        planes = 0 if constants is None else constants.shape[-1]
        kernel = new_kernel(self, 3, channels + planes, self.features)
        norm = BatchNorm(self.features, self.dtype)
        if not train:
            factor, offset = norm.factors()
            kernel = kernel * factor
        kernel = kernel.astype(self.dtype)
        y = convolve(x.astype(self.dtype), kernel[:, :, :channels], self.stride)
        if constants is not None:
            y = y + convolve_constants(constants.astype(self.dtype), kernel[:, :, channels:], y)
        return norm(y, train) if train else y + offset.astype(self.dtype)


def convolve_constants(constants: Array, kernel: Array, like: Array) -> Array:
    """Convolve planes that are each constant, without building the planes.

    A convolution is linear, so a plane contributes its constant times an image that is the same
    for the whole batch. (With EfficientZero's action plane as a channel there would be 65, a number
    that a GPU pads, by copying.)

    Args:
        constants: ``[B, P]``.
        kernel: ``[3, 3, P, F]``.
        like: An array of the result's shape, ``[B, H, W, F]``.
    """
    count, (height, width) = constants.shape[-1], like.shape[1:3]
    ones = jnp.eye(count, dtype=constants.dtype)[:, None, None]
    images = convolve(jnp.broadcast_to(ones, (count, height, width, count)), kernel)
    return jnp.einsum("bp,phwf->bhwf", constants, images)


def normalised_kernels(params: Any) -> Any:
    """Return a tree like ``params``: whether a parameter is the kernel of a :class:`ConvNorm`.

    In training, the scale of such a kernel has no effect.
    """
    if not isinstance(params, Mapping):
        return False
    normalised = "BatchNorm_0" in params
    return {
        name: (name == "kernel" and normalised) or normalised_kernels(child)
        for name, child in params.items()
    }


def initial_norm(kernel: Array) -> float:
    """Return the expected norm of a convolution's kernel before training."""
    return math.sqrt(kernel.shape[-1] / 3)


class Norm(nn.Module):
    """Batch or layer normalisation with learned scale and offset; statistics in float32."""

    kind: NormKind
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x: Array, train: bool) -> Array:
        if self.kind == "layer":
            y: Array = nn.LayerNorm(epsilon=1e-5, dtype=self.dtype)(x)
        else:
            y = BatchNorm(x.shape[-1], self.dtype)(x, train)
        return y


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions with a skip connection, then ReLU.

    A ``stride`` above 1 shrinks the image; the skip connection then has a strided convolution
    without normalisation.
    """

    features: int
    stride: int = 1
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x: Array, train: bool) -> Array:
        y = nn.relu(ConvNorm(self.features, self.stride, self.dtype)(x, train))
        y = ConvNorm(self.features, dtype=self.dtype)(y, train)
        if self.stride > 1:
            x = Conv(self.features, stride=self.stride, dtype=self.dtype)(x)
        return nn.relu(x + y)


class LSTMInput(nn.Module):
    """The contribution of an input to the gates of an LSTM, ``[B, 4 * size]`` in float32."""

    size: int
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x: Array) -> Array:
        return _gates(self, x, self.size)


class LSTM(nn.Module):
    """One step of an LSTM with PyTorch's parameters: gates i, f, g, o, and two biases.

    It computes in float32: that is cheap, and the cell accumulates over steps.
    """

    size: int
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, gates: Array, memory: Memory) -> Memory:
        hidden, cell = memory
        gates = gates + _gates(self, hidden, self.size)
        i, f, g, o = jnp.split(gates, 4, axis=-1)
        cell = nn.sigmoid(f) * cell.astype(jnp.float32) + nn.sigmoid(i) * jnp.tanh(g)
        hidden = nn.sigmoid(o) * jnp.tanh(cell)
        return hidden.astype(self.dtype), cell.astype(self.dtype)


def _gates(module: LSTMInput | LSTM, x: Array, size: int) -> Array:
    init = uniform(1 / math.sqrt(size))
    kernel = module.param("kernel", init, (x.shape[-1], 4 * size)).astype(module.dtype)
    bias: Array = module.param("bias", init, (4 * size,))
    product = jnp.matmul(x.astype(module.dtype), kernel, preferred_element_type=jnp.float32)
    return product + bias


def flat_latents(latent: Array) -> Array:
    """Flatten latents ``[B, ...]`` to vectors ``[B, D]`` in float32."""
    return latent.reshape(latent.shape[0], -1).astype(jnp.float32)


def scale_to_unit(x: Array) -> Array:
    """Scale each of ``B`` latents ``[B, ...]`` from its range to [0, 1]; a constant one to 0."""
    wide = flat_latents(x)
    lowest, highest = -_highest(-wide), _highest(wide)
    scaled = (wide - lowest) / jnp.maximum(highest - lowest, 1e-5)
    return scaled.astype(x.dtype).reshape(x.shape)


@jax.custom_jvp
def _highest(x: Array) -> Array:
    """Return the largest entry of each row of ``[B, D]``, ``[B, 1]``.

    The gradient goes to exactly one entry. The gradient of ``max`` goes to all entries equal to the
    maximum; it is NaN if the compiler recomputes the entries and rounds them differently.
    """
    return jnp.max(x, axis=1, keepdims=True)


@_highest.defjvp
def _highest_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (change,) = primals, tangents
    chosen = jnp.arange(x.shape[1]) == jnp.argmax(x, axis=1)[:, None]
    return _highest(x), jnp.sum(jnp.where(chosen, change, 0), axis=1, keepdims=True)


def mean_pool(x: Array) -> Array:
    """Halve images ``[B, H, W, C]`` by 3x3 mean pooling, stride 2; padding counts as zeros."""
    padding = ((0, 0), (1, 1), (1, 1), (0, 0))
    wide = x.astype(jnp.float32)
    sums: Array = jax.lax.reduce_window(wide, 0.0, jax.lax.add, (1, 3, 3, 1), (1, 2, 2, 1), padding)
    return (sums / 9).astype(x.dtype)
