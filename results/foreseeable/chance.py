"""From which bytes of its memory does an Atari game take its chance? See docs/lab.

    python results/foreseeable/chance.py Assault --positions 60 > chance.json
    python results/foreseeable/chance.py Assault Hero --together > together.jsonl

Plays a game with random actions, each for some steps. From some positions the emulator repeats the
next actions with one byte changed at random, for every byte. A byte is *hidden* where the next
picture stays the same. Prints, for each byte, in which share of the positions it is hidden; in
which share of those the picture is another one some steps later, and which share of its pixels;
how many values the byte has had; and whether it counts, that is, grows by the same number in every
step. ``moves`` is the share of pixels that change in as many steps anyway.

With ``--bytes 102 61`` these bytes are changed together, to what they were at another position of
another game, so that they fit each other; the row has the means over several such positions.
"""

import argparse
import json
from collections import defaultdict

import numpy as np

from delayzero.envs import foresight

STEPS = (1, 3, 5, 10, 15, 20, 25)
BYTES, LONGEST_HOLD, BETWEEN = 128, 6, 37
DONORS = 8
HIDDEN, MATTERS = 0.75, 0.05
"""``--together``: bytes hidden in at least this share of the positions, that change at least this
share of the last pictures."""


def held(random, buttons, count):
    """Return random actions, each held for some steps."""
    actions = []
    while len(actions) < count:
        actions += [random.choice(buttons)] * random.integers(1, LONGEST_HOLD)
    return actions[:count]


def play(emulator, actions):
    """Return the pictures after each action; None once the game has ended."""
    return [foresight._play(emulator, action) for action in actions]


def small(pictures):
    """Return the pictures after STEPS as the agent sees them."""
    return [p if p is None else foresight.shrunk(p) for p in (pictures[k - 1] for k in STEPS)]


def differ(one, other):
    """Return the share of different pixels; 1 if only one game has ended."""
    if one is None or other is None:
        return float((one is None) != (other is None))
    return float((one != other).any(axis=-1).mean())


def memory(emulator):
    """Return the bytes."""
    return emulator.getRAM().astype(int)


def positions(emulator, random, count):
    """Yield states of the emulator, next actions, the last picture and the next ones."""
    buttons = list(emulator.getMinimalActionSet())
    foresight._begin(emulator, 0)
    while count:
        last = play(emulator, held(random, buttons, BETWEEN))[-1]
        actions, state = held(random, buttons, STEPS[-1]), emulator.cloneState(include_rng=True)
        real = play(emulator, actions)
        if last is None or real[-1] is None:
            foresight._begin(emulator, 0)
            continue
        yield state, actions, last, real
        emulator.restoreState(state)
        count -= 1


def survey(emulator, random, count):
    """Change every byte at every position; return the rows of the table, and how much moves."""
    moves, found, grown = [], defaultdict(list), []
    for state, actions, last, real in positions(emulator, random, count):
        moves.append([differ(foresight.shrunk(last), picture) for picture in small(real)])
        emulator.restoreState(state)
        before = memory(emulator)
        play(emulator, actions[:1])
        grown.append(np.stack([before, memory(emulator) - before]))
        for byte in range(BYTES):
            emulator.restoreState(state)
            emulator.setRAM(byte, int((before[byte] + random.integers(1, 256)) % 256))
            after = play(emulator, actions[:1])
            if differ(after[0], real[0]) == 0:
                after += play(emulator, actions[1:])
                found[byte].append(list(map(differ, small(after), small(real))))
    values, growth = np.stack(grown, axis=1)
    rows = [
        {
            "byte": byte,
            "hidden": round(len(shares) / count, 3),
            "changed": np.round((np.array(shares) > 0).mean(axis=0), 3).tolist(),
            "pixels": np.round(np.mean(shares, axis=0), 5).tolist(),
            "values": len(np.unique(values[:, byte])),
            "counts": bool(growth[0, byte] and not np.ptp(growth[:, byte] % 256)),
        }
        for byte, shares in found.items()
    ]
    rows = [row for row in rows if row["changed"][-1]]
    rows.sort(key=lambda row: -row["hidden"] * row["changed"][-1])
    return rows, np.round(np.mean(moves, axis=0), 5).tolist()


def transplant(emulator, random, count, chosen):
    """Take the chosen bytes from other positions; return the row, and how much moves."""
    moves, found = [], []
    kept = list(positions(emulator, random, count))
    donors = []
    for state, *_ in kept:
        emulator.restoreState(state)
        donors.append(memory(emulator)[chosen])
    for n, (state, actions, last, real) in enumerate(kept):
        moves.append([differ(foresight.shrunk(last), picture) for picture in small(real)])
        others = [donor for m, donor in enumerate(donors) if m != n]
        for donor in random.permutation(others)[:DONORS]:
            emulator.restoreState(state)
            for byte, value in zip(chosen, donor, strict=True):
                emulator.setRAM(byte, int(value))
            after = play(emulator, actions[:1])
            if differ(after[0], real[0]) == 0:
                after += play(emulator, actions[1:])
                found.append(list(map(differ, small(after), small(real))))
    row = {
        "bytes": chosen,
        "hidden": round(len(found) / count / DONORS, 3),
        "changed": np.round((np.array(found) > 0).mean(axis=0), 3).tolist(),
        "pixels": np.round(np.mean(found, axis=0), 5).tolist(),
    }
    return [row], np.round(np.mean(moves, axis=0), 5).tolist()


def cartridge(game):
    """Return the name of a game's cartridge."""
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in game).lstrip("_")


def together(options):
    """Print a line for each game: what all its hidden bytes decide."""
    for game in options.games:
        emulator = foresight._emulator(cartridge(game), options.seed)
        random = np.random.default_rng(options.seed)
        rows, _ = survey(emulator, random, options.positions)
        chosen = [
            row["byte"] for row in rows if row["hidden"] >= HIDDEN and row["changed"][-1] >= MATTERS
        ]
        row, moves = {"bytes": []}, None
        if chosen:
            (row,), moves = transplant(emulator, random, options.positions, chosen)
        line = {"game": game, "positions": options.positions, "seed": options.seed}
        print(json.dumps({**line, "steps": STEPS, "moves": moves, **row}), flush=True)


def main():
    """Print the survey as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("games", nargs="+")
    parser.add_argument("--positions", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--bytes", type=int, nargs="+")
    ways.add_argument("--together", action="store_true")
    options = parser.parse_args()
    if options.together:
        return together(options)
    (game,) = options.games
    emulator = foresight._emulator(cartridge(game), options.seed)
    look = transplant if options.bytes else survey
    arguments = [options.bytes] if options.bytes else []
    random = np.random.default_rng(options.seed)
    rows, moves = look(emulator, random, options.positions, *arguments)
    head = {"game": game, "positions": options.positions, "seed": options.seed}
    head |= {"bytes": options.bytes, "steps": STEPS, "moves": moves}
    print(json.dumps(head)[:-1] + ",")
    print(' "rows": [\n  ' + ",\n  ".join(map(json.dumps, rows)) + "]}")


if __name__ == "__main__":
    main()
