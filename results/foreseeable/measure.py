"""How well could the best model foresee an Atari game? See docs/lab/2026-11-18-foreseeable.md.

    python results/foreseeable/measure.py RUN --byte 7 > results/foreseeable/asterix.json

Plays new episodes with the weights of a run. From some positions the emulator repeats the executed
actions several times, each time after one byte of its memory was changed at random: the byte from
which the game takes its chance, and which no picture shows (7 in Asterix, a counter of frames). A
change that shows in the next picture is taken back. All these futures are equally likely for one
who sees pictures alone, so that no model agrees with the real one much more often than they do.
"""

import argparse
import json
from collections import defaultdict
from pathlib import Path

import jax
import numpy as np

from delayzero.envs import foresight
from delayzero.envs.atari import Atari
from delayzero.playing.environments import delayed
from delayzero.playing.streams import STREAM_EVALUATION, run_key, run_seed
from delayzero.runs.weights import load_weights

STEPS = (1, 2, 3, 5, 8, 10, 12, 15, 20, 25)
HORIZON, STACK, ENVS, FUTURES, TRIES = 25, 4, 8, 8, 60


class Network:
    """What the weights of a run see, roll and choose."""

    def __init__(self, system, variables):
        """Compile."""
        model, planner = system.planner.model, system.planner
        bind = model.bind

        def read(latent):
            found = bind(variables).predict(latent)
            value = model.support.decode(found.value_logits)
            return latent, jax.nn.softmax(found.policy_logits), value

        def step(latent, action):
            return (bind(variables).step(latent, action),) * 2

        self.read = jax.jit(read)
        self.look = jax.jit(lambda frames: read(bind(variables).represent(frames)))
        self.roll = jax.jit(lambda latent, actions: jax.lax.scan(step, latent, actions.T)[1])
        self.decide = jax.jit(
            lambda latent: (
                planner.search(variables, jax.random.key(0), latent, explore=False).action
            )
        )


class Games:
    """Episodes of a run's agent, with the emulator's state before each step."""

    def __init__(self, system, variables, byte, length, seed):
        """Play them."""
        game = system.config.env.partition(":")[2]
        env = foresight.ForeseeingAtari(Atari(game, ENVS, max_steps=27_000))
        world = delayed(env, system.config.delays)
        player = system.player(world, run_key(seed, STREAM_EVALUATION), explore=False)
        player.begin(run_seed(seed, STREAM_EVALUATION))
        self.saved, steps = [], []
        for _ in range(length):
            self.saved.append([shadow.cloneState(include_rng=True) for shadow in env._shadows])
            steps.append(player.step(variables)[0])
        self.seen = np.stack([step.observation for step in steps])
        self.executed = np.stack([step.executed for step in steps])
        self.cut = np.stack(
            [s.final | s.terminated | s.truncated | s.life_lost | s.first for s in steps]
        )
        self._emulator, self._buttons, self._byte = env._shadows[0], env._actions, byte

    def places(self):
        """Steps and games with a whole stack before them and no end in the horizon."""
        return [
            (t, i)
            for t in range(STACK, len(self.saved) - HORIZON - 1)
            for i in range(ENVS)
            if not self.cut[t - STACK : t + HORIZON + 1, i].any()
        ]

    def films(self, t, i, random):
        """The pictures of the real future and of others, with those before; None if too few."""
        before, actions = self.seen[t - STACK + 1 : t + 1, i], self.executed[t : t + HORIZON, i]
        real, state = list(self.seen[t + 1 : t + HORIZON + 1, i]), self.saved[t][i]
        assert np.array_equal(self._future(state, actions[:2])[-1], real[1]), "not repeatable"
        others = []
        for changed in random.choice(256, TRIES, replace=False):
            after = self._future(state, actions[:1], int(changed))
            if after is not None and np.array_equal(after[0], real[0]):
                whole = self._future(state, actions, int(changed))
                others += [] if whole is None else [whole]
            if len(others) == FUTURES:
                return [[*before, *film] for film in (real, *others)]
        return None

    def _future(self, state, actions, changed=None):
        """The small pictures after each action; None if the game ends."""
        self._emulator.restoreState(state)
        if changed is not None:
            self._emulator.setRAM(self._byte, changed)
        pictures = [foresight._play(self._emulator, self._buttons[action]) for action in actions]
        return None if any(p is None for p in pictures) else list(map(foresight.shrunk, pictures))


def compared(network, films, actions):
    """Yield (name, steps ahead, one or several figures) for one position."""
    stacks = np.stack([[film[k : k + STACK] for film in films] for k in STEPS])
    latents, policy, value = network.look(stacks.reshape(-1, *stacks.shape[2:]))
    policy, value = (
        np.asarray(x).reshape(len(STEPS), 1 + FUTURES, *x.shape[1:]) for x in (policy, value)
    )
    real_latents = latents[:: 1 + FUTURES]
    now = network.look(np.stack(films[0][:STACK])[None])[0]
    rolled = network.roll(now, actions[None])[np.array(STEPS) - 1, 0]
    _, guess, guessed = map(np.asarray, network.read(rolled))
    shifted = np.asarray(network.look(np.roll(stacks[:, 0], 1, axis=3))[1])
    searched, foreseen = (np.asarray(network.decide(x)) for x in (real_latents, rolled))
    for n, k in enumerate(STEPS):
        likeliest, real = policy[n].argmax(-1), policy[n, 0]
        best, guessed_best = likeliest[0], guess[n].argmax()
        yield "model", k, guessed_best == best
        yield "another_future", k, likeliest[1:] == best
        yield "vote_of_futures", k, np.bincount(likeliest[1:]).argmax() == best
        yield "one_pixel_shifted", k, shifted[n].argmax() == best
        yield "search_is_policy", k, searched[n] == best
        yield "model_search", k, foreseen[n] == searched[n]
        yield "model_relative_probability", k, real[guessed_best] / real[best]
        if real[best] > 0.8:
            yield "model_where_sure", k, guessed_best == best
        yield "model_value_error", k, abs(guessed[n] - value[n, 0])
        yield "another_future_value_error", k, np.abs(value[n, 1:] - value[n, 0])


def main() -> None:
    """Play, branch, and print the means as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--byte", type=int, required=True)
    parser.add_argument("--positions", type=int, default=128)
    parser.add_argument("--length", type=int, default=500, help="steps of each of the 8 games")
    parser.add_argument("--seed", type=int, default=5)
    options = parser.parse_args()
    system, variables = load_weights(options.run)
    network = Network(system, variables)
    games = Games(system, variables, options.byte, options.length, options.seed)
    random, places = np.random.default_rng(0), games.places()
    columns = defaultdict(lambda: defaultdict(list))
    for place in random.choice(len(places), options.positions, replace=False):
        t, i = places[place]
        films = games.films(t, i, random)
        if films is None:
            continue
        for name, k, figures in compared(network, films, games.executed[t : t + HORIZON, i]):
            columns[name][k].extend(np.atleast_1d(figures).tolist())
    means = {
        name: [float(np.mean(c[k])) if c[k] else None for k in STEPS] for name, c in columns.items()
    }
    counts = {name: len(c[STEPS[0]]) for name, c in columns.items()}
    print(json.dumps({"steps": STEPS, **means, "counts": counts}, indent=1))


if __name__ == "__main__":
    main()
