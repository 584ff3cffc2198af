"""What the network is to predict, from what happened after a sampled position.

A window has ``W = unroll + td_steps + 1`` rows of one environment, the first is the sampled one.
Row i holds the reward of the step from it, whether the return ended with that step (``terminated``)
or the episode was cut off (``truncated``), and the value of its own observation. The row after an
end is the episode's last observation (its value is the bootstrap of a cut-off episode), or, after
a lost life, the first of the next life.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array


def alive_steps(terminated: Array, truncated: Array, unroll: int) -> Array:
    """Whether each unrolled state still belongs to the return of the first, ``[B, unroll + 1]``.

    Entry k is False from the first state on that an end led to. The state that the end itself led
    to (k where entry k - 1 is True and entry k is not) is still trained: its value is 0.
    """
    going_on = ~(terminated | truncated)[:, :unroll]
    first = jnp.ones_like(going_on[:, :1])
    return jnp.concatenate([first, jnp.cumprod(going_on, axis=1).astype(bool)], axis=1)


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
    """The n-step return of each unrolled state, ``[B, unroll + 1]``.

    z_k = sum_{j<n} gamma^j r_{k+j} + gamma^n v_{k+n}: without the bootstrap if the return ended
    on the way, bootstrapped at the last observation if the episode was cut off. A state that an
    end led to has 0, or its own value after a cut-off; states behind that are masked elsewhere.

    Args:
        reward: ``[B, W]``.
        terminated: ``[B, W]``.
        truncated: ``[B, W]``.
        value: Of each row's observation, ``[B, W]``.
        steps: n for each sample, from 1 to ``W - unroll - 1``, ``[B]``.
        discount: Gamma.
        unroll: Unrolled steps.
    """
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
    """The value prefix after each unrolled step, ``[B, unroll]``.

    The plain sum of rewards since the first state, begun again every ``horizon`` steps; rewards
    behind an end count as 0 (they are masked).

    Args:
        reward: ``[B, >= unroll]``.
        alive: ``[B, unroll + 1]``.
        horizon: Steps between restarts.
    """
    unroll = alive.shape[1] - 1
    earned = jnp.where(alive[:, :-1], reward[:, :unroll], 0.0)
    pieces = [
        jnp.cumsum(earned[:, begin : begin + horizon], axis=1)
        for begin in range(0, unroll, horizon)
    ]
    return jnp.concatenate(pieces, axis=1)


def steps_by_age(age: Array, longest: int, per_step: int | None) -> Array:
    """How many rewards to sum for samples of an age in interactions, ``[B]``.

    n = clip(longest - floor(age / per_step), 1, longest): an old sample's actions come from an old
    policy, so its own value estimate is trusted sooner.
    """
    if per_step is None:
        return jnp.full_like(age, longest)
    return jnp.clip(longest - age // per_step, 1, longest)
