"""The program ``delayzero``: runs a command, and prints expected errors as one line.

Importing this module imports nothing heavy; a command's module is imported when it is run.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from delayzero import __version__
from delayzero.arguments import UsageError, check_verb
from delayzero.extras import MissingExtraError

INTERRUPTED = 130  # the exit code of shells after Ctrl-C


@dataclass(frozen=True)
class Command:
    """A command of ``delayzero``.

    Attributes:
        target: ``module:function``. The function takes the arguments after the command's name and
            returns the exit code.
        help: One line for ``delayzero --help``.
    """

    target: str
    help: str


COMMANDS: dict[str, Command] = {
    "train": Command("delayzero.training.cli:main", "train an agent, or resume a run"),
    "evaluate": Command("delayzero.evaluation.cli:main", "play episodes with a trained agent"),
    "watch": Command("delayzero.watching.cli:main", "record an agent at work, as video and page"),
    "curves": Command("delayzero.runs.curves:main", "plot the learning curves of runs"),
    "compare": Command(
        "delayzero.evaluation.compare.cli:main", "train several agents under delay and compare them"
    ),
    "campaign": Command(
        "delayzero.campaigns.cli:main", "train many runs by a plan, or see how they stand"
    ),
    "results": Command(
        "delayzero.evaluation.paper.cli:main", "collect results and list them with the paper's"
    ),
    "report": Command("delayzero.report.cli:main", "write or serve a page about runs and results"),
    "delays": Command(
        "delayzero.delays.cli:main", "inspect delay laws; measure the delays of a network"
    ),
    "theory": Command(
        "delayzero.tabular.theory:main", "check the paper's theorems on small problems"
    ),
    "demo": Command(
        "delayzero.evaluation.compare.demo:main", "compare four agents in CartPole, in minutes"
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: The words after ``delayzero``; those of this process by default.

    Returns:
        The exit code: 0 for success, 2 for an error that the user can fix, printed as one line,
        130 after Ctrl-C.
    """
    _escape_what_cannot_be_printed()
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = _dispatch(words)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader of the output, such as `head`, has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if not _is_expected(error):
            raise
        print(f"delayzero: error: {_one_line(error)}", file=sys.stderr)
        return 2


def _escape_what_cannot_be_printed() -> None:
    """Print characters that a stream cannot encode, such as those of odd names, as escapes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        print(_help())
        return 0
    if words[0] == "--version":
        print(f"delayzero {__version__}")
        return 0
    if words[0].startswith("-"):
        raise UsageError(f"unknown option '{words[0]}'; type: delayzero --help")
    check_verb(words[0], COMMANDS, "delayzero")
    module, _, function = COMMANDS[words[0]].target.partition(":")
    code: int = getattr(importlib.import_module(module), function)(words[1:])
    return code


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {command.help}" for name, command in COMMANDS.items()]
    return "\n".join(
        [
            "usage: delayzero COMMAND ...",
            "",
            "Reinforcement learning when actions take effect late.",
            "",
            "commands:",
            *lines,
            "",
            "`delayzero COMMAND --help` lists the options of a command.",
            "`delayzero --version` prints the version.",
        ]
    )


def _is_expected(error: Exception) -> bool:
    """Whether the user can fix the error.

    Error classes of heavy modules are looked up among those already imported.
    """
    if isinstance(error, (UsageError, MissingExtraError, OSError)):
        return True
    for module, name in (("delayzero.delays.law", "DelayError"), ("gymnasium.error", "Error")):
        loaded = sys.modules.get(module)
        if loaded is not None and isinstance(error, getattr(loaded, name)):
            return True
    return False


def _one_line(error: Exception) -> str:
    from delayzero.files import DISK_FULL

    if isinstance(error, OSError) and error.errno in DISK_FULL:
        place = f" for '{error.filename}'" if error.filename else ""
        return f"there is no space left on the disk{place}; free some, and type the same command"
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"'{error.filename}': {error.strerror}"
    return " ".join(str(error).split())
