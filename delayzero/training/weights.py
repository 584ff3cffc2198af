"""The weights of a run, for evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax

from delayzero.arguments import UsageError
from delayzero.training.checkpoint import Checkpoints
from delayzero.training.run_folder import RunFolder
from delayzero.training.system import Spaces, System, build_system, make_training_env


def load_weights(run: Path) -> tuple[System, Any]:
    """The system of a run, and the newest weights that its checkpoint has.

    Raises:
        UsageError: There is no such run, or it has no checkpoint yet.
    """
    folder = RunFolder(run)
    config = folder.config()
    env = make_training_env(config)
    system = build_system(config, Spaces.of(env))
    env.close()
    checkpoints = Checkpoints(folder.checkpoints) if folder.checkpoints.exists() else None
    if checkpoints is None or checkpoints.latest() is None:
        raise UsageError(f"{run} has no checkpoint yet; go on with its training first")
    example = jax.eval_shape(system.first_state, jax.random.key(0))
    variables = checkpoints.restore({"learner": example})["learner"].variables
    checkpoints.close()
    return system, variables
