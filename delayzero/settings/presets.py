"""Presets: named groups of settings, applied in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from typing import Any, TypeVar

from delayzero.arguments import UsageError
from delayzero.settings.agents import agent_kind
from delayzero.settings.learning import LearnerConfig, ReanalysisConfig
from delayzero.settings.run import TrainConfig
from delayzero.words import meant

Config = TypeVar("Config", bound=TrainConfig)
Preset = Callable[[TrainConfig], TrainConfig]


def changed(config: Config, **changes: Any) -> Config:
    """Return a configuration with changes; settings that its agent does not have are ignored.

    Args:
        config: The settings of any agent.
        changes: New values by name; for a group of settings, a dict of the changed fields.
    """
    own = {field.name for field in fields(config)}
    values = {
        name: replace(getattr(config, name), **value) if isinstance(value, dict) else value
        for name, value in changes.items()
        if name in own
    }
    return replace(config, **values)


def cartpole(config: Config) -> Config:
    """CartPole and other small vector problems; about a minute on a laptop."""
    return changed(
        config,
        env="CartPole-v1",
        envs=8,
        rows=16,
        interactions=12_000,
        random_interactions=500,
        update_ratio=0.5,
        discount=0.997,
        model={"support": 25},
        search={"simulations": 16},
        replay={"priority_exponent": 0.0},
        learner={
            "batch_size": 64,
            "td_steps": 30,
            "td_age": 200,
            "optimiser": "adam",
            "learning_rate": 1e-3,
            "weight_decay": 1e-1,
            "warmup": 200,
            "drop_at": 0.7,
        },
        reanalysis={"roots": 512, "positions_per_update": 100},
        q={"batch_size": 64},
    )


def minatar(config: Config) -> Config:
    """MinAtar games; minutes on a laptop."""
    return changed(
        cartpole(config),
        env="minatar:breakout",
        interactions=12_000,
        random_interactions=1000,
        update_ratio=1.0,
        discount=0.99,
        model={"channels": 16},
        search={"considered_actions": 4, "q_floor": 0.1, "dirichlet_fraction": 0.25},
        replay={"priority_exponent": 0.6, "final_correction": 1.0},
        learner={
            "td_steps": 5,
            "td_age": None,
            "optimiser": "sgd",
            "learning_rate": 0.2,
            "weight_decay": 1e-4,
        },
        reanalysis={"positions_per_update": 16},
    )


def atari(config: Config) -> Config:
    """Atari games on one GPU: the paper's budget, Gumbel search, reanalysis by sweeps."""
    return changed(
        config,
        env="atari:Breakout",
        envs=32,
        rows=8,
        overlap=True,
        stack=4,
        clip_rewards=True,
        discount=0.997**4,
        interactions=130_000,
        random_interactions=2000,
        update_ratio=1.0,
        tail_updates=22_000,
        log_every=2000,
        evaluate_max_steps=3000,
        search={"dirichlet_fraction": 0.25},
        learner=LearnerConfig(drop_at=0.7, consistency_steps=1, kernel_norm=1.0),
        reanalysis=ReanalysisConfig(positions_per_update=40),
        q={
            "batch_size": 256,
            "learning_rate": 1e-4,
            "target_period": 250,
            "epsilon_end": 0.001,
            "epsilon_share": 0.1,
        },
    )


def atari_paper(config: Config) -> Config:
    """Atari as in the paper: walk:15, PUCT with 50 simulations, reanalysis of each batch."""
    return changed(
        atari(config),
        delay="walk:15",
        envs=4,
        rows=8,
        overlap=False,
        model={"action_code": "plane", "scaled": False, "ends": "absorbing"},
        replay={"weights": "relative", "final_correction": 1.0},
        search={"method": "puct", "simulations": 50, "dirichlet_fraction": None, "value": "visits"},
        learner={
            "bootstrap": "network",
            "td_age": 69_000,
            "consistency_steps": None,
            "lead_share": 0.0,
            "normalise": "by_step",
            "warmup": 2300,
            "drop_at": 102_300 / 150_000,
            "kernel_norm": None,
            "target_period": 200,
        },
        reanalysis={"mode": "batch"},
    )


def debug(config: Config) -> Config:
    """Shrinks the presets before it to run in seconds, as a smoke test; nothing is learned."""
    needed = 64 + (config.stack + 6) * 4
    return changed(
        config,
        envs=4,
        rows=4,
        interactions=needed + 64,
        random_interactions=needed,
        update_ratio=0.25,
        tail_updates=2,
        log_every=16,
        audit=True,
        final_episodes=4,
        max_steps=64,
        final_max_steps=64,
        prediction_rows=16,
        label="debug",
        search={"simulations": 4},
        learner={"batch_size": 16, "unroll": 2, "td_steps": 3, "warmup": 4},
        reanalysis={"roots": 32},
        q={"batch_size": 16},
    )


PRESETS: dict[str, Preset] = {
    "cartpole": cartpole,
    "minatar": minatar,
    "atari": atari,
    "atari-paper": atari_paper,
    "debug": debug,
}


def compose(names: Iterable[str], agent: str = "dez") -> TrainConfig:
    """Return the default settings of an agent, changed by presets in turn.

    Raises:
        UsageError: A preset or the agent is unknown; the message suggests the nearest name.
    """
    config: TrainConfig = agent_kind(agent).settings(agent=agent)
    for name in names:
        if name not in PRESETS:
            guess = meant(name, PRESETS)
            hint = f"; did you mean '{guess}'? Choose" if guess else "; choose"
            raise UsageError(f"unknown preset '{name}'{hint} from {', '.join(PRESETS)}")
        config = PRESETS[name](config)
    return config
