"""Reanalysis: searching stored positions again, with newer weights."""

from __future__ import annotations

from typing import Any

import chex
import jax
import jax.numpy as jnp
from jax import Array
from jax.sharding import Mesh

from delayzero.learning.batch import Batch
from delayzero.learning.leads import rolled_latents
from delayzero.planning import Planner, SearchResult
from delayzero.replay import (
    Replay,
    Sample,
    Targets,
    keep_columns,
    newest_places,
    observations_at,
    queues_at,
    window_slots,
)
from delayzero.replay.sharding import AXIS, BY_POSITION, EVERYWHERE, positions
from delayzero.settings import LearnerConfig


def targets_of(result: SearchResult, updates: Array) -> Targets:
    """Return the targets from a search.

    Args:
        result: The search's result.
        updates: The number of updates that had made the weights of the search.
    """
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
        variables: The model's variables.
        key: A random key.
        replay: The replay; at least ``roots`` positions must be stored.
        position: The position at which the last sweep stopped, ``[]``.
        count: The number of chunks, ``[]``.
        roots: The number of positions in a chunk.
        updates: The number of updates that made the variables, ``[]``.

    Returns:
        The replay with new targets, and the position at which this sweep stopped.
    """
    chex.assert_rank([position, count, updates], 0)
    assert isinstance(replay.targets, Targets), "this replay has no targets to renew"
    stored = jnp.minimum(replay.length, replay.rows) * replay.num_envs

    def chunk(i: Array, carry: tuple[Targets, Array]) -> tuple[Targets, Array]:
        targets, position = carry
        places = (position + jnp.arange(roots, dtype=jnp.int32)) % stored
        slots, envs = places // replay.num_envs, places % replay.num_envs
        new = search_rows(
            planner,
            variables,
            jax.random.fold_in(key, i),
            replay,
            slots,
            envs,
            updates=updates,
        )
        return _put(replay.mesh, targets, slots, envs, new), (position + roots) % stored

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
    """Return the replay with new targets for its newest ``count`` rows, from their observations.

    For agents that search from predicted states while acting: the states in which their decisions
    will take effect.

    Args:
        planner: The search.
        variables: The model's variables.
        key: A random key.
        replay: The replay.
        count: The number of rows.
        updates: The number of updates that made the variables, ``[]``.
    """
    assert isinstance(replay.targets, Targets), "this replay has no targets to renew"
    times, envs = newest_places(replay, count)
    slots = times % replay.rows
    new = search_rows(planner, variables, key, replay, slots, envs, updates=updates)
    return replay._replace(targets=_put(replay.mesh, replay.targets, slots, envs, new))


def search_rows(
    planner: Planner,
    variables: Any,
    key: Array,
    replay: Replay,
    slots: Array,
    envs: Array,
    *,
    updates: Array,
) -> Targets:
    """Search from stored positions.

    Args:
        planner: The search.
        variables: The model's variables.
        key: A random key.
        replay: The replay.
        slots: The slots of the positions, ``[B]``.
        envs: Their environments, ``[B]``.
        updates: The number of updates that made the variables, ``[]``.

    Returns:
        The targets, ``[B, ...]``.
    """
    chex.assert_rank([slots, envs, updates], [1, 1, 0])
    observation = observations_at(replay, slots, envs)
    model = planner.model.bind(variables)
    latent = model.represent(observation, queues_at(replay, slots, envs))
    return targets_of(_search(replay.mesh, planner, variables, key, latent), updates)


def search_windows(
    planner: Planner,
    variables: Any,
    key: Array,
    replay: Replay,
    sample: Sample,
    config: LearnerConfig,
    *,
    updates: Array,
) -> Targets:
    """Search the sampled windows.

    The unrolled states are searched. The rows after them are searched too if targets bootstrap
    from search values; otherwise they get the network's value.

    Args:
        planner: The search.
        variables: The model's variables.
        key: A random key.
        replay: The replay.
        sample: The sampled positions.
        config: The learner's settings.
        updates: The number of updates that made the variables, ``[]``.

    Returns:
        The targets of the windows, ``[B, W, ...]``.
    """
    chex.assert_rank(updates, 0)
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
        flat = targets_of(_search(replay.mesh, planner, variables, key, latent), updates)
        return Targets(*(field.reshape(batch, width, *field.shape[1:]) for field in flat))
    value = planner.model.support.decode(model.predict(latent).value_logits)
    value = value.reshape(batch, width)
    states = config.unroll + 1
    latent = latent.reshape(batch, width, *latent.shape[1:])[:, :states]
    flat_latent = latent.reshape(batch * states, *latent.shape[2:])
    search_result = _search(replay.mesh, planner, variables, key, flat_latent)
    policy = search_result.policy.reshape(batch, states, -1)
    unused = jnp.zeros((batch, width - states, policy.shape[-1]))
    return Targets(
        policy=jnp.concatenate([policy, unused], axis=1),
        search_value=value,
        network_value=value,
        made_at=jnp.broadcast_to(updates, value.shape).astype(jnp.int32),
    )


def search_leads(
    planner: Planner, variables: Any, key: Array, batch: Batch, mesh: Mesh | None = None
) -> Array:
    """Search from where the leads of a batch end, and from the states that are unrolled from there.

    Args:
        planner: The search.
        variables: The model's variables.
        key: A random key.
        batch: A batch with leads, before augmentation.
        mesh: The devices that share the batch; None for one device.

    Returns:
        The policies, ``[F, K + 1, A]``.
    """
    assert batch.lead is not None, "no position of this batch has a lead"
    count, steps = batch.lead.mask.shape[0], batch.action.shape[1]
    model = planner.model.bind(variables)
    latent = model.represent(batch.observation[:count])
    latents = [rolled_latents(planner.model, variables, latent, batch.lead)]
    for k in range(steps):
        latents.append(model.step(latents[-1], batch.action[:count, k]))
    roots = jnp.concatenate(latents)
    policy = _search(mesh, planner, variables, key, roots).policy
    return policy.reshape(steps + 1, count, -1).swapaxes(0, 1)


def _search(
    mesh: Mesh | None, planner: Planner, variables: Any, key: Array, latent: Array
) -> SearchResult:
    """Search from latents ``[B, ...]``; on several devices that divide B, each from its own.

    A device then searches with noise of its own and waits for no other.
    """
    if mesh is None or positions(mesh, latent) == EVERYWHERE:
        return planner.search(variables, key, latent, explore=True)

    def local(variables: Any, key: Array, latent: Array) -> SearchResult:
        own_key = jax.random.fold_in(key, jax.lax.axis_index(AXIS))
        return planner.search(variables, own_key, latent, explore=True)

    result: SearchResult = jax.shard_map(
        local,
        mesh=mesh,
        in_specs=(EVERYWHERE, EVERYWHERE, BY_POSITION),
        out_specs=BY_POSITION,
        check_vma=False,  # the loops of a search begin with constants, which do not vary
    )(variables, key, latent)
    return result


def _put(mesh: Mesh | None, targets: Targets, slots: Array, envs: Array, new: Targets) -> Targets:
    """Return the targets with new ones at ``[slots, envs]``."""
    pairs = zip(targets, new, strict=True)
    put = Targets(*(field.at[slots, envs].set(value) for field, value in pairs))
    kept: Targets = keep_columns(mesh, put)
    return kept
