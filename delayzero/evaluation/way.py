"""What lies on the way from stored positions to the states that a model predicts."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from delayzero.actions import Queue
from delayzero.replay import (
    Replay,
    can_be_sampled,
    draw_uniformly,
    queues_at,
    row_times,
    stacked_frames,
)

JUMP = 0.9
"""A step is a jump if the observation changes more than in this share of all measured steps."""


class Starts(NamedTuple):
    """Positions from which a model is rolled, ``[B]`` each."""

    replay: Replay
    slots: Array
    envs: Array
    times: Array
    episode: Array
    """The time at which the episode began."""
    there: Array
    """Whether there is any such position, ``[]``; without one the others mean nothing."""

    def rows(self, steps: Array) -> tuple[Array, Array]:
        """Return where the rows of these steps are: slots and environments, ``[..., B]``."""
        return (self.slots + steps[..., None]) % self.replay.rows, self.envs

    def frames(self, step: Array, count: int | None = None) -> Array:
        """Return the observations of a step, or their newest frames."""
        return stacked_frames(self.replay, self.times + step, self.envs, self.episode, count)

    def queue(self, step: Array) -> Queue:
        """Return the queues that the agent saw at a step."""
        return queues_at(self.replay, *self.rows(step))


class Events(NamedTuple):
    """What lies on the way to a rolled state; the fields exclude each other, the first wins."""

    life: Any
    """A life was lost, and the game went on. Only here states after the end of a return count."""
    reward: Any
    """There was a reward."""
    jump: Any
    """The observation changed much in one step, as where objects appear or the scene changes."""
    quiet: Any
    """None of these."""


class Way(NamedTuple):
    """What lies on the way to each state; entry k of each is for k + 1 steps, ``[H, B]``."""

    action: Array
    """The action of the last step."""
    reward: Array
    """The reward of the last step."""
    alive: Array
    """Whether the return lasts that long."""
    paid: Array
    """Whether the last step has a reward, in the same life."""
    events: Events


def draw_starts(replay: Replay, horizon: int, positions: int, key: Array) -> Starts:
    """Draw positions uniformly from those with ``horizon`` rows after them."""
    usable = can_be_sampled(replay, horizon)
    slots, envs = draw_uniformly(key, usable, positions)
    times, episode = row_times(replay)[slots], replay.start[slots, envs]
    return Starts(replay, slots, envs, times, episode, usable.any())


def way_from(starts: Starts, horizon: int) -> Way:
    """Return what lies on the way of 1 to ``horizon`` steps from each position."""
    transitions, steps = starts.replay.transitions, jnp.arange(horizon, dtype=jnp.int32)
    places = starts.rows(steps)
    reward, terminated = transitions.reward[places], transitions.terminated[places]
    in_one_game = starts.there & ~_so_far(transitions.final[starts.rows(steps + 1)])
    alive = starts.there & ~_so_far(terminated | transitions.truncated[places])
    lost, rewarded = _so_far(terminated), _so_far(reward != 0)
    jumped = _so_far(_jumps(starts, steps, in_one_game))
    calm = in_one_game & alive & ~lost
    return Way(
        action=transitions.action[places],
        reward=reward,
        alive=alive,
        paid=in_one_game & ~lost & (reward != 0),
        events=Events(
            life=in_one_game & lost,
            reward=calm & rewarded,
            jump=calm & ~rewarded & jumped,
            quiet=calm & ~rewarded & ~jumped,
        ),
    )


def _jumps(starts: Starts, steps: Array, in_one_game: Array) -> Array:
    """Return at which steps the observation changes much, ``[H, B]``."""

    def change(step: Array) -> Array:
        before, after = (starts.frames(k, 1).astype(jnp.float32) for k in (step, step + 1))
        return jnp.abs(after - before).mean(axis=tuple(range(1, before.ndim)))

    changes: Array = jax.lax.map(change, steps)
    large = jnp.nanquantile(jnp.where(in_one_game, changes, jnp.nan), JUMP)
    return changes > large


def _so_far(event: Array) -> Array:
    """Return whether an event happened at a step or before, ``[H, B]``."""
    return jax.lax.cummax(event.astype(jnp.int8)).astype(bool)
