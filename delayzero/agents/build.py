"""From the settings of a run to its agent and its learner: one builder for each agent."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from delayzero.agents.agent import Agent, Logs, obstacle
from delayzero.agents.delayed_q import DelayedQAgent
from delayzero.agents.planning import PlanningAgent
from delayzero.agents.random import RandomAgent
from delayzero.arguments import UsageError
from delayzero.learning import AnyLearner, Learner, NoLearner, QLearner
from delayzero.model import AtariQModel, QModel, build_model, image_q_model, vector_q_model
from delayzero.model.build import kind_of
from delayzero.planning import Planner
from delayzero.settings import AgentName, DelayedQConfig, SearchingConfig, TrainConfig
from delayzero.settings.model import LARGE
from delayzero.spaces import Spaces


class Built(NamedTuple):
    """An agent, and what teaches it."""

    agent: Agent
    learner: AnyLearner


def build_agent(config: TrainConfig, spaces: Spaces) -> Built:
    """Build the agent and the learner of a run.

    Raises:
        UsageError: The agent cannot learn in this environment, or under these delays.
    """
    built = BUILDERS[config.agent](config, spaces)
    _check_delays(config, built.agent)
    return built


def _planning(
    config: SearchingConfig,
    spaces: Spaces,
    *,
    looks_ahead: bool = False,
    sees_queue: bool = False,
    logs: Logs = "executed",
) -> Built:
    """Build an agent that searches with a world model."""
    width = config.max_delay if sees_queue and config.max_delay else None
    longest_lead = config.longest_way if looks_ahead else 0
    model = build_model(
        config.model,
        spaces.shape,
        spaces.actions,
        sees_queue=width is not None,
        decodes=_decodes(config, spaces),
    )
    planner = Planner(
        model=model,
        config=config.search.resolved(spaces.actions.count),
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
        leads=config.learner.leads(longest_lead),
        longest_lead=longest_lead,
    )
    # Rows hold observations that are not late. A model that sees the queue would act on longer
    # queues than any it has learned from.
    agent = PlanningAgent(
        planner,
        looks_ahead,
        queue_width=width,
        longest_queue=config.max_delay if sees_queue else None,
        logs=logs,
        takes_late_observations=not sees_queue,
    )
    return Built(agent, learner)


def _delayed_q(config: DelayedQConfig, spaces: Spaces) -> Built:
    """Build Delayed-Q."""
    model = _q_model(config, spaces)
    learner = QLearner(
        model=model,
        config=config.q,
        replay=config.replay,
        total_updates=max(1, config.total_updates),
    )
    return Built(DelayedQAgent(model, config.q), learner)


def _random(config: TrainConfig, spaces: Spaces) -> Built:
    """Build the agent that decides at random."""
    del config
    return Built(RandomAgent(spaces.actions), NoLearner())


BUILDERS: dict[AgentName | str, Callable[[Any, Spaces], Built]] = {
    "dez": functools.partial(_planning, looks_ahead=True),
    "oblivious": functools.partial(_planning, logs="decided"),
    "oblivious-executed": _planning,
    "augmented": functools.partial(_planning, sees_queue=True, logs="decided"),
    "undelayed": _planning,
    "delayed-q": _delayed_q,
    "random": _random,
}
"""Takes the settings of the agent's runs (:data:`~delayzero.settings.AGENTS`) and the spaces."""


def _check_delays(config: TrainConfig, agent: Agent) -> None:
    """Check that the agent is told what it needs to know."""
    delays = config.delays
    if delays is None:
        return
    found = obstacle(agent, delays)
    if found == "hidden":
        raise UsageError(
            f"the agent '{config.agent}' must know the delay of a decision before it decides, and "
            f"--reveal {delays.reveal} hides it; type --reveal before, or --agent "
            "oblivious-executed"
        )
    if found == "late":
        raise UsageError(
            f"the agent '{config.agent}' cannot act on late observations here; leave "
            "--observation-delay out, or type --agent dez"
        )


def _q_model(config: DelayedQConfig, spaces: Spaces) -> QModel | AtariQModel:
    """Build the networks of Delayed-Q."""
    actions, shape, width = spaces.actions, spaces.shape, config.q.width
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
    if not spaces.unit_range:
        raise UsageError(
            f"the agent '{config.agent}' learns to predict images of numbers in [0, 1] or of "
            f"uint8; those of '{config.env}' have another range: rescale them, with "
            "gymnasium.wrappers.RescaleObservation(env, 0, 1), or choose another --agent"
        )
    return image_q_model(actions, shape[-1], width)


def _decodes(config: SearchingConfig, spaces: Spaces) -> bool:
    """Return whether the model decodes frames."""
    weight = config.learner.reconstruction_weight
    if weight and kind_of(config.model, spaces.shape) == "mlp":
        raise UsageError(
            f"--learner.reconstruction-weight {weight} is for networks of images, not for the mlp "
            f"networks of observations of shape {list(spaces.shape)}; leave it out"
        )
    return weight > 0


def _augments(config: SearchingConfig, spaces: Spaces) -> bool:
    """Return whether images are shifted: pixels are, unless the settings say no."""
    pixels = spaces.dtype == np.uint8 and len(spaces.shape) == 3
    if config.learner.augment and not pixels:
        raise UsageError(
            f"--learner.augment True is for images of uint8, not for {spaces.dtype} of shape "
            f"{spaces.shape}; type --learner.augment False"
        )
    return pixels if config.learner.augment is None else config.learner.augment
