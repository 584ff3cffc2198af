"""``delayzero train``: presets first, then any setting."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence

from delayzero.extras import MissingExtraError, require_training
from delayzero.settings import PRESETS
from delayzero.settings.options import HELP, options_with_values, read_config, split

WANDB = "--wandb"
USAGE = """usage: delayzero train PRESET... [--SETTING VALUE]... [--wandb]

Trains an agent. The same command resumes a run that was interrupted.

presets, applied in their order:
{presets}

    delayzero train cartpole
    delayzero train minatar --env minatar:Asterix --seed 1
    delayzero train atari --env atari:Pong --interactions 50000
    delayzero train atari debug

--wandb sends the metrics to Weights & Biases too (pip install 'delayzero[wandb]').

settings (with the values of the presets named before --help):
"""


def print_help(arguments: Sequence[str]) -> None:
    """Print the presets and the settings; without the extra ``cli`` their names alone."""
    listed = [
        f"  {name:<12} {(make.__doc__ or '').splitlines()[0]}" for name, make in PRESETS.items()
    ]
    print(USAGE.format(presets="\n".join(listed)))
    try:
        with contextlib.suppress(SystemExit):  # tyro exits after its help
            read_config(arguments)
    except MissingExtraError as error:
        for name, value in options_with_values(arguments):
            print(f"  {name} {value}")
        print(f"\nwhat each one means: {error}")


def main(arguments: Sequence[str]) -> int:
    """Train."""
    words = [word for word in arguments if word != WANDB]
    if any(word in HELP for word in split(words)[1]):
        print_help(words)
        return 0
    require_training()
    config = read_config(words)
    from delayzero.runs.run_folder import command_line
    from delayzero.training.loop import train
    from delayzero.training.tracking import Tracking

    if WANDB not in arguments:
        outcome = train(config, command_line())
    else:
        tracking, finished = Tracking(config), False
        try:
            outcome = train(config, command_line(), tracking.callbacks)
            finished = outcome.finished
        finally:
            tracking.close(finished=finished)
    print(outcome.folder, file=sys.stdout)
    return 0 if outcome.finished else 130
