"""What a process of a Ray cluster does in self-play, and what it sends to the head."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import jax
import numpy as np

from delayzero.arguments import UsageError
from delayzero.envs.make import MakeEnv, id_of_function
from delayzero.playing import Ending, Environments, build_system
from delayzero.playing.actor import Actor, State
from delayzero.progress import silence
from delayzero.replay import Step
from delayzero.settings import TrainConfig
from delayzero.spaces import Spaces


class Report(NamedTuple):
    """What an actor sends after a round."""

    steps: Step
    """All steps in one, ``[T, n, ...]``."""
    endings: list[list[Ending]]
    state: State
    """Its state, with the actions of this round alone."""


class Worker:
    """An :class:`Actor` in a process of a Ray cluster.

    A new process is told by ``start`` where to go on; one that is where it should be gets None.
    """

    def __init__(
        self, config: TrainConfig, spaces: Spaces, share: int, folder: str, make: MakeEnv | None
    ) -> None:
        """Remember everything; :attr:`actor` is built by the first call.

        Args:
            config: The run, as it was typed: an actor chooses its own data type.
            spaces: What the environments show and take on the head.
            share: The number of its share.
            folder: The current folder of the head.
            make: The function that makes an environment, if ``config.env`` stands for one.
        """
        self._config, self._spaces, self._share, self._make = config, spaces, share, make
        with contextlib.suppress(OSError):  # modules and traces may be anywhere
            os.chdir(folder)

    @cached_property
    def actor(self) -> Actor:
        """The agent and its environments."""
        config = self._config
        if self._make is not None:
            id_of_function(self._make)
        env = Environments.of(config, config.envs // config.shares)
        spaces = Spaces.of(env.delayed.env)
        if spaces != self._spaces:
            raise UsageError(
                f"on {socket.gethostname()} {config.env} has {spaces.to_json()}, and on the head "
                f"{self._spaces.to_json()}: install the same versions on all nodes"
            )
        return Actor(build_system(config, spaces), env, self._share)

    def prepare(self, start: State | None, variables: Any) -> Any:
        """Compile for variables of these shapes; return the shapes of the search of a step."""
        assert start is None, "before the first step"
        acting = self.actor.acting(variables)
        for program in acting.programs:
            program.compile()
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), acting.search)

    def example(self, start: State | None, numbers: Sequence[Any]) -> dict[str, Any]:
        """Return arrays with the shapes of those of a state."""
        assert start is None, "before the first step"
        return on_host(self.actor.example(numbers[self._share]))

    def restore(self, start: State | None) -> bool:
        """Return to a state; return whether the environments came back to where they were."""
        with silence():
            return start is None or self.actor.restore(start)

    def begin(self, start: State | None, seed: int) -> State:
        """Reset the environments; return the state then."""
        if start is not None:
            self.actor.recall(start[0])
        self.actor.begin(seed)
        return self._state()

    def play(
        self, start: State | None, variables: Any, count: int, progress: float
    ) -> Report | None:
        """Play a round; None if the environments did not come back to where it begins."""
        if not self.restore(start):
            return None
        rows = self.actor.play(jax.device_put(variables), count, progress)
        arrays, numbers = self._state()
        arrays["actions"] = arrays["actions"][-count:]
        return Report(_stacked(rows.steps), rows.endings, (arrays, numbers))

    def _state(self) -> State:
        arrays, numbers = self.actor.state()
        return on_host(arrays), numbers


def on_host(tree: dict[str, Any]) -> dict[str, Any]:
    """Return a tree of arrays as one of numpy's."""
    arrays: dict[str, Any] = jax.tree.map(np.asarray, tree)
    return arrays


def _stacked(steps: Sequence[Step]) -> Step:
    """Return steps as one, ``[T, n, ...]``."""
    stacked: Step = jax.tree.map(lambda *rows: np.stack(rows), *_with_planned(steps))
    return stacked


def merged(shares: Sequence[Step]) -> list[Step]:
    """Return the steps of all environments, given those of each share, ``[T, n, ...]``."""
    whole = jax.tree.map(lambda *parts: np.concatenate(parts, axis=1), *_with_planned(shares))
    return [jax.tree.map(lambda x, t=t: x[t], whole) for t in range(len(whole.first))]


def _with_planned(steps: Sequence[Step]) -> list[Step]:
    """Return steps that have all first queues, or none of them: zeros where no episode begins."""
    planned = next((step.planned for step in steps if step.planned is not None), None)
    if planned is None:
        return list(steps)
    empty = np.zeros_like(planned)
    return [step if step.planned is not None else step._replace(planned=empty) for step in steps]
