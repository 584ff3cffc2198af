"""Everything that a configuration describes, built."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import jax.numpy as jnp
import numpy as np
from jax import Array

from delayzero.agents import Agent, DelayedQAgent, PlanningAgent, RandomAgent
from delayzero.arguments import UsageError
from delayzero.delays import DelayedExecutionVector
from delayzero.learning import AnyLearner, Learner, LearnerState, NoLearner, QLearner
from delayzero.model import AtariQModel, QModel, build_model, image_q_model, vector_q_model
from delayzero.planning import Planner
from delayzero.playing import Player
from delayzero.replay import Decisions, Step, Transitions, rows_of
from delayzero.settings import (
    AgentKind,
    DelayedQConfig,
    LearningConfig,
    SearchingConfig,
    TrainConfig,
    agent_kind,
)
from delayzero.settings.model import LARGE
from delayzero.spaces import Spaces


@dataclass(frozen=True)
class System:
    """The parts of a run that do not change."""

    config: TrainConfig
    spaces: Spaces
    kind: AgentKind
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
    def queue(self) -> int:
        """The length of the queues that the agent's model sees."""
        return self.config.max_delay if self.kind.sees_queue else 0

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
        return self.kind.rolls and self.config.max_delay > 0 and self.sweeps

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
        """Positions in a chunk of a sweep, never more than are stored when learning begins."""
        return min(self.searching.reanalysis.roots, self.searching.random_interactions)

    def first_state(self, key: Array) -> LearnerState:
        """The learner's state before the first update."""
        stack = jnp.zeros((1, self.config.stack, *self.spaces.shape), self.spaces.dtype)
        return self.learner.init(key, stack, jnp.zeros((1, self.queue), jnp.int32))

    def rows_of(self, steps: Sequence[Step]) -> tuple[Transitions, Decisions]:
        """What the replay keeps of steps of this run's agent, ``[T, N, ...]``."""
        return rows_of(
            steps,
            action=self.kind.logs,
            clip_rewards=isinstance(self.config, LearningConfig) and self.config.clip_rewards,
            keep_queue=self.queue > 0,
        )

    def player(
        self, env: gym.vector.VectorEnv[Any, Any, Any], key: Array, *, explore: bool
    ) -> Player:
        """One who plays environments with this agent.

        Raises:
            UsageError: The delay is longer than the queue that the agent has learned to see.
        """
        longest = env.max_delay if isinstance(env, DelayedExecutionVector) else 0
        if self.kind.sees_queue and longest > self.queue:
            raise UsageError(
                f"the agent '{self.config.agent}' was trained for delays up to {self.queue} and "
                f"sees no longer queue; this law has {longest}: name one of at most {self.queue}"
            )
        return Player(
            self.agent,
            env,
            key,
            stack=self.config.stack,
            shape=self.spaces.shape,
            dtype=self.spaces.dtype,
            explore=explore,
            queue=self.queue if self.kind.sees_queue else longest,
            foresees=isinstance(self.config, DelayedQConfig),
        )


def build_system(config: TrainConfig, spaces: Spaces) -> System:
    """Build the model, the agent and the learner of a run.

    Raises:
        UsageError: The agent cannot learn in this environment.
    """
    if isinstance(config, SearchingConfig):
        return _searching(config, spaces)
    if isinstance(config, DelayedQConfig):
        return _delayed_q(config, spaces)
    kind = agent_kind(config.agent)
    return System(config, spaces, kind, RandomAgent(spaces.num_actions), NoLearner())


def _searching(config: SearchingConfig, spaces: Spaces) -> System:
    """The parts of a run of an agent that searches."""
    kind = agent_kind(config.agent)
    queue = config.max_delay if kind.sees_queue else 0
    model = build_model(config.model, spaces.shape, spaces.num_actions, sees_queue=queue > 0)
    planner = Planner(
        model=model,
        config=config.search.resolved(spaces.num_actions),
        discount=config.discount,
        prefix_horizon=config.learner.prefix_horizon,
    )
    learner = Learner(
        planner=planner,
        config=config.learner,
        reanalysis=config.reanalysis,
        replay=config.replay,
        total_updates=max(1, config.total_updates),
        augment=_augments(config, spaces),
    )
    agent = PlanningAgent(planner, rolls=kind.rolls, queue=queue)
    return System(config, spaces, kind, agent, learner)


def _delayed_q(config: DelayedQConfig, spaces: Spaces) -> System:
    """The parts of a run of delayed-q."""
    model = _q_model(config, spaces)
    learner = QLearner(
        model=model,
        config=config.q,
        replay=config.replay,
        total_updates=max(1, config.total_updates),
    )
    agent = DelayedQAgent(model, config.q)
    return System(config, spaces, agent_kind(config.agent), agent, learner)


def _q_model(config: DelayedQConfig, spaces: Spaces) -> QModel | AtariQModel:
    """The networks of delayed-q."""
    actions, shape, width = spaces.num_actions, spaces.shape, config.q.width
    if config.env.lower().startswith("atari:"):
        return AtariQModel(actions)
    if len(shape) == 1:
        return vector_q_model(actions, shape[0], width)
    if shape[0] >= LARGE:
        raise UsageError(
            f"the agent '{config.agent}' looks ahead with an Atari emulator, or with a learned "
            f"model of vectors or of images less than {LARGE} high; '{config.env}' shows images of "
            f"shape {shape}: choose another --agent"
        )
    if not spaces.shares:
        raise UsageError(
            f"the agent '{config.agent}' learns to predict images of numbers in [0, 1] or of "
            f"uint8; those of '{config.env}' are others: rescale them, with "
            "gymnasium.wrappers.RescaleObservation(env, 0, 1), or choose another --agent"
        )
    return image_q_model(actions, shape[-1], width)


def _augments(config: SearchingConfig, spaces: Spaces) -> bool:
    """Whether images are shifted: those of pixels are, unless the configuration says no."""
    pixels = spaces.dtype == np.uint8 and len(spaces.shape) == 3
    if config.learner.augment and not pixels:
        raise UsageError(
            f"--learner.augment True is for images of uint8, not for {spaces.dtype} of shape "
            f"{spaces.shape}; type --learner.augment False"
        )
    return pixels if config.learner.augment is None else config.learner.augment
