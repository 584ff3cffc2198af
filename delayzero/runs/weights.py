"""The weights of a run, for whoever plays with them."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import jax

from delayzero.arguments import UsageError
from delayzero.playing.environments import make_training_env
from delayzero.playing.system import System, build_system
from delayzero.runs.checkpoint import BrokenCheckpointError, Checkpoints
from delayzero.runs.run_folder import RunFolder
from delayzero.settings import TrainConfig
from delayzero.spaces import Spaces

ATTEMPTS = 3
"""To read a checkpoint: one that vanished meanwhile gave way to a newer one."""

COMPUTED = ("model.dtype",)
"""What may differ from training: weights are kept in full precision."""


def load_weights(run: Path, *, trust: bool = False, with_env: bool = True) -> tuple[System, Any]:
    """Return the system of a run, and the newest weights that its checkpoint has.

    The run may be training: nothing in its folder is changed.

    Args:
        run: The folder of the run.
        trust: Whether code that its settings name may be run: see
            :meth:`~delayzero.runs.run_folder.RunFolder.config`.
        with_env: Whether the caller will make the environment.

    Raises:
        UsageError: There is no such run, it has no checkpoint yet, or that cannot be read or is of
            a run with other settings.
    """
    folder = RunFolder(run)
    with_env = with_env or folder.load_spaces() is None
    config = folder.config(trust=trust, with_env=with_env)
    try:
        system = build_system(config, _spaces(folder, config))
    except ValueError as error:
        raise UsageError(f"{folder.settings} and {folder.spaces} do not fit: {error}") from None
    example = jax.eval_shape(system.first_state, jax.random.key(0))
    return system, system.learner.playing(_newest(folder, config, example))


def _spaces(folder: RunFolder, config: TrainConfig) -> Spaces:
    """Return the spaces of a run; older folders do not keep them, and need the environment."""
    values = folder.load_spaces()
    if values is None:
        with closing(make_training_env(config)) as env:
            return Spaces.of(env)
    try:
        return Spaces.from_json(values)
    except ValueError as error:
        raise UsageError(f"{folder.spaces} is damaged: {error}; put back a copy") from None


def _newest(folder: RunFolder, config: TrainConfig, example: Any) -> Any:
    """Return the newest learner; its run may replace it by a newer one while it is read."""
    for left in reversed(range(ATTEMPTS)):
        if not folder.checkpoints.exists():
            break
        try:
            with closing(Checkpoints(folder.checkpoints, read_only=True)) as checkpoints:
                if checkpoints.latest() is None:
                    break
                folder.check_checkpoint(checkpoints.progress(), config, COMPUTED)
                return checkpoints.restore({"learner": example})["learner"]
        except (BrokenCheckpointError, FileNotFoundError):
            if not left:
                raise
    raise UsageError(
        f"{folder.path} has no checkpoint yet; a run writes the first after --checkpoint-minutes, "
        "and when it is stopped"
    )
