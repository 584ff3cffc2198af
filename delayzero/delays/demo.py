"""``delayzero delays demo``: CartPole under delay, ignoring the delay and predicting.

One state-feedback controller balances CartPole under several delay laws, in two ways. Ignoring the
delay, it acts on the current state. Predicting, it rolls that state through the pending actions
(``info["pending"]``) with CartPole's equations of motion, and acts on the state in which its
decision will run. This is the idea of DEZ, with a perfect model instead of a learned one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from delayzero.arguments import Parser, whole
from delayzero.delays import DelayedExecution, parse
from delayzero.delays.statistics import Characteristics, characterise
from delayzero.extras import MissingExtraError
from delayzero.files import named
from delayzero.progress import progress

LAWS = ("constant:0", "constant:5", "walk:5", "uniform:0-5", "4g")
"""The first one is no delay."""

State = tuple[float, float, float, float]
"""Position and speed of the cart, angle and angular speed of the pole."""

# Gains of the linear-quadratic regulator of the linearised equations, with unit weights on the
# state and 0.1 on the force, divided by the angle's gain. Only the sign of the feedback is used.
GAINS = (0.06, 0.12, 1.0, 0.26)


@dataclass(frozen=True)
class Result:
    """The returns of one controller under one law.

    Attributes:
        returns: The return of each episode, shape ``[episodes]``.
        mean: Their mean.
        low: Lower end of the 95% bootstrap interval of the mean.
        high: Upper end of that interval.
    """

    returns: NDArray[np.float64]
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Comparison:
    """Both controllers under one law."""

    law: str
    characteristics: Characteristics
    ignoring: Result
    predicting: Result


def cartpole_step(state: State, action: int) -> State:
    """Advance CartPole-v1's equations of motion by one step (Barto, Sutton, Anderson, 1983)."""
    position, speed, angle, turn = state
    force = 10.0 if action == 1 else -10.0
    cos, sin = math.cos(angle), math.sin(angle)
    pushed = (force + 0.05 * turn * turn * sin) / 1.1
    turning = (9.8 * sin - cos * pushed) / (0.5 * (4 / 3 - 0.1 * cos * cos / 1.1))
    moving = pushed - 0.05 * turning * cos / 1.1
    return (
        position + 0.02 * speed,
        speed + 0.02 * moving,
        angle + 0.02 * turn,
        turn + 0.02 * turning,
    )


def decide(state: State) -> int:
    """Return the push that the feedback calls for: 1 to the right, 0 to the left."""
    return int(sum(gain * value for gain, value in zip(GAINS, state, strict=True)) > 0)


def current_state(observation: Any, info: dict[str, Any]) -> State:
    """Return the current state, on which a controller acts that ignores the delay."""
    position, speed, angle, turn = map(float, observation)
    return position, speed, angle, turn


def predicted_state(observation: Any, info: dict[str, Any]) -> State:
    """Return the state in which the coming decision will run: after the pending actions."""
    state = current_state(observation, info)
    for action in info["pending"]:
        state = cartpole_step(state, action)
    return state


def make_env(law: str) -> DelayedExecution:
    """Make CartPole-v1 under a law; the initial queue pushes left and right in turn."""
    queue = [time % 2 for time in range(parse(law).max_delay)]
    env = gym.make("CartPole-v1", disable_env_checker=True)
    return DelayedExecution(env, law, initial_actions=queue)


def run_episode(
    env: DelayedExecution, seed: int, state_of: Callable[[Any, dict[str, Any]], State]
) -> float:
    """Run one episode; ``seed`` seeds the environment and the delays. Return its score."""
    observation, info = env.reset(seed=seed)
    total, over = 0.0, False
    while not over:
        action = decide(state_of(observation, info))
        observation, reward, terminated, truncated, info = env.step(action)
        total, over = total + float(reward), terminated or truncated
    return total


def summarise(returns: Sequence[float], resamples: int = 5000) -> Result:
    """Return the mean of the returns with its 95% bootstrap interval."""
    values = np.asarray(returns, np.float64)
    places = np.random.default_rng(0).integers(len(values), size=(resamples, len(values)))
    low, high = np.quantile(values[places].mean(axis=1), (0.025, 0.975))
    return Result(values, float(values.mean()), float(low), float(high))


def compare(
    law: str, episodes: int, seed: int, advance: Callable[[int], None] = lambda units: None
) -> Comparison:
    """Run both controllers under one law, with the same seeds.

    Args:
        law: The text of the law.
        episodes: The number of episodes of each controller.
        seed: The seed of the first episode; later episodes have the next seeds.
        advance: Called with 1 after each episode.
    """
    env = make_env(law)
    results = []
    for state_of in (current_state, predicted_state):
        returns = []
        for episode in range(episodes):
            returns.append(run_episode(env, seed + episode, state_of))
            advance(1)
        results.append(summarise(returns))
    env.close()
    return Comparison(law, characterise(law, seed=seed), *results)


def law_label(law: str) -> str:
    """Return the name of a law in the table and the picture."""
    return "no delay" if law == "constant:0" else law


def table(comparisons: Sequence[Comparison]) -> str:
    """Format the comparison as aligned text."""
    rows: list[tuple[str, ...]] = [("delay", "mean", "dropped", "ignoring the delay", "predicting")]
    for entry in comparisons:
        values = entry.characteristics
        results = [
            f"{result.mean:5.1f}  [{result.low:5.1f}, {result.high:5.1f}]"
            for result in (entry.ignoring, entry.predicting)
        ]
        rows.append(
            (law_label(entry.law), f"{values.mean:.1f}", f"{values.drop_rate:.0%}", *results)
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if place in (1, 2) else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def add_options(parser: Parser) -> None:
    """Add the options of ``delayzero delays demo``."""
    parser.description = __doc__ and __doc__.partition("\n\n")[2]
    parser.add_argument(
        "--save", metavar="DIR", default="delays-demo", help="folder for the pictures (%(default)s)"
    )
    parser.add_argument(
        "--episodes",
        metavar="N",
        type=whole(1),
        default=100,
        help="episodes of each controller under each law (%(default)s)",
    )
    parser.add_argument(
        "--seed",
        metavar="S",
        type=whole(0),
        default=1000,
        help="seed of the first episode (%(default)s)",
    )


def show(options: Any) -> None:
    """Run the controllers, print the table and save the pictures."""
    folder = Path(options.save)
    folder.mkdir(parents=True, exist_ok=True)

    with progress("CartPole under delay", 2 * len(LAWS) * options.episodes) as advance:
        comparisons = [compare(law, options.episodes, options.seed, advance) for law in LAWS]
    print(
        f"CartPole-v1: mean return of {options.episodes} episodes (at most 500) "
        "and its 95% bootstrap interval.\n"
        "The same feedback controller acts on the current state (ignoring the delay), or on the\n"
        "state that results from rolling it through the pending actions (predicting). Until the\n"
        "first decision arrives, both push left and right in turn.\n"
    )
    print(table(comparisons))
    try:
        saved = _save_pictures(comparisons, folder)
    except MissingExtraError as error:
        print(f"\nno pictures: {error}")
        return
    print(f"\npictures in {folder}:", *(path.name for path in saved), sep="\n  ")


def _save_pictures(comparisons: Sequence[Comparison], folder: Path) -> list[Path]:
    from delayzero.delays.demo_picture import overview
    from delayzero.delays.pictures import law_picture, picture_name

    figures = {"overview.png": overview(comparisons)}
    for entry in comparisons[1:]:
        figures[picture_name(entry.law)] = law_picture(
            entry.law, characteristics=entry.characteristics
        )
    for name, figure in figures.items():
        with named(folder / name):
            figure.savefig(folder / name)
    return [folder / name for name in figures]
