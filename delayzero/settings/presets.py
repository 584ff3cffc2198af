"""Settings that belong together, by name; several are applied in the order in which they stand."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from delayzero.arguments import UsageError
from delayzero.settings.learning import LearnerConfig, ReanalysisConfig
from delayzero.settings.run import TrainConfig
from delayzero.words import meant

Preset = Callable[[TrainConfig], TrainConfig]


def cartpole(config: TrainConfig) -> TrainConfig:
    """CartPole and other small vector problems, on a laptop in a minute."""
    return replace(
        config,
        env="CartPole-v1",
        envs=8,
        rows=16,
        interactions=10_000,
        random_interactions=500,
        update_ratio=0.5,
        discount=0.997,
        model=replace(config.model, support=25),
        search=replace(config.search, simulations=16),
        replay=replace(config.replay, priority_exponent=0.0),
        learner=replace(
            config.learner,
            batch_size=64,
            td_steps=15,
            optimiser="adam",
            learning_rate=4e-3,
            warmup=200,
            drop_at=0.7,
        ),
        reanalysis=replace(config.reanalysis, roots=512, positions_per_update=100),
    )


def minatar(config: TrainConfig) -> TrainConfig:
    """MinAtar, on a laptop in minutes."""
    base = cartpole(config)
    return replace(
        base,
        env="minatar:breakout",
        interactions=12_000,
        random_interactions=1000,
        update_ratio=1.0,
        discount=0.99,
        model=replace(base.model, channels=16),
        search=replace(base.search, considered_actions=4, q_floor=0.1, dirichlet_fraction=0.25),
        replay=replace(base.replay, priority_exponent=0.6, final_correction=1.0),
        learner=replace(base.learner, td_steps=5, optimiser="sgd", learning_rate=0.2),
        reanalysis=replace(base.reanalysis, positions_per_update=16),
    )


def atari(config: TrainConfig) -> TrainConfig:
    """Atari on one GPU: Gumbel search, reanalysis by sweeps, the paper's budget."""
    return replace(
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
        search=replace(config.search, dirichlet_fraction=0.25),
        learner=replace(LearnerConfig(), drop_at=0.7, consistency_steps=1),
        reanalysis=replace(ReanalysisConfig(), positions_per_update=40),
        q=replace(
            config.q, learning_rate=1e-4, target_period=250, epsilon_end=0.001, epsilon_share=0.1
        ),
    )


def atari_paper(config: TrainConfig) -> TrainConfig:
    """Atari as the paper has it: walk:15, PUCT with 50 simulations, targets for each batch."""
    base = atari(config)
    return replace(
        base,
        delay="walk:15",
        envs=4,
        rows=8,
        overlap=False,
        model=replace(base.model, action_code="plane", scaled=False),
        replay=replace(base.replay, weights="relative", final_correction=1.0),
        search=replace(base.search, method="puct", simulations=50, dirichlet_fraction=None),
        learner=replace(
            base.learner,
            bootstrap="network",
            td_age=69_000,
            consistency_steps=None,
            warmup=2300,
            drop_at=102_300 / 150_000,
            target_period=200,
        ),
        reanalysis=replace(base.reanalysis, mode="batch"),
    )


def debug(config: TrainConfig) -> TrainConfig:
    """Whatever comes before it, so small that it ends in seconds; nothing is learned."""
    needed = 64 + (config.stack + 6) * 4
    return replace(
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
        search=replace(config.search, simulations=4),
        learner=replace(config.learner, batch_size=16, unroll=2, td_steps=3, warmup=4),
        reanalysis=replace(config.reanalysis, roots=32),
    )


PRESETS: dict[str, Preset] = {
    "cartpole": cartpole,
    "minatar": minatar,
    "atari": atari,
    "atari-paper": atari_paper,
    "debug": debug,
}


def compose(names: Iterable[str]) -> TrainConfig:
    """The default configuration, changed by presets in turn.

    Raises:
        UsageError: There is no such preset; the message names the nearest one.
    """
    config = TrainConfig()
    for name in names:
        if name not in PRESETS:
            guess = meant(name, PRESETS)
            hint = f"; did you mean '{guess}'?" if guess else ""
            raise UsageError(f"'{name}' is no preset{hint} valid: {', '.join(PRESETS)}")
        config = PRESETS[name](config)
    return config
