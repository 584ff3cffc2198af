"""The parts of a run that do not change: its settings, spaces, agent and learner."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import jax.numpy as jnp
from jax import Array
from jax.sharding import Mesh

from delayzero.actions import Queue
from delayzero.agents import Agent, PlanningAgent, build_agent
from delayzero.arguments import UsageError
from delayzero.envs.make import check_supported
from delayzero.learning import AnyLearner, Learner, LearnerState
from delayzero.model.build import data_type
from delayzero.planning import Planner
from delayzero.playing.environments import Delayed
from delayzero.playing.player import Player
from delayzero.replay import Decisions, Replay, Step, Transitions, create, rows_of
from delayzero.settings import LearningConfig, SearchingConfig, TrainConfig
from delayzero.spaces import Spaces


@dataclass(frozen=True)
class System:
    """The parts of a run that do not change."""

    config: TrainConfig
    spaces: Spaces
    agent: Agent
    learner: AnyLearner

    @property
    def planner(self) -> Planner:
        """The model and the search of an agent that searches."""
        assert isinstance(self.learner, Learner), f"{self.config.agent} does not search"
        return self.learner.planner

    @property
    def searching(self) -> SearchingConfig:
        """The settings of a run of an agent that searches."""
        assert isinstance(self.config, SearchingConfig), f"{self.config.agent} does not search"
        return self.config

    @property
    def max_delay(self) -> int:
        """M, the longest delay of a decision."""
        return self.config.max_delay

    @property
    def dtype(self) -> str:
        """What the networks compute in, here."""
        return data_type(self.config)

    @property
    def sweeps(self) -> bool:
        """Whether stored positions are searched again, all in turn."""
        config = self.config
        return isinstance(config, SearchingConfig) and config.reanalysis.mode == "sweep"

    @property
    def searches_again(self) -> bool:
        """Whether new rows need a search of their own.

        Where decisions are made for later states, the searches while acting are about those.
        """
        config = self.config
        ahead = self.agent.looks_ahead and config.longest_way > 0
        return self.sweeps and (ahead or config.max_observation_delay > 0)

    @property
    def replay_rows(self) -> int:
        """Slots of the replay.

        An episode's last observation takes a row too: room is left for one in ten. Where episodes
        are shorter, the oldest rows go first. Who does not learn needs no more than a round.
        """
        config, kept = self.config, 0
        if isinstance(config, LearningConfig):
            kept = config.replay.capacity or math.ceil(1.1 * config.interactions)
        return math.ceil(kept / config.envs) + self.learner.window + config.stack + config.rows

    @property
    def sweep_roots(self) -> int:
        """Positions in a chunk of a sweep."""
        return self.searching.sweep_roots

    def first_state(self, key: Array) -> LearnerState:
        """The learner's state before the first update."""
        stack = jnp.zeros((1, self.config.stack, *self.spaces.shape), self.spaces.dtype)
        shape = (1, self.agent.queue_width or 0)
        queue = Queue(jnp.zeros(shape, jnp.int32), jnp.zeros(shape, bool))
        return self.learner.init(key, stack, queue)

    def empty_replay(
        self,
        *,
        rows: int | None = None,
        num_envs: int | None = None,
        host_frames: bool = False,
        mesh: Mesh | None = None,
    ) -> Replay:
        """Return an empty replay for this agent.

        Args:
            rows: Its slots; :attr:`replay_rows` by default.
            num_envs: Environments; those of the run by default.
            host_frames: Keep the frames in the host's memory.
            mesh: The devices to divide it over; None for one device.
        """
        return create(
            self.replay_rows if rows is None else rows,
            self.config.envs if num_envs is None else num_envs,
            self.spaces,
            stack=self.config.stack,
            queue_width=self.agent.queue_width or 0,
            searched=isinstance(self.learner, Learner),
            host_frames=host_frames,
            mesh=mesh,
        )

    def rows_of(self, steps: Sequence[Step]) -> tuple[Transitions, Decisions]:
        """What the replay keeps of steps of this run's agent, ``[T, N, ...]``."""
        return rows_of(
            steps,
            action=self.agent.logs,
            clip_rewards=isinstance(self.config, LearningConfig) and self.config.clip_rewards,
            keep_queue=self.agent.queue_width is not None,
        )

    def foreseeing(self) -> System:
        """Return this system with a perfect forecast: decisions see the state in which they run.

        Raises:
            UsageError: The agent does not look ahead with a model, or observations are late.
        """
        agent, config = self.agent, self.config
        if not (isinstance(agent, PlanningAgent) and agent.looks_ahead):
            raise UsageError(
                "a perfect forecast is for agents that look ahead with a learned model, such as "
                f"dez, not for '{config.agent}'; leave --forecast out"
            )
        if config.max_observation_delay:
            raise UsageError(
                "a perfect forecast starts from the current state, and the agent of this run acts "
                "on late observations (--observation-delay); leave --forecast out"
            )
        return replace(self, agent=replace(agent, foresees=True, takes_late_observations=False))

    def player(self, delayed: Delayed, key: Array, *, explore: bool) -> Player:
        """Return one who plays environments with this agent.

        Raises:
            UsageError: The delay is longer than the queue that the agent has learned to see, or
                the environments show or take something else than those of the run.
        """
        config, longest = self.config, self.agent.longest_queue
        check_supported(delayed.env)
        spaces = replace(Spaces.of(delayed.env), unit_range=self.spaces.unit_range)
        if spaces != self.spaces:
            raise UsageError(
                f"the run was trained with {self.spaces.to_json()}, and the environment "
                f"{config.env} has {spaces.to_json()}: put back the one that it was trained in"
            )
        if longest is not None and delayed.max_delay > longest:
            raise UsageError(
                f"the agent '{config.agent}' was trained for delays up to {longest} and sees no "
                f"longer queue; this law has {delayed.max_delay}: choose one of at most {longest}"
            )
        return Player(
            self.agent,
            delayed,
            key,
            spaces=self.spaces,
            stack=config.stack,
            explore=explore,
            first_queue="planned" if config.delays is None else config.delays.first_queue,
        )


def build_system(config: TrainConfig, spaces: Spaces) -> System:
    """Build the agent and the learner of a run.

    Raises:
        UsageError: The agent cannot learn in this environment, or under these delays.
    """
    return System(config, spaces, *build_agent(config, spaces))
