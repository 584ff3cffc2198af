"""Training targets, computed from the rows after a sampled position.

A window has ``W = unroll + td_steps + 1`` rows of one environment; the first is the sampled one.
Row i holds the reward of its step, whether the return ended with that step (``terminated``) or the
episode was cut off (``truncated``), and the value of its observation. The row after an end holds
the episode's last observation, whose value is the bootstrap of a truncated episode. After a lost
life it holds the first observation of the next life.
"""

from __future__ import annotations

import chex
import jax.numpy as jnp
from jax import Array


def alive_steps(terminated: Array, truncated: Array, unroll: int) -> Array:
    """Return which unrolled states belong to the return of the first one, ``[B, unroll + 1]``.

    Entry k is False for the state after an end and for all later ones. The state right after the
    end (entry k - 1 is True and entry k is False) is still trained: its value is 0.

    Args:
        terminated: ``[B, W]``, bool.
        truncated: ``[B, W]``, bool.
        unroll: The number of unrolled steps.
    """
    chex.assert_rank(terminated, 2)
    chex.assert_equal_shape([terminated, truncated])
    chex.assert_type([terminated, truncated], bool)
    continuing = ~(terminated | truncated)[:, :unroll]
    first = jnp.ones_like(continuing[:, :1])
    return jnp.concatenate([first, jnp.cumprod(continuing, axis=1).astype(bool)], axis=1)


def value_targets(
    reward: Array,
    terminated: Array,
    truncated: Array,
    value: Array,
    steps: Array,
    *,
    discount: float,
    unroll: int,
) -> Array:
    """Return the n-step return of each unrolled state, ``[B, unroll + 1]``.

    z_k = sum_{j<n} gamma^j r_{k+j} + gamma^n v_{k+n}. There is no bootstrap if the return ends
    within the n steps; if the episode is truncated there, the bootstrap is the value of its last
    observation. The state right after a termination has 0, the one right after a truncation its
    own value; later states are masked elsewhere.

    Args:
        reward: ``[B, W]``.
        terminated: ``[B, W]``, bool.
        truncated: ``[B, W]``, bool.
        value: The value of each row's observation, ``[B, W]``.
        steps: n for each sample, from 1 to ``W - unroll - 1``, ``[B]``.
        discount: Gamma.
        unroll: The number of unrolled steps.
    """
    chex.assert_rank(reward, 2)
    chex.assert_equal_shape([reward, terminated, truncated, value])
    chex.assert_shape(steps, reward.shape[:1])
    states = unroll + 1
    longest = reward.shape[1] - states

    def rows(field: Array, j: int) -> Array:
        return field[:, j : j + states]

    target = rows(value, longest)
    for j in reversed(range(longest)):
        last = (j + 1 >= steps)[:, None] | rows(truncated, j)
        after = jnp.where(last, rows(value, j + 1), target)
        target = rows(reward, j) + discount * jnp.where(rows(terminated, j), 0.0, after)
    alive = alive_steps(terminated, truncated, unroll)
    cut_off = jnp.pad(truncated & ~terminated, ((0, 0), (1, 0)))[:, :states]
    return jnp.where(alive, target, jnp.where(cut_off, rows(value, 0), 0.0))


def prefix_targets(reward: Array, alive: Array, horizon: int) -> Array:
    """Return the value prefix after each unrolled step, ``[B, unroll]``.

    It is the undiscounted sum of rewards since the first state, restarted every ``horizon`` steps.
    Rewards after an end count as 0 (they are masked).

    Args:
        reward: ``[B, >= unroll]``.
        alive: ``[B, unroll + 1]``, bool.
        horizon: The number of steps between restarts.
    """
    chex.assert_rank([reward, alive], 2)
    chex.assert_type(alive, bool)
    chex.assert_equal_shape_prefix([reward, alive], 1)
    unroll = alive.shape[1] - 1
    earned = jnp.where(alive[:, :-1], reward[:, :unroll], 0.0)
    pieces = [
        jnp.cumsum(earned[:, begin : begin + horizon], axis=1)
        for begin in range(0, unroll, horizon)
    ]
    return jnp.concatenate(pieces, axis=1)


def steps_by_age(age: Array, longest: int, per_step: int | None) -> Array:
    """Return the number of rewards to sum for samples of an age, ``[B]``.

    n = clip(longest - floor(age / per_step), 1, longest). The actions of an old sample come from
    an old policy, so its target bootstraps earlier.

    Args:
        age: The age of each sample in interactions, ``[B]``.
        longest: The largest number of rewards.
        per_step: The age that shortens the sum by one reward; None for ``longest`` at any age.
    """
    if per_step is None:
        return jnp.full_like(age, longest)
    return jnp.clip(longest - age // per_step, 1, longest)
