"""``delayzero watch``: an agent at work, as a video and as a page to step through."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from delayzero.arguments import Parser, UsageError, whole
from delayzero.bounds import LARGEST
from delayzero.extras import require, require_training
from delayzero.files import check_out, make_folder, write_whole
from delayzero.progress import Advance, progress, say

if TYPE_CHECKING:
    from PIL.Image import Image

    from delayzero.watching.moments import Episode
    from delayzero.watching.recording import Subject

KINDS = (".mp4", ".gif", ".html")
"""What can be written."""
HOLD = 1.5
"""Seconds for which the end of an episode stays."""


def main(arguments: Sequence[str]) -> int:
    """Record episodes, draw them, and write the files."""
    options = parser().parse_args(arguments)
    if options.run.is_file():
        raise UsageError(f"{options.run} is a file; type the folder of a run")
    outs = options.out or [options.run / f"watch{kind}" for kind in KINDS]
    for out in outs:
        _check_kind(out)
        check_out(out)
    require_training()
    require("PIL.Image", "watch")
    require("av", "watch")
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pygame draws without a window
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")

    subjects = _subjects(options.run, options.beside, options.delay, options.trust)
    config = subjects[0].system.config
    seed = config.seed if options.seed is None else options.seed
    episodes = [_recorded(one, options.episodes, seed, options.steps) for one in subjects]
    _write(outs, episodes, options.fps, shlex.join(["delayzero", "watch", *arguments]))
    for out in outs:
        print(out)
    return 0


def parser() -> Parser:
    """Return the parser of the command's words."""
    words = Parser(
        prog="delayzero watch",
        description="Record episodes of a run's newest weights, without exploration noise, as a "
        "video (MP4, GIF) and as a page to step through: what the agent sees, the actions under "
        "way, what it decides, and the state that the decision really meets. The episodes are "
        "those of delayzero evaluate with the same seed. See docs/watch.md.",
    )
    words.add_argument("run", type=Path, metavar="RUN", help="folder of the run")
    words.add_argument(
        "--beside",
        type=Path,
        metavar="RUN2",
        help="another run in the same environment, side by side, with the same delays and seeds",
    )
    words.add_argument("--delay", metavar="LAW", help="delay law, such as walk:15 (default: RUN's)")
    words.add_argument(
        "--episodes", type=whole(1), default=1, help="number of episodes (default: 1)"
    )
    words.add_argument(
        "--steps",
        type=whole(1),
        default=500,
        help="most steps of an episode to record (default: 500)",
    )
    words.add_argument(
        "--seed", type=whole(0, LARGEST), help="seed of environments and delays (default: RUN's)"
    )
    words.add_argument(
        "--out",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="files to write: .mp4, .gif (the first 160 pictures), .html "
        "(default: watch.mp4, watch.gif and watch.html in RUN)",
    )
    words.add_argument(
        "--fps", type=whole(1, 60), default=10, help="steps per second (default: 10)"
    )
    words.add_argument(
        "--trust",
        action="store_true",
        help="run Python code that the runs' settings name (an environment's module, a callback)",
    )
    return words


def _check_kind(out: Path) -> None:
    """Check that a file's name says what it should hold."""
    if out.suffix.lower() not in KINDS:
        kind = f"'{out.suffix}'" if out.suffix else "no ending"
        raise UsageError(f"--out {out} has {kind}; type a name that ends in {', '.join(KINDS)}")


def _subjects(run: Path, beside: Path | None, delay: str | None, trust: bool) -> list[Subject]:
    """Load the runs; all are watched under the delays of the first."""
    from delayzero.runs.weights import load_weights
    from delayzero.settings import DelaySettings
    from delayzero.watching.recording import Subject

    subjects: list[Subject] = []
    delays: DelaySettings | None = None
    for folder in (run,) if beside is None else (run, beside):
        system, variables = load_weights(folder, trust=trust)
        config = system.config
        if not subjects:
            delays = config.delays
            if delay is not None:
                delays = replace(delays or DelaySettings(), law=delay)
        elif config.env != subjects[0].system.config.env:
            raise UsageError(
                f"--beside {folder} plays {config.env}, and {run} plays "
                f"{subjects[0].system.config.env}; type two runs in the same environment"
            )
        subjects.append(Subject(folder, system, variables, delays))
    for subject in subjects:
        subject.check()
    return subjects


def _recorded(subject: Subject, episodes: int, seed: int, steps: int) -> list[Episode]:
    """Play a run's episodes, and say how they went."""
    from delayzero.watching.recording import record

    agent = subject.system.config.agent
    with progress(f"play {agent}", episodes) as advance:
        recorded = record(subject, episodes, seed, steps, advance)
    scores = ", ".join(f"{one.score:g} ({one.closing})" for one in recorded)
    say(f"{agent}: {scores}")
    return recorded


def _write(
    outs: Sequence[Path], episodes: Sequence[Sequence[Episode]], rate: int, command: str
) -> None:
    """Write each file as a whole: its old content stays until the new one is complete."""
    from delayzero.watching import drawing, page, video

    hold = max(1, round(HOLD * rate))
    total = drawing.count(episodes, hold)
    content: str | bytes
    for out in outs:
        kind = out.suffix.lower()
        if kind == ".html":
            content = page.page(episodes, command)
        else:
            encode, shown = video.mp4, total
            if kind == ".gif":
                encode, shown = video.gif, min(total, video.GIF_PICTURES)
            with progress(f"draw {out.name}", shown) as advance:
                content = encode(_counted(drawing.drawn(episodes, hold), advance), rate)
        make_folder(out.parent)
        write_whole(out, content)


def _counted(pictures: Iterator[Image], advance: Advance) -> Iterator[Image]:
    """Pass pictures on, and report each."""
    for picture in pictures:
        advance(1)
        yield picture
