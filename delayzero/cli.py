"""The command ``delayzero``: finds the verb, and turns expected errors into one line.

Importing this imports nothing heavy; a verb's module is imported when the verb is used.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from delayzero import __version__
from delayzero.arguments import UsageError, check_verb
from delayzero.extras import MissingExtraError

INTERRUPTED = 130  # what shells report for a command that Ctrl-C ended


@dataclass(frozen=True)
class Verb:
    """A verb of the command line.

    Attributes:
        place: ``module:function`` of a function that takes the arguments behind the verb and
            returns the exit code.
        help: What it does, in one line.
    """

    place: str
    help: str


VERBS: dict[str, Verb] = {
    "train": Verb("delayzero.training.cli:main", "train an agent, or go on with a run"),
    "evaluate": Verb("delayzero.evaluation.cli:main", "play episodes with a run's weights"),
    "curves": Verb("delayzero.runs.curves:main", "draw the scores of runs"),
    "compare": Verb("delayzero.evaluation.compare.cli:main", "agents under delay, side by side"),
    "results": Verb("delayzero.evaluation.paper.cli:main", "runs beside the paper's tables"),
    "delays": Verb("delayzero.delays.cli:main", "look at delay laws; measure a real network"),
    "theory": Verb("delayzero.tabular.theory:main", "the paper's theorems, computed exactly"),
    "demo": Verb("delayzero.evaluation.compare.demo:main", "agents in CartPole, in minutes"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: The words behind ``delayzero``; those of this process unless given.

    Returns:
        The exit code: 0 if all went well, 2 for an error of the user's, told in one line.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = _dispatch(words)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output, such as `head`, has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if not _is_expected(error):
            raise
        print(f"delayzero: error: {_one_line(error)}", file=sys.stderr)
        return 2


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        print(_help())
        return 0
    if words[0] == "--version":
        print(f"delayzero {__version__}")
        return 0
    if words[0].startswith("-"):
        raise UsageError(f"'{words[0]}' is no option of delayzero; type: delayzero --help")
    check_verb(words[0], VERBS, "delayzero")
    module, _, function = VERBS[words[0]].place.partition(":")
    code: int = getattr(importlib.import_module(module), function)(words[1:])
    return code


def _help() -> str:
    width = max(map(len, VERBS))
    lines = [f"  {name:<{width}}  {verb.help}" for name, verb in VERBS.items()]
    return "\n".join(
        [
            "usage: delayzero VERB ...   (delayzero VERB --help says more; also: --version)",
            "",
            "Reinforcement learning when actions take effect late.",
            "",
            *lines,
        ]
    )


def _is_expected(error: Exception) -> bool:
    """Whether an error is the user's to mend; classes of heavy modules are looked up by name."""
    if isinstance(error, (UsageError, MissingExtraError, OSError)):
        return True
    for module, name in (("delayzero.delays.law", "DelayError"), ("gymnasium.error", "Error")):
        loaded = sys.modules.get(module)
        if loaded is not None and isinstance(error, getattr(loaded, name)):
            return True
    return False


def _one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"'{error.filename}': {error.strerror}"
    return " ".join(str(error).split())
