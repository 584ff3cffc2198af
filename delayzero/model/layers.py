"""The layers that every network is made of, initialised as PyTorch does.

Parameters are float32; what flows through the layers has their ``dtype``.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import Array

Memory = tuple[Array, Array]
"""Hidden state and cell (h, c) of the LSTM, each ``[B, H]``."""
NormKind = Literal["batch", "layer"]
MOMENTUM = 0.9
"""What a batch leaves of batch normalisation's running statistics."""


def uniform(bound: float) -> nn.initializers.Initializer:
    """An initialiser that draws from [-bound, bound)."""

    def init(key: Array, shape: Any, dtype: Any = jnp.float32, **_: Any) -> Array:
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return init


class Linear(nn.Module):
    """A linear layer with bias: ``[B, D]`` to ``[B, features]``.

    Attributes:
        features: The size of the output.
        logits: Whether it is the last layer of a head, which begins at zero and gives float32.
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
    """A convolution of ``[B, H, W, C]`` padded by half the kernel, by XLA's own operation."""
    if stride == 2 and kernel.shape[0] == 3 and x.shape[-1] % 8 and not x.shape[1] % 2:
        return convolve_in_blocks(x, kernel)
    # Given in numbers: "SAME" would pad a strided convolution on one side only.
    padding = [(size // 2, size // 2) for size in kernel.shape[:2]]
    return _convolved(x, kernel, stride, padding)


def convolve_in_blocks(x: Array, kernel: Array) -> Array:
    """A 3x3 convolution with stride 2, as one of 2x2 blocks of pixels with stride 1.

    For images of few channels, whose even sides it needs: tensor cores take channels in eights, and
    a stack of four RGB images has twelve, but four times as many in a block. An output meets all
    of its block and the nearest pixels of the blocks to the right and below; the others of those
    get zeros.
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
    """The same as a sum of matrix products, one for each place in the kernel.

    For CPUs: inside a compiled loop, where all our searches and updates are, XLA's own
    convolutions take 5 to 20 times as long there (jax 0.10), and so do their gradients.
    """
    height, width, channels, features = kernel.shape
    padded = jnp.pad(x, ((0, 0), (height // 2,) * 2, (width // 2,) * 2, (0, 0)))
    rows, columns = -(-x.shape[1] // stride), -(-x.shape[2] // stride)
    total = jnp.zeros((x.shape[0] * rows * columns, features), x.dtype)
    for i in range(height):
        for j in range(width):
            seen = padded[:, i : i + x.shape[1] : stride, j : j + x.shape[2] : stride]
            total = total + seen.reshape(-1, channels) @ kernel[i, j]
    return total.reshape(x.shape[0], rows, columns, features)


def convolve(x: Array, kernel: Array, stride: int = 1) -> Array:
    """A convolution of ``[B, H, W, C]`` padded by half the kernel, the fastest for the device."""
    by = convolve_by_products if jax.default_backend() == "cpu" else convolve_by_library
    return by(x, kernel, stride)


def new_kernel(module: nn.Module, size: int, channels: int, features: int) -> Array:
    """The parameter ``kernel`` of a convolution, ``[size, size, channels, features]``."""
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
    towards them. Unlike PyTorch, the running variance is that of the biased estimate (a difference
    of 1/n, for n numbers per channel). Written here because flax's does not give away
    :meth:`factors`, which convolutions take into their kernels.
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
            factor, offset = self._factors(mean, var)
        else:
            factor, offset = self.factors()
        return (wide * factor + offset).astype(self.dtype)

    def factors(self) -> tuple[Array, Array]:
        """Outside training it is a factor and an offset for each channel, ``[C]`` both."""
        return self._factors(self.mean.value, self.var.value)

    def _factors(self, mean: Array, var: Array) -> tuple[Array, Array]:
        factor = self.scale * jax.lax.rsqrt(var + 1e-5)
        return factor, self.bias - mean * factor


class ConvNorm(nn.Module):
    """A 3x3 convolution of ``[B, H, W, C]``, then batch normalisation.

    Outside training the normalisation's factor is in the kernel, so that only an offset is left of
    it, which GPUs add within the convolution.
    """

    features: int
    stride: int = 1
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x: Array, train: bool, constants: Array | None = None) -> Array:
        """The normalised convolution of an image, and of planes that are constant each.

        Args:
            x: ``[B, H, W, C]``.
            train: Whether to normalise by the batch.
            constants: Of further planes, ``[B, P]``.
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
    """The convolution of planes that are constant each, without building them.

    A convolution is linear, so what a plane adds is its constant times an image that is the same
    for the whole batch. (With EfficientZero's plane for the action there would be 65 channels, an
    odd number for a GPU: it pads them, with copies.)

    Args:
        constants: ``[B, P]``.
        kernel: ``[3, 3, P, F]``.
        like: An array of the result's shape, ``[B, H, W, F]``.
    """
    count, (height, width) = constants.shape[-1], like.shape[1:3]
    ones = jnp.eye(count, dtype=constants.dtype)[:, None, None]
    images = convolve(jnp.broadcast_to(ones, (count, height, width, count)), kernel)
    return jnp.einsum("bp,phwf->bhwf", constants, images)


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
    """Two 3x3 convolutions around which the input is added, then ReLU.

    With a ``stride`` above 1 it shrinks the image; the input is then brought to the new shape by
    a convolution of its own, without normalisation.
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
    """What an input adds to the gates of an LSTM of this size, ``[B, 4 * size]`` in float32."""

    size: int
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x: Array) -> Array:
        return _gates(self, x, self.size)


class LSTM(nn.Module):
    """One step of an LSTM with PyTorch's parameters: gates i, f, g, o; each part has a bias.

    It is float32 inside: that is cheap, and the cell adds up over steps.
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


def scale_to_unit(x: Array) -> Array:
    """Each of ``[B, ...]`` from its own range to [0, 1]; one that is constant becomes 0."""
    wide = x.reshape(x.shape[0], -1).astype(jnp.float32)
    lowest, highest = -_highest(-wide), _highest(wide)
    scaled = (wide - lowest) / jnp.maximum(highest - lowest, 1e-5)
    return scaled.astype(x.dtype).reshape(x.shape)


@jax.custom_jvp
def _highest(x: Array) -> Array:
    """The largest entry of each row ``[B, D]``, ``[B, 1]``.

    Its gradient goes to one entry. That of ``max`` looks for all that are equal to the largest, and
    is NaN where a compiler computes them a second time and rounds otherwise.
    """
    return jnp.max(x, axis=1, keepdims=True)


@_highest.defjvp
def _highest_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (change,) = primals, tangents
    chosen = jnp.arange(x.shape[1]) == jnp.argmax(x, axis=1)[:, None]
    return _highest(x), jnp.sum(jnp.where(chosen, change, 0), axis=1, keepdims=True)


def mean_pool(x: Array) -> Array:
    """Halve an image ``[B, H, W, C]`` by means of 3x3, stride 2; the padding of 1 is counted."""
    padding = ((0, 0), (1, 1), (1, 1), (0, 0))
    wide = x.astype(jnp.float32)
    sums: Array = jax.lax.reduce_window(wide, 0.0, jax.lax.add, (1, 3, 3, 1), (1, 2, 2, 1), padding)
    return (sums / 9).astype(x.dtype)
