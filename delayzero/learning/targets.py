"""Training targets, computed from the rows after a sampled position.

A window has ``W = unroll + td_steps + 1`` rows of one environment; the first is the sampled one.
Row i holds the reward of its step, whether the return ended with that step (``terminated``) or the
episode was cut off (``truncated``), and the value of its observation. The row after an end holds
the episode's last observation, whose value is the bootstrap of a truncated episode. After a lost
life it holds the first observation of the next life.

Where the model predicts ends, a lost life is an ordinary step of the unrolled model: only the end
of an *episode* cuts a window off.
"""

from __future__ import annotations

import chex
import jax.numpy as jnp
from jax import Array

from delayzero.replay import Transitions


def cuts(transitions: Transitions, axis: int, *, predicts_ends: bool) -> Array:
    """Return after which steps an unrolled model is cut off, of the transitions' shape.

    Args:
        transitions: Rows in order along an axis; the result of the last one is meaningless.
        axis: That axis.
        predicts_ends: Whether the model predicts ends. Then only the last step of an episode is a
            cut, else every end of a return.
    """
    terminated = transitions.terminated
    if predicts_ends:
        # The row after a lost life continues the episode.
        terminated = terminated & jnp.roll(transitions.final | transitions.first, -1, axis)
    return terminated | transitions.truncated


def alive_steps(cut: Array, unroll: int) -> Array:
    """Return which unrolled states come before the first cut, ``[B, unroll + 1]``.

    Entry k is False for the state after a cut and for all later ones. The state right after it
    (entry k - 1 is True and entry k is False) is still trained: after an end its value is 0.

    Args:
        cut: See :func:`cuts`, ``[B, W]``, bool.
        unroll: The number of unrolled steps.
    """
    chex.assert_rank(cut, 2)
    chex.assert_type(cut, bool)
    continuing = ~cut[:, :unroll]
    first = jnp.ones_like(continuing[:, :1])
    return jnp.concatenate([first, jnp.cumprod(continuing, axis=1).astype(bool)], axis=1)


def value_targets(
    reward: Array,
    terminated: Array,
    truncated: Array,
    value: Array,
    steps: Array,
    alive: Array,
    *,
    discount: float,
) -> Array:
    """Return the n-step return of each unrolled state, ``[B, unroll + 1]``.

    z_k = sum_{j<n} gamma^j r_{k+j} + gamma^n v_{k+n}. There is no bootstrap if the return ends
    within the n steps; if the episode is truncated there, the bootstrap is the value of its last
    observation. A state right after a cut has 0 if the return ended there, and its own value if
    the episode was truncated; later states are masked elsewhere.

    Args:
        reward: ``[B, W]``.
        terminated: ``[B, W]``, bool.
        truncated: ``[B, W]``, bool.
        value: The value of each row's observation, ``[B, W]``.
        steps: n for each sample, from 1 to ``W - unroll - 1``, ``[B]``.
        alive: See :func:`alive_steps`, ``[B, unroll + 1]``, bool.
        discount: Gamma.
    """
    chex.assert_rank([reward, alive], 2)
    chex.assert_equal_shape([reward, terminated, truncated, value])
    chex.assert_type([terminated, truncated, alive], bool)
    chex.assert_shape(steps, reward.shape[:1])
    states = alive.shape[1]
    longest = reward.shape[1] - states

    def rows(field: Array, j: int) -> Array:
        return field[:, j : j + states]

    target = rows(value, longest)
    for j in reversed(range(longest)):
        last = (j + 1 >= steps)[:, None] | rows(truncated, j)
        after = jnp.where(last, rows(value, j + 1), target)
        target = rows(reward, j) + discount * jnp.where(rows(terminated, j), 0.0, after)
    cut_off = jnp.pad(truncated & ~terminated, ((0, 0), (1, 0)))[:, :states]
    return jnp.where(alive, target, jnp.where(cut_off, rows(value, 0), 0.0))


def prefix_targets(reward: Array, alive: Array, horizon: int) -> Array:
    """Return the value prefix after each unrolled step, ``[B, unroll]``.

    It is the undiscounted sum of rewards since the first state, restarted every ``horizon`` steps.
    Rewards after a cut count as 0 (they are masked).

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
