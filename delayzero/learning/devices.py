"""How many devices a learner uses."""

from __future__ import annotations

import jax

from delayzero.arguments import UsageError
from delayzero.settings import DelayedQConfig, LearningConfig, SearchingConfig, TrainConfig


def learner_devices(config: TrainConfig) -> int:
    """Return the number of local devices that share the replay, the batches and the sweeps.

    By default it is the largest number that divides the environments, the batch and the roots of a
    sweep.

    Raises:
        UsageError: The number that was asked for is larger than that of the devices, or does not
            divide one of them.
    """
    if not isinstance(config, LearningConfig):
        return 1
    there, sizes = jax.local_device_count(), _divided(config)
    fitting = [n for n in range(1, there + 1) if not any(s % n for s in sizes.values())]
    if config.devices is None:
        return fitting[-1]
    if config.devices > there:
        kind = jax.local_devices()[0].device_kind
        raise UsageError(
            f"--devices is {config.devices}; JAX finds {there} here ({kind}): type --devices "
            f"{fitting[-1]}, or leave it out"
        )
    if config.devices not in fitting:
        wrong = ", ".join(f"{k} {v}" for k, v in sizes.items() if v % config.devices)
        raise UsageError(
            f"--devices is {config.devices}, which does not divide {wrong}; type multiples of "
            f"{config.devices}, or --devices {max(n for n in fitting if n < config.devices)}"
        )
    return config.devices


def _divided(config: LearningConfig) -> dict[str, int]:
    """Return what devices share, by the option that sets it."""
    sizes = {"--envs": config.envs}
    if isinstance(config, DelayedQConfig):
        sizes["--q.batch-size"] = config.batch_size
    if isinstance(config, SearchingConfig):
        sizes["--learner.batch-size"] = config.batch_size
        if config.reanalysis.mode == "sweep":
            fewest = config.sweep_roots < config.reanalysis.roots
            option = "--random-interactions" if fewest else "--reanalysis.roots"
            sizes[option] = config.sweep_roots
    return sizes
