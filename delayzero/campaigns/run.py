"""A planned run: its settings, its folder, the command that trains or resumes it, its results."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from delayzero.arguments import UsageError
from delayzero.bounds import option
from delayzero.campaigns.engine import Command
from delayzero.files import last_line
from delayzero.forms import Form, whole, with_keys
from delayzero.playing.environments import make_training_env
from delayzero.playing.system import build_system
from delayzero.runs import result as runs
from delayzero.runs.paths import RunPaths
from delayzero.runs.run_folder import RunFolder
from delayzero.settings import AGENTS, AgentName, TrainConfig, agent_kind
from delayzero.settings.keywords import configure, flattened
from delayzero.spaces import Spaces

MADE = with_keys({"interactions": whole})
"""The form of a line or file that says how many interactions were made."""
EVALUATE_AGAIN = "delete it, and type the same command to evaluate again"


@dataclass(frozen=True)
class Run:
    """A run of a comparison or of a campaign."""

    config: TrainConfig
    folder: RunFolder
    words: tuple[str, ...]
    """The arguments of ``delayzero`` that start or resume it."""

    @property
    def name(self) -> str:
        """The run's name in messages and file names."""
        return self.folder.path.name

    @property
    def finished(self) -> bool:
        """Whether the run has its result."""
        return self.folder.result.exists()

    def command(self, logs: Path) -> Command:
        """The process that trains or resumes the run.

        Args:
            logs: The folder of the processes' output.
        """
        words, log = ("delayzero", *self.words), logs / f"{self.name}.txt"
        return Command(self.name, words, log, self.folder.lock)


def planned(presets: Sequence[str], settings: Mapping[str, Any], root: Path | None = None) -> Run:
    """Plan a run.

    Args:
        presets: Their names, in order.
        settings: By name, as :func:`~delayzero.settings.keywords.configure` takes them.
        root: The run's folder goes here, with the name that ``delayzero train`` would choose; by
            default the settings name the folder.

    Raises:
        UsageError: A preset or a setting is unknown or invalid.
        DelayError: A delay law is unknown or invalid.
    """
    config = configure(presets, settings)
    if root is not None:
        config = replace(config, folder=str(root / Path(config.run_folder).name))
        settings = {**settings, "folder": config.folder}
    words = ["train", *presets]
    for name, value in flattened(settings):
        words += [option(name), str(value)]
    return Run(config, RunFolder(Path(config.run_folder)), tuple(words))


def typed(words: Sequence[str]) -> str:
    """A command in the words that a user types."""
    return shlex.join(["delayzero", *words])


def checked_agents(names: Iterable[str]) -> tuple[AgentName, ...]:
    """The agents with these names, without repetitions.

    Raises:
        UsageError: A name is unknown; the message suggests the nearest one.
    """
    names = list(names)
    for name in names:
        agent_kind(name)
    return tuple(dict.fromkeys(agent for name in names for agent in AGENTS if agent == name))


def refusals(runs: Sequence[Run]) -> dict[Run, str]:
    """Check that runs can start, without starting them.

    Settings of runs that have begun but not finished are checked by training.

    Returns:
        The runs whose agent cannot learn in its environment, with the reason.

    Raises:
        UsageError: An environment is invalid, or a finished run has different settings.
    """
    for run in runs:
        run.folder.finished(run.config)  # refuses different settings
    spaces: dict[str, Spaces] = {}
    built: dict[TrainConfig, str] = {}
    refused: dict[Run, str] = {}
    for run in runs:
        config = run.config
        if config.env not in spaces:
            one = replace(config, envs=1, engine="local", actors=None)
            with closing(make_training_env(one)) as env:
                spaces[config.env] = Spaces.of(env)
        alike = replace(config, seed=0, folder=None)
        if alike not in built:
            built[alike] = _refusal(config, spaces[config.env])
        if built[alike]:
            refused[run] = built[alike]
    return refused


def _refusal(config: TrainConfig, spaces: Spaces) -> str:
    """Why an agent cannot learn in an environment with these spaces; empty if it can."""
    try:
        build_system(config, spaces)
    except (UsageError, ValueError) as error:
        return str(error)
    return ""


def read_result(folder: RunPaths, form: Form = MADE) -> dict[str, Any]:
    """Read the summary of a finished run.

    Args:
        folder: The run's folder.
        form: What the summary must have.

    Raises:
        UsageError: It is damaged, or of another run.
    """
    return runs.read_result(folder, EVALUATE_AGAIN, form)


def interactions_made(run: Run) -> int:
    """The interactions of a run so far, according to the files in its folder."""
    if run.finished:
        return int(read_result(run.folder)["interactions"])
    if not run.folder.metrics.exists():
        return 0
    remedy = f"delete {run.folder.path} to train the run again"
    last = last_line(run.folder.metrics, remedy, MADE)
    return 0 if last is None else int(last["interactions"])
