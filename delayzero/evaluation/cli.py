"""``delayzero evaluate``: play episodes with the weights of a run."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from delayzero.arguments import Parser, whole
from delayzero.bounds import LARGEST
from delayzero.extras import require_training
from delayzero.progress import progress


def main(arguments: Sequence[str]) -> int:
    """Evaluate a run; print one JSON line per episode, then a summary."""
    require_training()
    parser = Parser(
        prog="delayzero evaluate",
        description="Play whole episodes with the newest weights of a run, without exploration "
        "noise. Prints one JSON line per episode, and a summary on standard error.",
    )
    parser.add_argument("run", type=Path, help="folder of the run")
    parser.add_argument(
        "--episodes", type=whole(1), default=32, help="number of episodes (default: 32)"
    )
    parser.add_argument(
        "--envs", type=whole(1), help="environments played in parallel (default: one per episode)"
    )
    parser.add_argument(
        "--seed",
        type=whole(0, LARGEST),
        help="seed of environments and delays (default: the run's)",
    )
    parser.add_argument("--delay", help="delay law, such as walk:15 (default: the run's)")
    parser.add_argument(
        "--max-steps",
        type=whole(1),
        help="steps after which an episode is truncated (default: the environment's limit)",
    )
    parser.add_argument(
        "--forecast",
        choices=("model", "perfect"),
        default="model",
        help="where the search starts: the state that the model predicts, or the true one, from "
        "copies of the environments or Atari's emulator (default: model)",
    )
    parser.add_argument(
        "--trust",
        action="store_true",
        help="run Python code that the run's settings name (an environment's module, a callback)",
    )
    options = parser.parse_args(arguments)

    from delayzero.evaluation.episodes import Evaluator, summary
    from delayzero.runs.weights import load_weights

    system, variables = load_weights(options.run, trust=options.trust)
    if options.forecast == "perfect":
        system = system.foreseeing()
    seed = system.config.seed if options.seed is None else options.seed
    evaluator = Evaluator(
        system,
        options.episodes,
        envs=options.envs,
        max_steps=options.max_steps or system.config.final_max_steps,
        delay=options.delay,
    )
    with progress("evaluate", options.episodes) as advance:
        episodes = evaluator.play(variables, seed, advance)
    evaluator.close()
    for episode in episodes:
        print(json.dumps(episode._asdict()))
    print(json.dumps(summary(episodes)), file=sys.stderr)
    return 0
