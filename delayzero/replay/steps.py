"""Converting played steps to replay rows: the correction from decided to executed actions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from delayzero.actions import Queue
from delayzero.planning import SearchResult
from delayzero.replay.storage import Decisions, Transitions

Mask = NDArray[np.bool_]


class Step(NamedTuple):
    """One step of ``N`` environments: observation, decision, executed action and outcome."""

    observation: NDArray[Any]
    """``[N, ...]``; all other arrays are ``[N]`` unless their shape is given."""
    first: Mask
    """Whether an episode begins with this observation."""
    final: Mask
    """Whether an episode has ended with this observation: no action is executed."""
    age: NDArray[np.int32]
    """Steps since the observation that the agent acted on; 0 unless observations are delayed."""
    queue: Queue
    """The actions executed since that observation, then the pending ones, ``[N, W]``; without the
    pending ones where the delay is not revealed."""
    delay: NDArray[np.int32]
    """The delay z_t; -1 where it is never revealed."""
    search: SearchResult | None
    """The search behind the decision; None for agents that do not search."""
    decided: NDArray[np.int32]
    """The action that the agent chose."""
    executed: NDArray[np.int32]
    """The action that the environment executed."""
    decision_time: NDArray[np.int32]
    """The time tau_t at which the executed action was chosen; negative for actions of the first
    queue."""
    reward: NDArray[Any]
    terminated: Mask
    truncated: Mask
    life_lost: Mask
    planned: NDArray[np.int32] | None
    """The first queues of the episodes that begin here, ``[N, M]``; None if none begins."""


def rows_of(
    steps: Sequence[Step],
    *,
    action: Literal["executed", "decided"],
    clip_rewards: bool,
    keep_queue: bool,
) -> tuple[Transitions, Decisions]:
    """Convert steps to rows of the replay, ``[T, N, ...]``.

    Args:
        steps: The steps, in order.
        action: The actions to learn from: the executed ones, or those that the agent chose.
        clip_rewards: Whether to keep only the sign of rewards.
        keep_queue: Whether to keep the pending actions, for agents whose networks see them.

    Returns:
        The transitions to learn from, and the agent's decisions.
    """

    def stacked(fields: Iterable[Any]) -> Any:
        return np.stack(list(fields))

    reward = stacked(step.reward for step in steps).astype(np.float32)
    transitions = Transitions(
        first=stacked(step.first for step in steps),
        final=stacked(step.final for step in steps),
        action=stacked(step.executed if action == "executed" else step.decided for step in steps),
        reward=np.sign(reward) if clip_rewards else reward,
        terminated=stacked(step.terminated | step.life_lost for step in steps),
        truncated=stacked(step.truncated for step in steps),
    )
    decisions = Decisions(
        decided=stacked(step.decided for step in steps),
        delay=stacked(step.delay for step in steps),
        decision_time=stacked(step.decision_time for step in steps),
        queue=Queue(
            stacked(step.queue.action for step in steps).astype(np.int16),
            stacked(step.queue.mask for step in steps),
        )
        if keep_queue
        else (),
    )
    return transitions, decisions
