"""Searching stored positions again, with newer weights."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from delayzero.planning import Planner, SearchResult
from delayzero.replay import (
    Replay,
    Sample,
    Targets,
    observations_at,
    queues_at,
    window_slots,
)
from delayzero.settings import LearnerConfig


def targets_of(result: SearchResult, updates: Array) -> Targets:
    """What is kept of a search, by weights that had had so many updates."""
    made_at = jnp.broadcast_to(updates, result.value.shape).astype(jnp.int32)
    return Targets(result.policy, result.value, result.network_value, made_at)


def sweep(
    planner: Planner,
    variables: Any,
    key: Array,
    replay: Replay,
    position: Array,
    count: Array,
    *,
    roots: int,
    updates: Array,
) -> tuple[Replay, Array]:
    """Search ``count`` chunks of ``roots`` stored positions, in their order in the ring.

    Args:
        planner: The search.
        variables: The model's.
        key: A random key.
        replay: At least ``roots`` positions must be stored.
        position: Where the last sweep stopped, ``[]``.
        count: How many chunks, ``[]``.
        roots: Positions in a chunk.
        updates: That the variables have had, ``[]``.

    Returns:
        The replay with new targets, and where this sweep stopped.
    """
    stored = jnp.minimum(replay.length, replay.rows) * replay.num_envs

    def chunk(i: Array, carry: tuple[Targets, Array]) -> tuple[Targets, Array]:
        targets, position = carry
        places = (position + jnp.arange(roots, dtype=jnp.int32)) % stored
        slots, envs = places // replay.num_envs, places % replay.num_envs
        new = searched(
            planner,
            variables,
            jax.random.fold_in(key, i),
            replay,
            slots,
            envs,
            updates=updates,
        )
        return _put(targets, slots, envs, new), (position + roots) % stored

    assert isinstance(replay.targets, Targets)
    targets, position = jax.lax.fori_loop(0, count, chunk, (replay.targets, position))
    return replay._replace(targets=targets), position


def with_newest_searched(
    planner: Planner,
    variables: Any,
    key: Array,
    replay: Replay,
    count: int,
    *,
    updates: Array,
) -> Replay:
    """The replay with targets for its newest ``count`` rows, searched at what was really seen.

    For agents whose own searches were about other states, those that their decisions would meet.
    """
    slots, envs = newest_places(replay, count)
    new = searched(planner, variables, key, replay, slots, envs, updates=updates)
    assert isinstance(replay.targets, Targets)
    return replay._replace(targets=_put(replay.targets, slots, envs, new))


def newest_places(replay: Replay, count: int) -> tuple[Array, Array]:
    """Slots and environments of the newest ``count`` rows, ``[count * N]`` both."""
    times = replay.length - count + jnp.arange(count, dtype=jnp.int32)
    slots = jnp.repeat(times % replay.rows, replay.num_envs)
    return slots, jnp.tile(jnp.arange(replay.num_envs, dtype=jnp.int32), count)


def searched(
    planner: Planner,
    variables: Any,
    key: Array,
    replay: Replay,
    slots: Array,
    envs: Array,
    *,
    updates: Array,
) -> Targets:
    """What a search finds at stored positions, ``[B, ...]``."""
    observation = observations_at(replay, slots, envs)
    model = planner.model.bind(variables)
    latent = model.represent(observation, queues_at(replay, slots, envs))
    return targets_of(planner.search(variables, key, latent, explore=True), updates)


def searched_windows(
    planner: Planner,
    variables: Any,
    key: Array,
    replay: Replay,
    sample: Sample,
    config: LearnerConfig,
    *,
    updates: Array,
) -> Targets:
    """Policies and values of sampled windows, searched now, ``[B, W, ...]``.

    The unrolled states are searched; the rows behind them are searched too if targets bootstrap
    from searched values, and get the network's value otherwise.
    """
    window = config.window
    slots, envs = window_slots(replay, sample, window)
    batch, width = slots.shape
    observation = observations_at(replay, slots, envs)
    model = planner.model.bind(variables)
    queue = jax.tree.map(
        lambda x: x.reshape(batch * width, *x.shape[2:]), queues_at(replay, slots, envs)
    )
    latent = model.represent(observation.reshape(batch * width, *observation.shape[2:]), queue)
    if config.bootstrap == "search" or config.mixed_value_after is not None:
        found = planner.search(variables, key, latent, explore=True)
        flat = targets_of(found, updates)
        return Targets(*(field.reshape(batch, width, *field.shape[1:]) for field in flat))
    value = planner.model.support.decode(model.predict(latent).value_logits)
    value = value.reshape(batch, width)
    states = config.unroll + 1
    latent = latent.reshape(batch, width, *latent.shape[1:])[:, :states]
    flat_latent = latent.reshape(batch * states, *latent.shape[2:])
    found = planner.search(variables, key, flat_latent, explore=True)
    policy = found.policy.reshape(batch, states, -1)
    unused = jnp.zeros((batch, width - states, policy.shape[-1]))
    return Targets(
        policy=jnp.concatenate([policy, unused], axis=1),
        search_value=value,
        network_value=value,
        made_at=jnp.broadcast_to(updates, value.shape).astype(jnp.int32),
    )


def _put(targets: Targets, slots: Array, envs: Array, new: Targets) -> Targets:
    pairs = zip(targets, new, strict=True)
    return Targets(*(field.at[slots, envs].set(value) for field, value in pairs))
