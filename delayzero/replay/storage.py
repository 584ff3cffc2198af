"""The replay: a ring of rows, one row for each step of all environments.

A row t of one environment holds the observation o_t, the action that was executed there, what came
of it, and the targets that a search made for o_t. Vector environments reset in the step after an
end, so the last observation of an episode has a row of its own, marked ``final``: no action is
taken from it, but its value is the bootstrap of an episode that was cut off. A lost life ends the
return (``terminated``) and nothing else: the game, the row after it and the frame stack go on.

Rows are named by their time, counted from the beginning of the run; row t lies in slot
``t % rows``. Everything is a pure function of arrays, so it runs inside the learner's compiled
call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from delayzero.actions import Queue
from delayzero.replay.frames import Frames, HostFrames, empty_frames, gather_frames
from delayzero.spaces import Spaces


class Transitions(NamedTuple):
    """What happened, ``[..., N]`` each."""

    first: Array
    """An episode begins with this observation; frame stacks begin here."""
    final: Array
    """The last observation of an episode: no transition leaves it."""
    action: Array
    """The executed action."""
    reward: Array
    """What it brought."""
    terminated: Array
    """The return ends with this reward: the game is over, or a life was lost."""
    truncated: Array
    """The episode was cut off after this step; the return goes on."""


class Decisions(NamedTuple):
    """What the agent decided, beside what happened."""

    decided: Array
    """The action that it chose, ``[..., N]``; it runs ``delay`` steps later, or never."""
    delay: Array
    """z_t, ``[..., N]``."""
    decision_time: Array
    """tau_t, when the action that ran here was decided, counted from the episode's first step;
    negative for the first queue's actions, ``[..., N]``."""
    queue: Queue | tuple[()] = ()
    """For agents whose networks see them: the actions that were pending before the decision,
    ``[..., N, W]``."""


class Targets(NamedTuple):
    """What a search found at a row's observation."""

    policy: Array
    """The improved policy, ``[..., N, A]``."""
    search_value: Array
    """The search's value, ``[..., N]``."""
    network_value: Array
    """The network's value, ``[..., N]``."""
    made_at: Array
    """The number of updates that the weights of this search had had, ``[..., N]``."""


@jax.tree_util.register_static
@dataclass(frozen=True)
class Layout:
    """What is fixed about a replay; static under jit."""

    stack: int = 1
    """Frames in an observation."""


class Replay(NamedTuple):
    """The whole replay; ``R`` slots of ``N`` environments."""

    frames: Frames
    """Observations, ``[R, N, ...]``."""
    transitions: Transitions
    decisions: Decisions
    targets: Targets | tuple[()]
    """Empty for agents that do not search."""
    start: Array
    """The time of the first row of a row's episode, ``[R, N]``."""
    priority: Array
    """``[R, N]``."""
    length: Array
    """Rows ever appended, ``[]``."""
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
        """Frames in an observation."""
        return self.layout.stack


class Arrays(NamedTuple):
    """The arrays of a replay, as they are saved."""

    frames: Any
    """``()`` where they are left out."""
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
    queue: int = 0,
    searched: bool = True,
    host_frames: bool = False,
) -> Replay:
    """An empty replay.

    Args:
        rows: Slots, each for one step of all environments.
        num_envs: Environments.
        spaces: What the environments show and take.
        stack: Frames in an observation.
        queue: The width of the queues that the agent's networks see; 0 if they see none.
        searched: Whether rows have targets from a search.
        host_frames: Keep the frames in the host's memory.
    """
    grid, actions = (rows, num_envs), spaces.actions

    def flags() -> Array:
        return jnp.zeros(grid, bool)

    def numbers() -> Array:
        return jnp.zeros(grid, jnp.float32)

    def counts() -> Array:
        return jnp.zeros(grid, jnp.int32)

    return Replay(
        frames=empty_frames(rows, num_envs, spaces.shape, spaces.dtype, host_frames),
        transitions=Transitions(flags(), flags(), counts(), numbers(), flags(), flags()),
        decisions=Decisions(
            decided=counts(),
            delay=counts(),
            decision_time=counts(),
            queue=_empty_queues((*grid, queue)) if queue else (),
        ),
        targets=Targets(
            policy=jnp.full((*grid, actions.count), 1 / actions.count, jnp.float32),
            search_value=numbers(),
            network_value=numbers(),
            made_at=counts(),
        )
        if searched
        else (),
        start=counts(),
        priority=jnp.ones(grid, jnp.float32),
        length=jnp.zeros((), jnp.int32),
        layout=Layout(stack),
    )


def _empty_queues(shape: tuple[int, ...]) -> Queue:
    return Queue(jnp.zeros(shape, jnp.int16), jnp.zeros(shape, bool))


def append(
    replay: Replay,
    frames: Array | None,
    rows: Transitions,
    targets: Targets | tuple[()],
    decisions: Decisions | None = None,
    *,
    ahead: int = 0,
) -> Replay:
    """Store ``T`` further rows; they get the largest priority of those that can be sampled.

    Args:
        replay: The replay.
        frames: Their observations, ``[T, N, ...]``; None if frames are kept on the host, where
            the caller writes them.
        rows: What happened, ``[T, N]``.
        targets: What the searches found while acting, ``[T, N, ...]``.
        decisions: What the agent decided, ``[T, N, ...]``; the actions that ran, if not given.
        ahead: See :func:`can_be_sampled`: others keep the priority that they were stored with,
            and would hand it on forever.
    """
    count = rows.action.shape[0]
    chex.assert_shape(list(rows), (count, replay.num_envs))
    assert count <= replay.rows, "more rows than the replay has slots"
    times = replay.length + jnp.arange(count, dtype=jnp.int32)
    slots = times % replay.rows
    before = replay.start[(replay.length - 1) % replay.rows]
    begun = jnp.where(rows.first, times[:, None], 0)
    start = jnp.maximum(lax.cummax(begun), before)
    top = jnp.max(jnp.where(can_be_sampled(replay, ahead), replay.priority, 0.0))
    top = jnp.where(top > 0, top, 1.0)
    if decisions is None:
        decisions = Decisions(rows.action, jnp.zeros_like(start), times[:, None] - start)

    def put(field: Array, value: Array) -> Array:
        return field.at[slots].set(value.astype(field.dtype))

    kept = replay.frames
    if not isinstance(kept, HostFrames):
        assert frames is not None, "frames kept on the device must be given"
        kept = put(kept, frames)
    return Replay(
        frames=kept,
        transitions=Transitions(*map(put, replay.transitions, rows)),
        decisions=jax.tree.map(put, replay.decisions, decisions),
        targets=jax.tree.map(put, replay.targets, targets),
        start=put(replay.start, start),
        priority=put(replay.priority, jnp.broadcast_to(top, start.shape)),
        length=replay.length + count,
        layout=replay.layout,
    )


def cut_off(replay: Replay) -> Replay:
    """The replay with its newest rows as the last ones of their episodes.

    For environments that could not be brought back to where they were: what the newest rows led
    to is not known, so no transition leaves them, and the step to each was its episode's last.
    Only where that step ended the return nothing more need be known.
    """
    newest, before = (replay.length - 1) % replay.rows, (replay.length - 2) % replay.rows
    happened = replay.transitions
    unknown = ~happened.terminated[newest]
    led_here = ~happened.final[before] & ~happened.terminated[before] & (replay.length > 1)
    changed = {
        "final": happened.final.at[newest].max(unknown),
        "reward": happened.reward.at[newest].multiply(~unknown),
        "truncated": happened.truncated.at[newest].min(~unknown).at[before].max(unknown & led_here),
    }
    return replay._replace(transitions=happened._replace(**changed))


def row_times(replay: Replay) -> Array:
    """The time of the row in each slot, ``[R]``; negative where nothing was stored yet."""
    slots = jnp.arange(replay.rows, dtype=jnp.int32)
    newest = replay.length - 1
    return newest - (newest - slots) % replay.rows


def can_be_sampled(replay: Replay, ahead: int) -> Array:
    """Rows from which a transition leaves and whose whole window is stored, ``[R, N]``.

    In a full ring the oldest rows have lost frames of their stacks, and are left out.

    Args:
        replay: The replay.
        ahead: Rows that a sample needs behind its own.
    """
    times = row_times(replay)
    lost = replay.length - replay.rows
    oldest = jnp.where(lost > 0, lost + replay.stack - 1, 0)
    complete = (times >= oldest) & (times + ahead < replay.length)
    return complete[:, None] & ~replay.transitions.final


def stacked_frames(
    replay: Replay, times: Array, envs: Array, start: Array, count: int | None = None
) -> Array:
    """Stacks of the ``count`` newest frames, oldest first; an episode's first one is repeated.

    Args:
        replay: The replay.
        times: Of the newest frame of each stack, ``[...]``.
        envs: Of which environment, ``[...]``.
        start: The time before which no frame may be taken, ``[...]``.
        count: How many; as many as an observation has by default.

    Returns:
        ``[..., count, *shape]``.
    """
    count = replay.stack if count is None else count
    back = jnp.arange(count - 1, -1, -1, dtype=jnp.int32)
    wanted = jnp.maximum(times[..., None] - back, start[..., None])
    envs = jnp.broadcast_to(envs[..., None], wanted.shape)
    return gather_frames(replay.frames, wanted % replay.rows, envs)


def observations_at(replay: Replay, slots: Array, envs: Array) -> Array:
    """The observations at rows, as stacks, ``[..., S, *shape]``."""
    return stacked_frames(replay, row_times(replay)[slots], envs, replay.start[slots, envs])


def queues_at(replay: Replay, slots: Array, envs: Array) -> Queue:
    """Return the queues that the agent saw at rows, ``[..., W]``; of no slots if it sees none."""
    queue = replay.decisions.queue
    if not isinstance(queue, Queue):
        return _empty_queues((*slots.shape, 0))
    return Queue(queue.action[slots, envs], queue.mask[slots, envs])


def targets_at(replay: Replay, slots: Array, envs: Array) -> Targets:
    """Return the stored targets at rows, ``[..., ...]``."""
    assert isinstance(replay.targets, Targets), "an agent that does not search has no targets"
    return Targets(*(column[slots, envs] for column in replay.targets))


def arrays_of(replay: Replay, *, frames: bool = True) -> Arrays:
    """The arrays of a replay alone, to be saved; without its frames if so wanted."""
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
    """A replay like this one with saved arrays, kept where its own are, which are not read."""
    changed = replay._replace(**arrays._asdict())
    if frames and not isinstance(replay.frames, HostFrames):
        return changed
    if frames and isinstance(replay.frames, HostFrames):
        replay.frames.array = np.require(arrays.frames, requirements="W")
    return changed._replace(frames=replay.frames)
