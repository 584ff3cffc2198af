"""The way in from Python: train an agent, and load what it has learned."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym

from delayzero.arguments import UsageError
from delayzero.delays import DelayError
from delayzero.envs.make import MakeEnv, id_of_function, names_one_function
from delayzero.extras import require_training
from delayzero.files import read_json
from delayzero.progress import say, silence
from delayzero.settings import TrainConfig
from delayzero.settings.keywords import configure

require_training()

from delayzero.model.build import data_type  # noqa: E402
from delayzero.playing.policy import Policy, PolicyState  # noqa: E402
from delayzero.runs.curves import Curve, read_curve  # noqa: E402
from delayzero.runs.run_folder import RunFolder  # noqa: E402
from delayzero.runs.weights import load_weights  # noqa: E402
from delayzero.training.loop import train as run_training  # noqa: E402
from delayzero.training.reporting import Callbacks, Evaluation, Round  # noqa: E402

__all__ = ["Evaluation", "Policy", "PolicyState", "Round", "Run", "UsageError", "load", "train"]


@dataclass(frozen=True)
class Run:
    """A run on disk."""

    folder: Path
    """Where it is: see docs/runs.md for its files."""
    finished: bool
    """False if it was interrupted; the same call resumes it."""

    @property
    def config(self) -> TrainConfig:
        """Its settings."""
        return RunFolder(self.folder).config(trust=True)

    @property
    def result(self) -> dict[str, Any] | None:
        """The final evaluation: ``score``, ``scores``, ...; None before the run has finished."""
        path = RunFolder(self.folder).result
        return read_json(path, "delete it, and train again") if path.exists() else None

    @property
    def curves(self) -> Curve:
        """The scores by interactions, of self-play and of evaluations."""
        return read_curve(self.folder)

    def policy(self, *, seed: int = 0) -> Policy:
        """Return what the run has learned, see :func:`load`."""
        return load(self.folder, seed=seed, trust=True)


def train(
    *presets: str,
    env: str | MakeEnv | None = None,
    on_round: Callable[[Round], Any] | None = None,
    on_evaluation: Callable[[Evaluation], Any] | None = None,
    quiet: bool = False,
    **settings: Any,
) -> Run:
    """Train an agent, or resume a run that was interrupted; the same call resumes.

    Args:
        presets: Names of presets, applied in turn: ``"cartpole"``, ``"minatar"``, ``"atari"``,
            ``"atari-paper"``, ``"debug"``.
        env: The id of an environment, or a function that makes a Gymnasium environment; by default
            that of the presets.
        on_round: Called after every round of self-play and learning.
        on_evaluation: Called after every evaluation.
        quiet: Print nothing.
        settings: Any setting of the command line: ``delay="walk:5"``, ``seed=1``,
            ``folder="runs/mine"``, ``learner={"batch_size": 32}``.

    Returns:
        The run. If Ctrl-C stopped it, its ``finished`` is False.

    Raises:
        UsageError: A setting is wrong; the message says what to change.

    Example:
        >>> run = delayzero.train("cartpole", delay="walk:5", seed=0)  # doctest: +SKIP
        >>> run.result["score"]  # doctest: +SKIP
        500.0
    """
    if isinstance(env, gym.Env):
        raise UsageError(f"env is an environment; give the function or class that makes it: {env}")
    if callable(env):
        if not names_one_function(env) and "folder" not in settings:
            raise UsageError(
                f"env is {env!r}, which has no name of its own; give folder=, so that no other "
                "run is taken for this one"
            )
        settings["env"] = id_of_function(env)
    elif env is not None:
        settings["env"] = env
    try:
        config = configure(presets, settings)
    except DelayError as error:
        raise UsageError(str(error)) from error
    command = ["python", "-c", f"delayzero.train({_call(presets, settings)})"]
    try:
        with silence() if quiet else contextlib.nullcontext():
            outcome = run_training(config, command, Callbacks(on_round, on_evaluation))
    except gym.error.Error as error:  # the environment is unknown or cannot be learned in
        raise UsageError(str(error)) from error
    return Run(outcome.folder, outcome.finished)


def load(run: str | Path, *, seed: int = 0, trust: bool = False) -> Policy:
    """Load the newest weights of a run as a policy.

    It needs neither the environment nor the replay. The run may be training at the same time.

    Args:
        run: The folder of the run.
        seed: Of decisions at random; only the agent ``random`` makes any.
        trust: Whether Python code that its settings name may be run. A folder from someone else may
            name any (``callback:...``).

    Raises:
        UsageError: There is no such run, it has no checkpoint yet, it names code that is not
            trusted, or the seed is no whole number from 0.
    """
    folder = RunFolder(_folder(run))
    system, variables = load_weights(folder.path, trust=trust, with_env=False)
    trained, here = data_type(folder.as_begun(system.config)), system.dtype
    if trained != here:
        say(f"{run} was trained in {trained}; this machine computes in {here}")
    return Policy(system, variables, seed=seed)


def _folder(run: str | Path) -> Path:
    """Return the folder of a run.

    Raises:
        UsageError: It is no path, or one that cannot be.
    """
    try:
        path = Path(run)
        with contextlib.suppress(FileNotFoundError):
            path.stat()
    except TypeError:
        raise UsageError(
            f"run is of the type {type(run).__name__}; it should be the folder of a run, such as "
            "'runs/mine'"
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"{str(run)!r:.200} is not the folder of a run: {reason}") from None
    return path


def _call(presets: tuple[str, ...], settings: dict[str, Any]) -> str:
    """Return the arguments of a call, as one would type them."""
    words = [repr(preset) for preset in presets]
    for name, value in settings.items():
        words.append(f"{name}={value!r}" if name.isidentifier() else f"**{{{name!r}: {value!r}}}")
    return ", ".join(words)
