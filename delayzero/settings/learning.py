"""Settings of the learner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from delayzero.bounds import COUNT, NOT_NEGATIVE, POSITIVE, SHARE, Bounds, check_numbers

LEAD_SHARE = 0.25
"""The default of --learner.lead-share under long delays."""
LARGEST_AVERAGE = 0.999999
"""The largest --learner.average: a million updates."""
MOST_LEADS = 0.75
"""The largest --learner.lead-share: the encoder learns from the other positions alone."""


@dataclass(frozen=True)
class LearnerConfig:
    """Targets, losses and optimiser of an update."""

    batch_size: int = 256
    """Positions sampled per update."""
    unroll: int = 5
    """Steps for which the model is unrolled from each position."""
    td_steps: int = 5
    """Rewards summed in a value target before it bootstraps."""
    td_age: int | None = None
    """Shorten --learner.td-steps by one per this many interactions of a sample's age.
    None: never."""
    bootstrap: Literal["search", "network"] = "search"
    """Value that ends the sum of rewards: the search's, or the (target) network's."""
    mixed_value_after: int | None = None
    """Update from which old samples learn the search's value (EfficientZero V2); None: never."""
    mixed_value_age: int = 5000
    """Age, in interactions, above which a sample counts as old for --learner.mixed-value-after."""
    prefix_horizon: int = 5
    """Steps after which a value prefix restarts from zero."""
    policy_weight: float = 1.0
    """Weight of the policy loss."""
    value_weight: float = 0.25
    """Weight of the value loss."""
    prefix_weight: float = 1.0
    """Weight of the value-prefix loss."""
    consistency_weight: float = 2.0
    """Weight of the consistency loss."""
    end_weight: float = 1.0
    """Weight of the loss of predicted ends, see --model.ends."""
    reconstruction_weight: float = 0.0
    """Weight of the reconstruction loss, for images; 0: no decoder. A decoder predicts the newest
    frame from the latents of positions without a lead, and from imagined latents where they are
    compared."""
    consistency_steps: int | None = None
    """Number of unrolled steps at which imagined latents are compared with real ones.
    They are drawn for each position of a batch; the loss is scaled up to all steps.
    None, or more than --learner.unroll: compare at all of them."""
    normalise: Literal["together", "by_step"] = "together"
    """Batch normalisation of heads and value prefix over the unrolled states.
    together: all steps as one batch, as outside of training. by_step: each step by itself, as in
    EfficientZero's code; the predicted rewards are then wrong outside of training."""
    settle: int = 0
    """Forward passes after the updates of a round, in which only the running statistics of batch
    normalisation change: all but training then reads statistics of the newest weights."""
    lead_share: float | None = None
    """Share of the positions of a batch that start from a rolled latent, as decisions under delay
    do. None: a quarter if the agent looks further ahead than --learner.unroll steps, else none."""
    lead_gradient: bool = False
    """Let the gradient flow through the steps of those rolls too, into dynamics and encoder."""
    lead_policy: Literal["real", "rolled"] = "real"
    """Policy that those positions learn. real: that of the search from the observation there;
    rolled: that of a search from the rolled latent, made in the update. The latter weighs
    what may come where chance makes the forecast uncertain."""
    augment: bool | None = None
    """Shift and scale images randomly; None: only if they are pixels (uint8)."""
    optimiser: Literal["sgd", "adam"] = "sgd"
    """SGD with momentum 0.9, or AdamW."""
    learning_rate: float = 0.2
    """Learning rate after the warm-up."""
    warmup: int = 1000
    """Updates over which the learning rate rises from zero."""
    drop_at: float = 1.0
    """Share of all updates after which the learning rate falls to a tenth; 1: never."""
    weight_decay: float = 1e-4
    """Weight decay of all parameters."""
    clip_norm: float = 5.0
    """Norm to which larger gradients are clipped."""
    kernel_norm: float | None = None
    """Norm at which kernels before batch normalisation are held, as a multiple of their norm before
    training; halving it multiplies their effective learning rate by four. None: weight decay and
    gradients change it."""
    target_period: int = 1
    """Updates between copies of the weights that reanalysis uses; 1: always the newest."""
    average: float = 0.0
    """Decay, per update, of a running average of the weights, such as 0.999.
    The average plays, is evaluated, and searches stored positions again; 0: the newest weights."""

    def __post_init__(self) -> None:
        """Validate the fields."""
        check_numbers(
            self,
            "learner.",
            {
                COUNT: (
                    *("batch_size", "unroll", "td_steps", "td_age", "prefix_horizon"),
                    *("warmup", "target_period", "consistency_steps"),
                ),
                POSITIVE: ("learning_rate", "clip_norm", "kernel_norm"),
                NOT_NEGATIVE: (
                    *("policy_weight", "value_weight", "prefix_weight", "consistency_weight"),
                    *("weight_decay", "mixed_value_after", "mixed_value_age", "settle"),
                    *("end_weight", "reconstruction_weight"),
                ),
                SHARE: ("drop_at",),
                Bounds(0, MOST_LEADS): ("lead_share",),
                Bounds(0, LARGEST_AVERAGE): ("average",),
            },
        )
        if self.average and self.target_period > 1:
            raise ValueError(
                "--learner.average and --learner.target-period both choose the weights of "
                "reanalysis; type --learner.average 0 or --learner.target-period 1"
            )

    @property
    def window(self) -> int:
        """Rows after a sampled one that its targets need."""
        return self.unroll + self.td_steps

    def leads(self, longest: int) -> int:
        """Return how many positions of a batch have a lead.

        Args:
            longest: The most steps that the agent looks ahead.
        """
        share = self.lead_share
        if share is None:
            share = LEAD_SHARE if longest > self.unroll else 0.0
        return round(share * self.batch_size) if longest else 0


@dataclass(frozen=True)
class ReanalysisConfig:
    """How stored positions are searched again with newer weights."""

    mode: Literal["sweep", "batch"] = "sweep"
    """sweep: pass through the whole replay in order; batch: search the positions of each batch."""
    positions_per_update: float = 64.0
    """Positions that sweeps search per update.
    A sweep of a small replay is therefore short: early on, poor targets are soon replaced."""
    roots: int = 1536
    """Positions that a sweep searches at once."""

    def __post_init__(self) -> None:
        """Validate the fields."""
        check_numbers(self, "reanalysis.", {COUNT: ("roots",), POSITIVE: ("positions_per_update",)})


@dataclass(frozen=True)
class QConfig:
    """Networks, optimiser and exploration of Delayed-Q."""

    width: int = 256
    """Size of the hidden layers; convolutions on small images have an eighth of it as channels.
    The Atari networks have their published sizes instead."""
    learning_rate: float = 1e-3
    """Learning rate of the Q-network; falls to a tenth by the last update."""
    forward_learning_rate: float = 3e-3
    """Learning rate of the forward model; falls to a tenth by the last update."""
    batch_size: int = 256
    """Steps sampled per update."""
    discount: float = 0.99
    """Discount of rewards, per step."""
    target_period: int = 10
    """Updates between copies of the weights that compute the targets."""
    clip_norm: float = 10.0
    """Norm to which larger gradients of each network are clipped."""
    epsilon_start: float = 1.0
    """Share of random decisions when learning begins."""
    epsilon_end: float = 0.02
    """Share of random decisions at the end of training; evaluations have none."""
    epsilon_share: float = 0.3
    """Share of the training over which the share of random decisions falls."""

    def __post_init__(self) -> None:
        """Validate the fields."""
        check_numbers(
            self,
            "q.",
            {
                COUNT: ("width", "batch_size", "target_period"),
                POSITIVE: ("learning_rate", "forward_learning_rate", "clip_norm", "epsilon_share"),
                SHARE: ("epsilon_start", "epsilon_end"),
                Bounds(0, 1, above=True): ("discount",),
            },
        )
