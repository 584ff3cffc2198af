"""What do rolled latents still know? See docs/lab/2026-11-18-what-rolls-lose.md.

    python results/foreseeable/probe.py RUN > results/foreseeable/probe-asterix.json

Plays Asterix with the policy of a run (no search, no delay) and reads the positions of the player
and of the objects in the eight lanes from the emulator's memory. Linear maps from latents to these
positions are fitted in some games and measured in others, on three kinds of latents: encoded from
the pictures k steps later, rolled k steps through the executed actions, and encoded now (a linear
guess of what comes). A lane counts where its object moves steadily all the way.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from measure import Network

from delayzero.envs.atari import Atari
from delayzero.envs.foresight import ForeseeingAtari
from delayzero.runs.weights import load_weights

GAMES, FITTED, LENGTH, STACK = 24, 16, 450, 4
STEPS = (1, 3, 5, 10, 15, 25)
PLAYER, LANES = 41, slice(42, 50)
"""Bytes of Asterix's memory: horizontal positions in pixels of 160."""
LIMIT = 10
"""Pixels: a larger change within a step is not a movement but another object."""
RIDGES = (30.0, 300.0)


class Played:
    """Games of the policy: latents, actions, memory, and where something ended, ``[T, N]``."""

    def __init__(self, network, seed):
        """Play them."""
        env = ForeseeingAtari(Atari("Asterix", GAMES, max_steps=27_000))
        seen, _ = env.reset(seed=seed)
        stack, random = np.repeat(seen[:, None], STACK, 1), np.random.default_rng(seed)
        cut = np.ones(GAMES, bool)
        rows = []
        for _ in range(LENGTH):
            latent, policy, _ = network.look(stack)
            chances = np.asarray(policy, np.float64).cumsum(1)
            action = (random.random((GAMES, 1)) * chances[:, -1:] > chances).sum(1)
            memory = np.stack([shadow.getRAM() for shadow in env._shadows])
            rows.append((np.asarray(latent), np.asarray(policy), action, memory, cut))
            first = env._ended.copy()  # this step begins a new game
            seen, _, terminated, truncated, info = env.step(action)
            cut = terminated | truncated | info["life_lost"] | first
            stack = np.concatenate([stack[:, 1:], seen[:, None]], 1)
            stack[first] = seen[first][:, None]
        self.latent, self.policy, self.action, memory, self.cut = map(
            np.stack, zip(*rows, strict=True)
        )
        self.memory = memory.astype(np.float32)

    def places(self, games):
        """Steps and games with a whole stack before them and no end in the horizon."""
        found = [
            (t, i)
            for t in range(STACK, LENGTH - STEPS[-1])
            for i in games
            if not self.cut[t - STACK + 1 : t + STEPS[-1] + 1, i].any()
        ]
        return np.array(found).T


def smallest_error(fit, held, which):
    """The mean error of the better of two linear maps, in pixels.

    ``fit`` and ``held`` are pairs of latents and positions; only positions in ``which`` count.
    """
    x, y = fit[0].reshape(len(fit[0]), -1), fit[1]
    middle, mean = x.mean(0), y.mean(0)
    x = x - middle
    square, product = x.T @ x, x.T @ (y - mean)
    errors = []
    for ridge in RIDGES:
        weights = np.linalg.solve(square + ridge * np.eye(len(square), dtype=np.float32), product)
        guess = (held[0].reshape(len(held[0]), -1) - middle) @ weights + mean
        errors.append(float(np.abs(guess - held[1])[which].mean()))
    return min(errors)


def main() -> None:
    """Play, roll, fit, and print the errors as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--seed", type=int, default=1234)
    options = parser.parse_args()
    network = Network(*load_weights(options.run))
    played, random = Played(network, options.seed), np.random.default_rng(0)
    parts = []
    for games, most in ((range(FITTED), 5000), (range(FITTED, GAMES), 900)):
        places = played.places(games)
        chosen = random.choice(places.shape[1], min(most, places.shape[1]), replace=False)
        parts.append(places[:, chosen])
    now = [played.latent[t, i] for t, i in parts]
    moves = np.abs(np.diff(played.memory[:, :, LANES], axis=0))
    columns = {"steps": STEPS, "positions": [p.shape[1] for p in parts], "agreement": []}
    names = ("encoded_then", "rolled", "encoded_now")
    columns |= {f"{what}_{name}": [] for what in ("player", "objects") for name in names}
    rolled = [roll_all(network, z, played, part) for z, part in zip(now, parts, strict=True)]
    for n, k in enumerate(STEPS):
        then = [played.latent[t + k, i] for t, i in parts]
        t, i = parts[1]
        steady = np.stack([moves[t + j, i] for j in range(k)])
        steady = (steady < LIMIT).all(0) & (steady > 0).any(0)
        for name, latents in zip(names, (then, [r[n] for r in rolled], now), strict=True):
            for what, bytes_, which in (
                ("player", slice(PLAYER, PLAYER + 1), slice(None)),
                ("objects", LANES, steady),
            ):
                y = [played.memory[t + k, i, bytes_] for t, i in parts]
                pairs = list(zip(latents, y, strict=True))
                columns[f"{what}_{name}"].append(round(smallest_error(*pairs, which), 2))
        likeliest = np.asarray(network.read(rolled[1][n])[1]).argmax(-1)
        real = played.policy[t + k, i].argmax(-1)
        columns["agreement"].append(round(float((likeliest == real).mean()), 3))
    print(json.dumps(columns, indent=1))


def roll_all(network, latents, played, part):
    """Latents rolled from each place, after each of ``STEPS``."""
    t, i = part
    actions = np.stack([played.action[t + k, i] for k in range(STEPS[-1])], 1)
    keep = np.array(STEPS) - 1
    pieces = [
        np.asarray(network.roll(latents[s : s + 500], actions[s : s + 500]))[keep]
        for s in range(0, len(latents), 500)
    ]
    return np.concatenate(pieces, 1)


if __name__ == "__main__":
    main()
