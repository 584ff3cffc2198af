"""Self-play: an agent and the environments that it plays, which can be brought back together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np
from jax.stages import Lowered

from delayzero.playing.environments import Environments
from delayzero.playing.player import Ending
from delayzero.playing.streams import STREAM_ACTING, STREAM_TRAINING_ENVS, run_key, run_seed
from delayzero.playing.system import System
from delayzero.progress import progress
from delayzero.replay import Step
from delayzero.settings import LearningConfig, TrainConfig

FOR_SHARES = 2**32 - 2
"""Sets the streams of several actors apart from that of one: no step has this number."""

State = tuple[dict[str, Any], Any]
"""Arrays and plain numbers from which self-play continues exactly."""


class Rows(NamedTuple):
    """Steps of all environments, in their order."""

    steps: list[Step]
    endings: list[list[Ending]]
    """For each step, the episodes that ended with it."""
    begun_again: bool = False
    """Whether the environments were lost, and the steps are the first ones of new episodes."""


class Acting(NamedTuple):
    """What is known about acting before the first step."""

    programs: list[Lowered]
    """Functions that will be called in this process."""
    search: Any
    """Shapes of the search of a step, ``[N, ...]``; None for agents that do not search."""


class SelfPlay(Protocol):
    """Plays the environments of a run: an :class:`Actor`, or several elsewhere."""

    @property
    def interactions(self) -> int:
        """Steps of all environments so far."""

    def acting(self, variables: Any) -> Acting:
        """Prepare to act with variables of these shapes."""

    def begin(self, seed: int) -> None:
        """Reset the environments, abandoning the episodes in progress."""

    def play(self, variables: Any, count: int, progress: float) -> Rows:
        """Play a number of steps; ``progress`` is the share of the training that is done."""

    def state(self) -> State:
        """Return a state; :meth:`restore` continues from it."""

    def example(self, numbers: Any) -> dict[str, Any]:
        """Return arrays with the shapes of those of a state with these numbers."""

    def restore(self, state: State, see: Callable[[Any], Any] | None) -> bool:
        """Continue from a :meth:`state`.

        Args:
            state: Of self-play with the same settings.
            see: Called with the observations of all steps, if :meth:`rebuilds` is true of them.

        Returns:
            Whether the environments came back to where they were. If not, :meth:`begin` comes next.
        """

    def rebuilds(self, rows: int) -> bool:
        """Return whether :meth:`restore` brings back all observations of the rows."""


class Actor:
    """An agent that plays a share of a run's environments.

    Attributes:
        interactions: Steps of its environments so far.
    """

    def __init__(self, system: System, env: Environments, share: int = 0) -> None:
        """Prepare.

        Args:
            system: The run's parts.
            env: The environments of this share.
            share: Its number, below ``system.config.shares``.
        """
        config, self._env = system.config, env
        self._config, self._count = config, env.delayed.env.num_envs
        self._first_env = share * self._count
        key = run_key(config.seed, STREAM_ACTING)
        if config.shares > 1:
            key = jax.random.fold_in(jax.random.fold_in(key, FOR_SHARES), share)
        self._player = system.player(env.delayed, key, explore=True)
        self.interactions = 0

    def acting(self, variables: Any) -> Acting:
        """Trace the functions that it will call; see :meth:`Player.lowered`."""
        programs = list(self._player.lowered(variables))
        search = programs[0].out_info[1].search if programs else None
        return Acting(programs, search)

    def begin(self, seed: int) -> None:
        """Reset the environments.

        Args:
            seed: Of the run's first environment; the others have the next ones, by their number in
                the run, whatever the share.
        """
        self._player.begin(seed + self._first_env)

    def play(self, variables: Any, count: int, progress: float) -> Rows:
        """Play a number of steps, at random until the share's part of those is made."""
        config, rows = self._config, Rows([], [])
        random = config.random_interactions if isinstance(config, LearningConfig) else 0
        for _ in range(count):
            at_random = self.interactions * config.shares < random
            step, endings = self._player.step(variables, progress=progress, at_random=at_random)
            rows.steps.append(step)
            rows.endings.append([end._replace(env=self._first_env + end.env) for end in endings])
            self.interactions += int(np.sum(~step.final))
        return rows

    def state(self) -> State:
        """Return the state of the agent, the actions that ran, and that of the environments."""
        actions, numbers = self._env.state()
        return {**self._arrays(), "actions": actions}, numbers

    def example(self, numbers: Any) -> dict[str, Any]:
        """Return arrays with the shapes of those of a state with these numbers."""
        actions = np.zeros((numbers["steps"], self._count), np.int32)
        return {**self._arrays(), "actions": actions}

    def restore(self, state: State, see: Callable[[Any], Any] | None = None) -> bool:
        """Continue from a :meth:`state`: play all actions again."""
        arrays, numbers = state
        self.recall(arrays)
        actions = np.asarray(arrays["actions"])
        with progress("environments", len(actions)) as advance:
            observations = self._env.restore(actions, numbers, advance, see)
        if observations is not None:
            self._player.resume(observations)
        return observations is not None

    def recall(self, arrays: dict[str, Any]) -> None:
        """Take over the agent's part of a :meth:`state`, for environments that begin again."""
        self._player.restore(arrays)
        self.interactions = int(arrays["interactions"])

    def rebuilds(self, rows: int) -> bool:
        """Return whether :meth:`restore` brings back all observations of the rows."""
        return self._env.rebuilds(rows)

    def _arrays(self) -> dict[str, Any]:
        return {**self._player.state(), "interactions": np.array(self.interactions)}


def seed_of_environments(config: TrainConfig, interactions: int) -> int:
    """Return the seed of environments that are reset after a number of interactions.

    It depends on that number: a second reset should not repeat the same episodes.
    """
    return run_seed(config.seed, STREAM_TRAINING_ENVS, interactions)
