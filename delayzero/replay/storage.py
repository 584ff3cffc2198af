"""The replay: a ring of rows, one row for each step of all environments.

Row t of an environment holds the observation o_t, the action executed there, its outcome, and the
targets from a search at o_t. Vector environments reset in the step after an end, so the last
observation of an episode has a separate row, marked ``final``: no action is taken from it, but its
value is the bootstrap of a truncated episode. A lost life ends the return (``terminated``) and
nothing else: the game, the rows and the frame stack continue.

A row is identified by its time, counted from the beginning of the run; row t is stored in slot
``t % rows``. All functions except :func:`release` and :func:`with_arrays` are pure, so they run
inside the learner's compiled call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.sharding import Mesh, NamedSharding

from delayzero.actions import Queue
from delayzero.replay.frames import Frames, HostFrames, empty_frames, gather_frames
from delayzero.replay.sharding import by_environment, everywhere, gather_sharded, keep_columns
from delayzero.spaces import Spaces


class Transitions(NamedTuple):
    """The executed steps; each field is ``[..., N]``."""

    first: Array
    """An episode begins with this observation; frame stacks begin here."""
    final: Array
    """The last observation of an episode: no transition leaves it."""
    action: Array
    """The executed action."""
    reward: Array
    """The reward of the executed action."""
    terminated: Array
    """The return ends with this reward: the game is over, or a life was lost."""
    truncated: Array
    """The episode was cut off after this step; the return continues."""


class Decisions(NamedTuple):
    """The agent's decisions, which may differ from the executed actions."""

    decided: Array
    """The action that the agent chose, ``[..., N]``; it is executed ``delay`` steps later, or
    never."""
    delay: Array
    """The delay z_t, ``[..., N]``."""
    decision_time: Array
    """The time tau_t at which the action executed here was chosen, ``[..., N]``, counted from the
    episode's first step; negative for the first queue's actions."""
    queue: Queue | tuple[()] = ()
    """For agents whose networks see them: the actions pending before the decision,
    ``[..., N, W]``."""


class Targets(NamedTuple):
    """The results of a search at a row's observation."""

    policy: Array
    """The improved policy, ``[..., N, A]``."""
    search_value: Array
    """The search's value, ``[..., N]``."""
    network_value: Array
    """The network's value, ``[..., N]``."""
    made_at: Array
    """The number of updates that had made the weights of this search, ``[..., N]``."""


@jax.tree_util.register_static
@dataclass(frozen=True)
class Layout:
    """The fixed settings of a replay; static under jit."""

    stack: int = 1
    """The number of frames in an observation."""
    mesh: Mesh | None = None
    """The devices that it is divided over, by environment; None for one device."""


class Replay(NamedTuple):
    """The whole replay; ``R`` slots of ``N`` environments."""

    frames: Frames
    """Observations, ``[R, N, ...]``."""
    transitions: Transitions
    decisions: Decisions
    targets: Targets | tuple[()]
    """Empty for agents that do not search."""
    start: Array
    """The time of the first row of each row's episode, ``[R, N]``."""
    priority: Array
    """The sampling priority of each row, ``[R, N]``."""
    length: Array
    """The number of rows ever appended, ``[]``."""
    layout: Layout = Layout()

    @property
    def rows(self) -> int:
        """The number of slots R."""
        return int(self.priority.shape[0])

    @property
    def num_envs(self) -> int:
        """The number of environments N."""
        return int(self.priority.shape[1])

    @property
    def stack(self) -> int:
        """The number of frames in an observation."""
        return self.layout.stack

    @property
    def mesh(self) -> Mesh | None:
        """The devices that it is divided over; None for one device."""
        return self.layout.mesh


class Arrays(NamedTuple):
    """The arrays of a replay, as saved in checkpoints."""

    frames: Any
    """``()`` where they are omitted."""
    transitions: Transitions
    decisions: Decisions
    targets: Targets | tuple[()]
    start: Any
    priority: Any
    length: Any


def create(
    rows: int,
    num_envs: int,
    spaces: Spaces,
    *,
    stack: int = 1,
    queue_width: int = 0,
    searched: bool = True,
    host_frames: bool = False,
    mesh: Mesh | None = None,
) -> Replay:
    """Create an empty replay.

    Args:
        rows: The number of slots, each for one step of all environments.
        num_envs: The number of environments.
        spaces: The observations and actions of the environments.
        stack: The number of frames in an observation.
        queue_width: The width of the queues that the agent's networks see; 0 if they see none.
        searched: Whether rows have targets from a search.
        host_frames: Whether to keep the frames in host memory.
        mesh: The devices to divide it over, by environment; None for one device.
    """
    grid, actions, place = (rows, num_envs), spaces.actions, by_environment(mesh)

    def flags() -> Array:
        return jnp.zeros(grid, bool, device=place)

    def numbers() -> Array:
        return jnp.zeros(grid, jnp.float32, device=place)

    def counts() -> Array:
        return jnp.zeros(grid, jnp.int32, device=place)

    return Replay(
        frames=empty_frames(rows, num_envs, spaces.shape, spaces.dtype, host_frames, mesh),
        transitions=Transitions(flags(), flags(), counts(), numbers(), flags(), flags()),
        decisions=Decisions(
            decided=counts(),
            delay=counts(),
            decision_time=counts(),
            queue=_empty_queues((*grid, queue_width), place) if queue_width else (),
        ),
        targets=Targets(
            policy=jnp.full((*grid, actions.count), 1 / actions.count, jnp.float32, device=place),
            search_value=numbers(),
            network_value=numbers(),
            made_at=counts(),
        )
        if searched
        else (),
        start=counts(),
        priority=jnp.ones(grid, jnp.float32, device=place),
        length=jnp.zeros((), jnp.int32, device=everywhere(mesh)),
        layout=Layout(stack, mesh),
    )


def _empty_queues(shape: tuple[int, ...], place: NamedSharding | None = None) -> Queue:
    return Queue(jnp.zeros(shape, jnp.int16, device=place), jnp.zeros(shape, bool, device=place))


def append(
    replay: Replay,
    frames: Array | None,
    rows: Transitions,
    targets: Targets | tuple[()],
    decisions: Decisions | None = None,
    *,
    ahead: int = 0,
) -> Replay:
    """Append ``T`` rows; they get the largest priority of the rows that can be sampled.

    Args:
        replay: The replay.
        frames: The observations, ``[T, N, ...]``; None if frames are kept on the host, where the
            caller writes them.
        rows: The executed steps, ``[T, N]``.
        targets: The results of the searches while acting, ``[T, N, ...]``.
        decisions: The agent's decisions, ``[T, N, ...]``; by default the executed actions.
        ahead: See :func:`can_be_sampled`. Rows that can't be sampled are ignored here: their
            priority never changes, and new rows would inherit it forever.
    """
    count = rows.action.shape[0]
    chex.assert_shape(list(rows), (count, replay.num_envs))
    assert count <= replay.rows, f"{count} rows do not fit into {replay.rows} slots"
    times = replay.length + jnp.arange(count, dtype=jnp.int32)
    slots = times % replay.rows
    last_start = replay.start[(replay.length - 1) % replay.rows]
    new_starts = jnp.where(rows.first, times[:, None], 0)
    start = jnp.maximum(lax.cummax(new_starts), last_start)
    top = jnp.max(jnp.where(can_be_sampled(replay, ahead), replay.priority, 0.0))
    top = jnp.where(top > 0, top, 1.0)
    if decisions is None:
        decisions = Decisions(rows.action, jnp.zeros_like(start), times[:, None] - start)

    def put(field: Array, value: Array) -> Array:
        chex.assert_shape(value, (count, *field.shape[1:]))
        return field.at[slots].set(value.astype(field.dtype))

    stored_frames = replay.frames
    if not isinstance(stored_frames, HostFrames):
        assert frames is not None, "this replay keeps frames on the device: pass frames"
        stored_frames = put(stored_frames, frames)
    stored: Replay = keep_columns(
        replay.mesh,
        Replay(
            frames=stored_frames,
            transitions=Transitions(*map(put, replay.transitions, rows)),
            decisions=jax.tree.map(put, replay.decisions, decisions),
            targets=jax.tree.map(put, replay.targets, targets),
            start=put(replay.start, start),
            priority=put(replay.priority, jnp.broadcast_to(top, start.shape)),
            length=replay.length + count,
            layout=replay.layout,
        ),
    )
    return stored


def cut_off(replay: Replay) -> Replay:
    """Return the replay with its newest rows marked as the last ones of their episodes.

    For environments whose state could not be restored. The outcome of the newest rows is unknown,
    so no transition leaves them, and the step to each of them is its episode's last. The exception
    is a newest row whose step ended the return: it is complete and stays as it is.
    """
    newest, previous = (replay.length - 1) % replay.rows, (replay.length - 2) % replay.rows
    old = replay.transitions
    unknown = ~old.terminated[newest]
    led_here = ~old.final[previous] & ~old.terminated[previous] & (replay.length > 1)
    truncated = old.truncated.at[newest].min(~unknown).at[previous].max(unknown & led_here)
    changed = {
        "final": old.final.at[newest].max(unknown),
        "reward": old.reward.at[newest].multiply(~unknown),
        "truncated": truncated,
    }
    transitions = keep_columns(replay.mesh, old._replace(**changed))
    return replay._replace(transitions=transitions)


def row_times(replay: Replay) -> Array:
    """Return the time of the row in each slot, ``[R]``; negative in slots that are still empty."""
    slots = jnp.arange(replay.rows, dtype=jnp.int32)
    newest = replay.length - 1
    return newest - (newest - slots) % replay.rows


def newest_places(replay: Replay, count: int, *, before: int = 0) -> tuple[Array, Array]:
    """Return times and environments of the newest ``count`` rows, both ``[count * N]``.

    Args:
        replay: The replay.
        count: The number of rows.
        before: The number of newer rows to leave out. Times of rows that do not exist are negative.
    """
    times = replay.length - before - count + jnp.arange(count, dtype=jnp.int32)
    envs = jnp.arange(replay.num_envs, dtype=jnp.int32)
    return jnp.repeat(times, replay.num_envs), jnp.tile(envs, count)


def can_be_sampled(replay: Replay, ahead: int) -> Array:
    """Return which rows have an outgoing transition and a complete window, ``[R, N]``.

    In a full ring the oldest rows have lost frames of their stacks and are excluded.

    Args:
        replay: The replay.
        ahead: The number of rows after its own that a sample needs.
    """
    times = row_times(replay)
    complete = (times >= oldest_time(replay)) & (times + ahead < replay.length)
    return complete[:, None] & ~replay.transitions.final


def oldest_time(replay: Replay) -> Array:
    """Return the time of the oldest row whose observation has all its frames, ``[]``."""
    lost = replay.length - replay.rows
    return jnp.where(lost > 0, lost + replay.stack - 1, 0)


def rows_at(replay: Replay, columns: Any, slots: Array, envs: Array) -> Any:
    """Return the rows of columns of the replay, ``[..., ...]``.

    Args:
        replay: The replay.
        columns: A tree of ``[R, N, ...]``.
        slots: ``[...]``.
        envs: ``[...]``.
    """
    chex.assert_equal_shape([slots, envs])
    if replay.mesh is not None:
        return gather_sharded(replay.mesh, columns, slots, envs)
    return jax.tree.map(lambda column: column[slots, envs], columns)


def episode_starts(replay: Replay, times: Array, envs: Array) -> Array:
    """Return the time at which the episode of each row began, ``[...]``.

    Args:
        replay: The replay.
        times: The times of the rows, ``[...]``.
        envs: Their environments, ``[...]``.
    """
    starts: Array = rows_at(replay, replay.start, times % replay.rows, envs)
    return starts


def stacked_frames(
    replay: Replay, times: Array, envs: Array, start: Array, count: int | None = None
) -> Array:
    """Return stacks of consecutive frames, oldest first; an episode's first frame is repeated.

    Args:
        replay: The replay.
        times: The time of the newest frame of each stack, ``[...]``.
        envs: The environment of each stack, ``[...]``; may broadcast against ``times``.
        start: The time before which no frame may be used, ``[...]``; may broadcast too.
        count: The number of frames in a stack; by default that of an observation.

    Returns:
        ``[..., count, *shape]``.
    """
    chex.assert_equal_rank([times, envs, start])
    chex.assert_type([times, envs, start], int)
    count = replay.stack if count is None else count
    back = jnp.arange(count - 1, -1, -1, dtype=jnp.int32)
    frame_times = jnp.maximum(times[..., None] - back, start[..., None])
    envs = jnp.broadcast_to(envs[..., None], frame_times.shape)
    return gather_frames(replay.frames, frame_times % replay.rows, envs, replay.mesh)


def observations_at(replay: Replay, slots: Array, envs: Array) -> Array:
    """Return the observations at rows, as stacks ``[..., S, *shape]``."""
    start = rows_at(replay, replay.start, slots, envs)
    return stacked_frames(replay, row_times(replay)[slots], envs, start)


def queues_at(replay: Replay, slots: Array, envs: Array) -> Queue:
    """Return the queues that the agent saw at rows, ``[..., W]``; W is 0 if it sees none."""
    if not isinstance(replay.decisions.queue, Queue):
        return _empty_queues((*slots.shape, 0))
    queue: Queue = rows_at(replay, replay.decisions.queue, slots, envs)
    return queue


def targets_at(replay: Replay, slots: Array, envs: Array) -> Targets:
    """Return the stored targets at rows, ``[..., ...]``."""
    assert isinstance(replay.targets, Targets), "an agent that does not search has no targets"
    targets: Targets = rows_at(replay, replay.targets, slots, envs)
    return targets


def arrays_of(replay: Replay, *, frames: bool = True) -> Arrays:
    """Return the arrays of a replay, to be saved; ``frames=False`` omits its frames."""
    arrays = Arrays(*(getattr(replay, name) for name in Arrays._fields))
    if not frames:
        return arrays._replace(frames=())
    if isinstance(replay.frames, HostFrames):
        return arrays._replace(frames=replay.frames.array)
    return arrays


def release(replay: Replay, *, frames: bool = True) -> None:
    """Free the memory of a replay whose arrays :func:`with_arrays` will replace."""
    if frames and isinstance(replay.frames, HostFrames):
        replay.frames.array = replay.frames.array[:0].copy()
    for array in jax.tree.leaves(arrays_of(replay, frames=False)):
        array.delete()
    if frames and not isinstance(replay.frames, HostFrames):
        replay.frames.delete()


def with_arrays(replay: Replay, arrays: Arrays, *, frames: bool = True) -> Replay:
    """Return this replay with its arrays replaced by saved ones, without reading the old ones.

    Frames stay where this replay keeps them, on the device or on the host; ``frames=False`` keeps
    the old frames.
    """
    changed = replay._replace(**arrays._asdict())
    if frames and not isinstance(replay.frames, HostFrames):
        return changed
    if frames and isinstance(replay.frames, HostFrames):
        replay.frames.array = np.require(arrays.frames, requirements="W")
    return changed._replace(frames=replay.frames)
