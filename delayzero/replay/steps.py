"""From the steps that were played to the rows that are kept: the correction to executed actions."""

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
    """One step of ``N`` environments: what was seen, decided, executed, and what came of it."""

    observation: NDArray[Any]
    first: Mask
    """Episodes that begin with this observation."""
    final: Mask
    """Episodes that have ended with this observation: nothing is executed."""
    age: NDArray[np.int32]
    """Steps since the observation that the agent acted on; 0 unless observations are delayed."""
    queue: Queue
    """The actions that ran since that observation, then the pending ones, ``[N, W]``; empty where
    the delay is not revealed."""
    delay: NDArray[np.int32]
    """z_t; -1 where it is never revealed."""
    search: SearchResult | None
    """The search behind the decision; None for agents that do not search."""
    decided: NDArray[np.int32]
    executed: NDArray[np.int32]
    decision_time: NDArray[np.int32]
    """tau_t; negative for actions of the first queue."""
    reward: NDArray[Any]
    terminated: Mask
    truncated: Mask
    life_lost: Mask
    planned: NDArray[np.int32] | None
    """The first queues of the episodes that begin here, ``[N, M]``; None if none does."""


def rows_of(
    steps: Sequence[Step],
    *,
    action: Literal["executed", "decided"],
    clip_rewards: bool,
    keep_queue: bool,
) -> tuple[Transitions, Decisions]:
    """What the replay keeps of steps, ``[T, N, ...]``: what is learned from, and beside it.

    Args:
        steps: In their order.
        action: Which actions are learned from: those that ran, or those that the agent chose.
        clip_rewards: Keep the sign of rewards alone.
        keep_queue: Keep the pending actions, for agents whose networks see them.
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
