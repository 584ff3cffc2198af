"""``delayzero train``: presets first, then any setting."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from delayzero.extras import require_training

USAGE = """usage: delayzero train PRESET... [--SETTING VALUE]...

Trains an agent, or goes on with a run that was interrupted: the same command resumes.

presets, applied in their order:
{presets}

    delayzero train cartpole
    delayzero train minatar --env minatar:Asterix --seed 1
    delayzero train atari --env atari:Pong --interactions 50000
    delayzero train atari debug

settings (values are those of the presets named before --help):
"""


def main(arguments: Sequence[str]) -> int:
    """Train."""
    require_training()
    from delayzero.runs.run_folder import command_line
    from delayzero.settings import PRESETS
    from delayzero.settings.options import HELP, read_config, split
    from delayzero.training.loop import train

    if any(word in HELP for word in split(arguments)[1]):
        listed = [
            f"  {name:<12} {(make.__doc__ or '').splitlines()[0]}" for name, make in PRESETS.items()
        ]
        print(USAGE.format(presets="\n".join(listed)))
    outcome = train(read_config(arguments), command_line())
    print(outcome.folder, file=sys.stdout)
    return 0 if outcome.finished else 130
