"""Store games whose player looks ahead with the emulator, for ``offline.py``: no weights needed.

    python results/foreseeable/expert.py Asterix FRAMES.npz

From each state every action is tried in a copy of the game: held for HELD steps, then no action, up
to AHEAD steps. What it promises is the discounted sum of the rewards' signs on the way, less one
for a lost life. The policy is a softmax over that; the games are played with it. Values are the
discounted rewards that followed in the same life.
"""

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from offline import GAMES, LENGTH, SIZE

from delayzero.envs.atari import FRAME_SKIP, Atari
from delayzero.envs.foresight import ForeseeingAtari

HELD, AHEAD, NEAR, SHARPNESS, DISCOUNT = 2, 6, 0.9, 8.0, 0.97


def promises(emulator, actions):
    """Return what each action promises, ``[A]``."""
    before, lives = emulator.cloneState(include_rng=True), emulator.lives()
    found = []
    for action in actions:
        worth = 0.0
        for k in range(AHEAD):
            held = action if k < HELD else actions[0]
            reward = sum(emulator.act(held) for _ in range(FRAME_SKIP))
            lost = emulator.lives() < lives or emulator.game_over()
            worth += NEAR**k * (np.sign(reward) - lost)
            if lost:
                break
        found.append(worth)
        emulator.restoreState(before)
    return np.array(found)


def main():
    """Play and store."""
    name, path = sys.argv[1:]
    env = ForeseeingAtari(Atari(name, GAMES, max_steps=27_000))
    seen, _ = env.reset(seed=77)
    random, cut, rows = np.random.default_rng(0), np.ones(GAMES, bool), []
    count = env.single_action_space.n
    with ThreadPoolExecutor() as pool:
        for _ in range(LENGTH):
            memory = np.stack([shadow.getRAM() for shadow in env._shadows])
            worth = np.stack([*pool.map(lambda game: promises(game, env._actions), env._shadows)])
            weights = np.exp(SHARPNESS * (worth - worth.max(1, keepdims=True)))
            policy = weights / weights.sum(1, keepdims=True)
            action = np.array([random.choice(count, p=p) for p in policy])
            grey = seen.astype(np.float32).mean(-1).reshape(GAMES, SIZE, 2, SIZE, 2).mean((2, 4))
            row = [grey.astype(np.uint8), policy, action, memory, cut]
            first = env._ended.copy()  # this step begins a new game
            seen, reward, terminated, truncated, info = env.step(action)
            cut = terminated | truncated | info["life_lost"] | first
            rows.append([*row, np.sign(reward)])
    names = ("frames", "policy", "action", "memory", "cut", "reward")
    stored = dict(zip(names, map(np.stack, zip(*rows, strict=True)), strict=True))
    value, values = np.zeros(GAMES), []
    for t in reversed(range(LENGTH)):
        ends = stored["cut"][t + 1] if t + 1 < LENGTH else np.zeros(GAMES, bool)
        value = stored["reward"][t] + DISCOUNT * np.where(ends, 0, value)
        values.append(value)
    np.savez_compressed(path, value=np.stack(values[::-1]), **stored)
    rewards, lives = (stored[name].sum() / GAMES for name in ("reward", "cut"))
    print(f"{name}: {rewards:.1f} rewards and {lives:.1f} lives in each game")
    print(f"the likeliest action has a probability of {stored['policy'].max(-1).mean():.2f}")


if __name__ == "__main__":
    main()
