"""A control loop of one's own around a trained policy: the drone, and a radio link that is late.

    python fly.py runs/altitude-Altitude-v0-dez-walk-4-seed0

Nothing here uses delayzero's wrappers: the link below stands for a real one, which delivers every
command after a delay that the ground station knows when it sends.
"""

from __future__ import annotations

import argparse

import numpy as np
from altitude import Altitude

import delayzero


class Link:
    """Delivers commands late; the newest that has arrived is the one that the drone executes."""

    def __init__(self, first_commands: list[int], longest: int, rng: np.random.Generator) -> None:
        self._slots = list(first_commands)  # what will run now, in one step, in two ...
        self._longest, self._rng = longest, rng
        self.delay = longest

    @property
    def pending(self) -> list[int]:
        """The commands that will run before one that is sent now."""
        return self._slots[: self.delay]

    def send(self, command: int) -> int:
        """Send a command; return the one that runs now."""
        slots = [*self._slots, self._slots[-1] if self._slots else command]
        slots[self.delay :] = [command] * (len(slots) - self.delay)
        self._slots = slots[1:]
        self.delay = int(np.clip(self.delay + self._rng.integers(-1, 2), 0, self._longest))
        return slots[0]


def main() -> None:
    """Fly some episodes, and print their scores."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", help="the folder of a run")
    parser.add_argument("--episodes", type=int, default=10)
    options = parser.parse_args()

    policy = delayzero.load(options.run)
    policy.warm_up()
    rng, scores = np.random.default_rng(0), []
    for episode in range(options.episodes):
        drone = Altitude()
        observation, _ = drone.reset(seed=episode)
        state = policy.reset(observation)
        link = Link(state.first_queue.tolist(), policy.max_delay, rng)
        score = 0.0
        for _ in range(200):
            command, state = policy.act(observation, state, delay=link.delay, pending=link.pending)
            observation, reward, lost, _, _ = drone.step(link.send(command))
            score += reward
            if lost:
                break
        scores.append(score)
    print(f"mean score of {len(scores)} episodes: {np.mean(scores):.1f} (200 is perfect)")


if __name__ == "__main__":
    main()
