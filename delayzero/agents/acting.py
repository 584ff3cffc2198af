"""Acting: stack the newest frames, and let an agent decide."""

from __future__ import annotations

from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
from jax import Array

from delayzero.actions import ActionSpec, Queue
from delayzero.agents.agent import Agent, Decision, Observed, State
from delayzero.spaces import Spaces


class Carry(NamedTuple):
    """What acting carries from step to step."""

    frames: Array
    """The newest frames, the newest last, ``[N, S + D, ...]``: a stack, and as many more as
    observations may be late."""
    agent: State
    """The agent's own state."""


class Foreseen(NamedTuple):
    """What an environment says that its pending actions will lead to."""

    frames: Any
    """The last frames after them, ``[N, S, ...]``."""
    found: Any
    """How many of those there are, ``[N]``."""


def begin_acting(agent: Agent, num_envs: int, spaces: Spaces, stack: int, latest: int = 0) -> Carry:
    """Return what is carried before the first step; the first observation fills the frames.

    Args:
        agent: Who will decide.
        num_envs: N.
        spaces: What the environments show.
        stack: S, the frames of an observation.
        latest: D, the longest delay of observations.
    """
    frames = jnp.zeros((num_envs, stack + latest, *spaces.shape), spaces.dtype)
    return Carry(frames, agent.init_state(num_envs))


def act(
    agent: Agent,
    variables: Any,
    carry: Carry,
    observation: Array,
    first: Array,
    queue: Queue,
    key: Array,
    *,
    explore: bool,
    progress: Array | float = 0.0,
    at_random: Array | bool = False,
    age: Array | None = None,
    latest: int = 0,
    foreseen: Foreseen | None = None,
) -> tuple[Carry, Decision]:
    """Decide for ``N`` environments.

    Args:
        agent: Who decides.
        variables: What it has learned.
        carry: What :func:`begin_acting` or the last step returned.
        observation: The newest frames, ``[N, ...]``; the agent sees none younger than ``age``.
        first: Where an episode begins, ``[N]``.
        queue: The actions that ran since the frame that the agent sees, then the pending ones.
        key: A random key.
        explore: With noise (self-play), or without (evaluation).
        progress: The share of the training that is done.
        at_random: Whether to decide uniformly instead, ``[]``.
        age: How many steps late the frame is that the agent sees, ``[N]``; None: not late.
        latest: D, the longest such delay.
        foreseen: Where the environments tell what the pending actions lead to: the agent decides
            as if it saw that, with no action pending.

    Returns:
        What to carry to the next step, and the decision.
    """
    chex.assert_equal_shape_prefix([carry.frames, observation, first, queue.mask], 1)
    decision_key, random_key = jax.random.split(key)
    frames = carry.frames
    moved = jnp.concatenate([frames[:, 1:], observation[:, None].astype(frames.dtype)], axis=1)
    begins = first.reshape(-1, *(1 for _ in frames.shape[1:]))
    frames = jnp.where(begins, _repeated(observation, frames), moved)
    stack = frames[:, latest:] if age is None else _older(frames, age, latest)
    if foreseen is not None:
        stack = _moved_on(stack, foreseen)
        queue = Queue(queue.action[:, :0], queue.mask[:, :0])
    state, decision = agent.decide(
        variables,
        carry.agent,
        Observed(stack, first, queue),
        decision_key,
        explore=explore,
        progress=progress,
    )
    uniform = uniform_actions(agent.actions, random_key, decision.action.shape)
    decision = decision._replace(action=jnp.where(at_random, uniform, decision.action))
    return Carry(frames, state), decision


def plan_first_queue(
    agent: Agent,
    variables: Any,
    observation: Array,
    key: Array,
    *,
    stack: int,
    length: int,
    explore: bool,
    at_random: Array | bool = False,
    foreseen: Foreseen | None = None,
) -> Array:
    """Plan the first queues of episodes that begin with these observations, ``[N, length]``.

    Args:
        agent: Who plans.
        variables: What it has learned.
        observation: The first frames, ``[N, ...]``.
        key: A random key.
        stack: S, the frames of an observation.
        length: The number of actions.
        explore: With noise (self-play), or without (evaluation).
        at_random: Whether to choose uniformly instead, ``[]``.
        foreseen: Where a part of the queues is planned: what it leads to. The agent plans on from
            there.
    """
    plan_key, random_key = jax.random.split(key)
    shape = (observation.shape[0], stack, *observation.shape[1:])
    first_stack = jnp.broadcast_to(observation[:, None], shape)
    if foreseen is not None:
        first_stack = _moved_on(first_stack, foreseen)
    planned = agent.first_queue(variables, first_stack, plan_key, length, explore=explore)
    uniform = uniform_actions(agent.actions, random_key, planned.shape)
    return jnp.where(at_random, uniform, planned)


def uniform_actions(actions: ActionSpec, key: Array, shape: tuple[int, ...]) -> Array:
    """Draw actions uniformly."""
    return jax.random.randint(key, shape, 0, actions.count)


def _repeated(observation: Array, frames: Array) -> Array:
    """Frames of one observation each."""
    return jnp.broadcast_to(observation[:, None], frames.shape).astype(frames.dtype)


def _older(frames: Array, age: Array, latest: int) -> Array:
    """The stacks as they were ``age`` steps ago, ``[N, S, ...]``."""
    size = frames.shape[1] - latest
    places = latest + jnp.arange(size) - age[:, None]  # [N, S]
    places = places.reshape(*places.shape, *(1 for _ in frames.shape[2:]))
    return jnp.take_along_axis(frames, places, axis=1)


def _moved_on(stack: Array, foreseen: Foreseen) -> Array:
    """The stacks after the last ``found`` of the foreseen frames, ``[N, S, ...]``."""
    size, places = stack.shape[1], jnp.arange(stack.shape[1])
    count = foreseen.found[:, None]
    wanted = jnp.where(places < size - count, places + count, size + places)  # [N, S]
    wanted = wanted.reshape(*wanted.shape, *(1 for _ in stack.shape[2:]))
    both = jnp.concatenate([stack, foreseen.frames.astype(stack.dtype)], axis=1)
    return jnp.take_along_axis(both, wanted, axis=1)
