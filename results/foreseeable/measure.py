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
    model, planner = system.planner.model, system.planner

    @jax.jit
    def look(frames):
        """Latents, probabilities of actions, and values."""
        return read(model.bind(variables).represent(frames))

    @jax.jit
    def read(latent):
        found = model.bind(variables).predict(latent)
        value = model.support.decode(found.value_logits)
        return latent, jax.nn.softmax(found.policy_logits), value

    @jax.jit
    def rolled(latent, actions):
        def step(latent, action):
            latent = model.bind(variables).step(latent, action)
            return latent, latent

        return jax.lax.scan(step, latent, actions.T)[1]

    @jax.jit
    def decide(latent):
        return planner.search(variables, jax.random.key(0), latent, explore=False).action

    env = foresight.ForeseeingAtari(
        Atari(system.config.env.partition(":")[2], ENVS, max_steps=27_000)
    )
    world = delayed(env, system.config.delays)
    player = system.player(world, run_key(options.seed, STREAM_EVALUATION), explore=False)
    player.begin(run_seed(options.seed, STREAM_EVALUATION))
    saved, steps = [], []
    for _ in range(options.length):
        saved.append([shadow.cloneState(include_rng=True) for shadow in env._shadows])
        steps.append(player.step(variables)[0])
    seen, executed = (
        np.stack([getattr(step, name) for step in steps]) for name in ("observation", "executed")
    )
    cut = np.stack([s.final | s.terminated | s.truncated | s.life_lost | s.first for s in steps])
    places = [
        (t, i)
        for t in range(STACK, options.length - HORIZON - 1)
        for i in range(ENVS)
        if not cut[t - STACK : t + HORIZON + 1, i].any()
    ]
    random = np.random.default_rng(0)
    chosen = [places[k] for k in random.choice(len(places), options.positions, replace=False)]
    emulator, buttons = env._shadows[0], env._actions

    def future(state, actions, changed=None):
        """The small pictures after each action; None if the game ends."""
        emulator.restoreState(state)
        if changed is not None:
            emulator.setRAM(options.byte, changed)
        pictures = [foresight._play(emulator, buttons[action]) for action in actions]
        return None if any(p is None for p in pictures) else list(map(foresight.shrunk, pictures))

    columns = {}

    def note(name, k, right):
        columns.setdefault(name, {}).setdefault(k, []).extend(np.atleast_1d(right).tolist())

    for t, i in chosen:
        before, actions = seen[t - STACK + 1 : t + 1, i], executed[t : t + HORIZON, i]
        real = list(seen[t + 1 : t + HORIZON + 1, i])
        assert np.array_equal(future(saved[t][i], actions[:2])[-1], real[1]), "not repeatable"
        others = []
        for changed in random.choice(256, TRIES, replace=False):
            after = future(saved[t][i], actions[:1], int(changed))
            if after is not None and np.array_equal(after[0], real[0]):
                whole = future(saved[t][i], actions, int(changed))
                others += [] if whole is None else [whole]
            if len(others) == FUTURES:
                break
        if len(others) < FUTURES:
            continue
        films = [[*before, *film] for film in (real, *others)]
        stacks = np.stack([[film[k : k + STACK] for film in films] for k in STEPS])
        _, policy, value = look(stacks.reshape(-1, *stacks.shape[2:]))
        policy = np.asarray(policy).reshape(len(STEPS), 1 + FUTURES, -1)
        value = np.asarray(value).reshape(len(STEPS), 1 + FUTURES)
        now, real_latents = look(before[None])[0], look(stacks[:, 0])[0]
        latents = rolled(now, actions[None])[np.array(STEPS) - 1, 0]
        _, guess, guessed = map(np.asarray, read(latents))
        shifted = np.asarray(look(np.roll(stacks[:, 0], 1, axis=3))[1])
        searched, foreseen = np.asarray(decide(real_latents)), np.asarray(decide(latents))
        for n, k in enumerate(STEPS):
            likeliest = policy[n].argmax(-1)
            best, votes = likeliest[0], np.bincount(likeliest[1:])
            note("model", k, guess[n].argmax() == best)
            note("another_future", k, likeliest[1:] == best)
            note("vote_of_futures", k, votes.argmax() == best)
            note("one_pixel_shifted", k, shifted[n].argmax() == best)
            note("search_is_policy", k, searched[n] == best)
            note("model_search", k, foreseen[n] == searched[n])
            note(
                "model_relative_probability",
                k,
                policy[n, 0, guess[n].argmax()] / policy[n, 0, best],
            )
            if policy[n, 0, best] > 0.8:
                note("model_where_sure", k, guess[n].argmax() == best)
            note("model_value_error", k, abs(guessed[n] - value[n, 0]))
            note("another_future_value_error", k, np.abs(value[n, 1:] - value[n, 0]))
    means = {name: [float(np.mean(c[k])) for k in STEPS] for name, c in columns.items()}
    counts = {name: len(c[STEPS[0]]) for name, c in columns.items()}
    print(json.dumps({"steps": STEPS, **means, "counts": counts}, indent=1))


if __name__ == "__main__":
    main()
