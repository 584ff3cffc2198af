"""A small model of Asterix from stored games. See docs/lab/2026-11-18-what-rolls-lose.md.

    python results/foreseeable/offline.py play RUN FRAMES.npz
    python results/foreseeable/offline.py train FRAMES.npz VARIANT SEED UPDATES >> offline.jsonl

``play`` stores games of a run's policy as grey pictures of 48 x 48 pixels. ``train`` learns from 18
of the 24 games with the loss, the dynamics and the optimiser of the preset ``atari`` and a smaller
encoder, on one CPU core: policy and value as the run's network sees them, rewards, and consistency.
Then it measures in the other games what rolled latents know, as ``probe.py`` does.

VARIANT joins words with ``+``: ``apart`` (as in the preset: the position and what follows are
shifted by pixels of their own) or ``none`` (no shifts), ``latent`` (latents are compared directly,
without projections), ``fine`` (latents of 12 x 12 with half the channels instead of 6 x 6),
``heavy`` (consistency weighs 20 instead of 2), ``pictures`` (a decoder also predicts the picture
from each unrolled latent), ``leads`` (a quarter of the positions begins with a latent rolled there
through up to 15 steps, with a gradient), ``jumps`` (with leads: the model looks ahead five steps at
once, see ``jumps.py`` in ``results/relearned``).

Without a trained run, ``expert.py`` stores games of a player that looks ahead with the emulator.
"""

import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

from delayzero.actions import ActionSpec, Queue
from delayzero.learning import augment
from delayzero.learning.batch import Batch
from delayzero.learning.in_training import InTraining
from delayzero.learning.loss import efficientzero_loss
from delayzero.learning.optimiser import make_optimiser
from delayzero.model.layers import ConvNorm, ResidualBlock, mean_pool
from delayzero.model.parts import ImageDynamics, Perceptron, PredictionNet, PrefixNet
from delayzero.model.scalars import Support
from delayzero.model.world_model import WorldModel
from delayzero.settings.presets import compose

sys.path.append(str(Path(__file__).resolve().parents[1] / "relearned"))
from jumps import Looking, jump_everywhere, with_jumps

GAMES, FITTED, LENGTH, STACK, SIZE = 24, 18, 700, 4, 48
BATCH, UNROLL, HORIZON = 64, 5, 15
STEPS = (1, 3, 5, 10, 15)
LEADS, JUMP = 16, 5
PLAYER, LANES, LIMIT = slice(41, 42), slice(42, 50), 10
PICTURE_WEIGHT = 2.0


def play(run, path):
    """Store games of a run's policy, without search and delay."""
    from measure import Network

    from delayzero.envs.atari import Atari
    from delayzero.envs.foresight import ForeseeingAtari
    from delayzero.runs.weights import load_weights

    network = Network(*load_weights(Path(run)))
    env = ForeseeingAtari(Atari("Asterix", GAMES, max_steps=27_000))
    seen, _ = env.reset(seed=77)
    stack, random = np.repeat(seen[:, None], STACK, 1), np.random.default_rng(0)
    cut, rows = np.ones(GAMES, bool), []
    for _ in range(LENGTH):
        _, policy, value = network.look(stack)
        chances = np.asarray(policy, np.float64)
        chances /= chances.sum(1, keepdims=True)
        action = np.array([random.choice(len(p), p=p) for p in chances])
        grey = stack[:, -1].astype(np.float32).mean(-1).reshape(GAMES, SIZE, 2, SIZE, 2)
        memory = np.stack([shadow.getRAM() for shadow in env._shadows])
        row = [grey.mean((2, 4)).astype(np.uint8), chances, np.asarray(value), action, memory, cut]
        first = env._ended.copy()  # this step begins a new game
        seen, reward, terminated, truncated, info = env.step(action)
        rows.append([*row, np.sign(reward)])
        cut = terminated | truncated | info["life_lost"] | first
        stack = np.concatenate([stack[:, 1:], seen[:, None]], 1)
        stack[first] = seen[first][:, None]
    names = ("frames", "policy", "value", "action", "memory", "cut", "reward")
    np.savez(path, **dict(zip(names, map(np.stack, zip(*rows, strict=True)), strict=True)))


class Encoder(nn.Module):
    """From ``[B, 48, 48, 4]`` to ``[B, 6, 6, channels]``, or 12 x 12."""

    channels: int
    fine: bool

    @nn.compact
    def __call__(self, x, train):
        x = nn.relu(ConvNorm(16, stride=2)(x, train))
        x = ResidualBlock(16)(x, train)
        x = ResidualBlock(self.channels, stride=2)(x, train)
        return ResidualBlock(self.channels)(x if self.fine else mean_pool(x), train)


class Decoder(nn.Module):
    """From latents ``[B, 6, 6, C]`` to pictures of half the size, ``[B, 24, 24]``."""

    @nn.compact
    def __call__(self, latent):
        x = nn.relu(nn.Conv(64, (3, 3))(latent))
        x = nn.Conv(16, (1, 1))(x)  # 4 x 4 pixels for each place
        count, height, width, _ = x.shape
        x = x.reshape(count, height, width, 4, 4).transpose(0, 1, 3, 2, 4)
        return x.reshape(count, 4 * height, 4 * width)


class Direct(WorldModel):
    """A model whose latents are compared directly."""

    def project(self, latent):
        """Return the latents as vectors."""
        return latent.reshape(latent.shape[0], -1)

    def predict_projection(self, projection):
        """Return the same."""
        return projection


class Watched(InTraining):
    """Remembers the unrolled latents, for the decoder."""

    states: Any = None

    def together(self, method, *inputs):
        """Call a method with all unrolled states."""
        if method == "predict":
            Watched.states = inputs[0]
        return super().together(method, *inputs)


def model_of(words, actions):
    """The model of a variant."""
    support, kind = Support(50), Direct if "latent" in words else WorldModel
    fine = "fine" in words
    model = kind(
        encoder=Encoder(16 if fine else 32, fine),
        dynamics=ImageDynamics(actions),
        prefix=PrefixNet(support.bins, 64, 32, channels=8),
        prediction=PredictionNet(actions, support.bins, 32, channels=8),
        projector=Perceptron((256, 256), norm_last=True),
        predictor=Perceptron((128, 256)),
        actions=actions,
        support=support,
        memory_size=64,
        scales=True,
    )
    return with_jumps(model, JUMP, blocks=1) if "jumps" in words else model


class Games:
    """The stored games."""

    def __init__(self, path, leads):
        """Load them; ``leads`` positions of an update have leads."""
        self.leads, reach = leads, HORIZON + (UNROLL if leads else 0)
        loaded = np.load(path)
        self.__dict__.update({name: loaded[name] for name in loaded.files})
        self.memory = self.memory.astype(np.float32)
        places = np.array(
            [
                (t, i)
                for t in range(STACK, len(self.cut) - reach - 1)
                for i in range(GAMES)
                if not self.cut[t - STACK + 1 : t + reach + 1, i].any()
            ]
        )
        self.fitted, self.held = (places[places[:, 1] < FITTED], places[places[:, 1] >= FITTED])
        self.moves = np.abs(np.diff(self.memory[:, :, LANES], axis=0))

    def stack(self, t, i):
        """Stacks of pictures, ``[B, 4, 48, 48, 1]``."""
        return np.stack([self.frames[t - STACK + 1 + j, i] for j in range(STACK)], 1)[..., None]

    def along(self, values, t, i, count):
        """Values of the next steps, ``[B, count, ...]``."""
        return np.stack([values[t + k, i] for k in range(count)], 1)

    def sample(self, random):
        """Positions of an update, before augmentation; the first ones have leads."""
        begin, i = self.fitted[random.integers(len(self.fitted), size=BATCH)].T
        t, queue = begin, None
        if self.leads:
            lead = random.integers(1, HORIZON + 1, BATCH)
            t = begin + np.where(np.arange(BATCH) < self.leads, lead, 0)
            way = self.along(self.action, begin, i, HORIZON)[: self.leads].astype(np.int32)
            queue = Queue(way, np.arange(HORIZON) < lead[: self.leads, None])
        compared = np.argsort(random.random((BATCH, UNROLL)), 1)[:, :1].astype(np.int32)
        rewards = self.along(self.reward, t, i, UNROLL)
        return {
            "pictures": self.along(self.frames, t, i, UNROLL + 1),
            "now": self.stack(begin, i),
            "lead": queue,
            "then": self.stack(t + 1 + compared[:, 0], i),
            "compared": compared,
            "action": self.along(self.action, t, i, UNROLL).astype(np.int32),
            "policy": self.along(self.policy, t, i, UNROLL + 1).astype(np.float32),
            "value": self.along(self.value, t, i, UNROLL + 1).astype(np.float32),
            "prefix": np.cumsum(rewards, 1).astype(np.float32),
        }


def batch_of(sampled, key):
    """The batch of an update, with shifts."""
    first, second = jax.random.split(key)
    now = augment.augmented(first, sampled["now"], jnp.float32)
    then = augment.augmented(second, sampled["then"], jnp.float32)
    names = ("compared", "action", "policy", "value", "prefix")
    return Batch(
        now,
        then[:, None],
        *(sampled[name] for name in names),
        alive=jnp.ones((BATCH, UNROLL + 1), bool),
        weight=jnp.ones(BATCH),
        age=jnp.zeros(BATCH, jnp.int32),
        lead=sampled["lead"],
    )


def trained(words, games, seed, updates):
    """Train a variant; return its model and variables."""
    import delayzero.learning.loss as loss_module

    if "jumps" in words:
        jump_everywhere()
    if "pictures" in words:
        loss_module.InTraining = Watched
    augment.SHIFT = 0 if "none" in words else 2
    model = model_of(words, ActionSpec(games.policy.shape[-1]))
    config = compose(["atari"]).learner
    config = replace(config, batch_size=BATCH, consistency_steps=1, warmup=200, lead_gradient=True)
    if "heavy" in words:
        config = replace(config, consistency_weight=20.0)
    optimiser, decoder = make_optimiser(config, updates), Decoder()
    mean = games.frames[:, :FITTED].reshape(-1, SIZE, SIZE).astype(np.float32).mean(0)
    spread = float((games.frames[:200].astype(np.float32) - mean).std())
    example = jnp.zeros((2, STACK, SIZE, SIZE, 1)), jnp.zeros(2, jnp.int32)
    variables = model.init(jax.random.key(seed), *example, method="everything")
    parameters = {"model": variables.pop("params")}
    if "pictures" in words:
        latent = jnp.zeros((1, 6, 6, 32))
        parameters["decoder"] = decoder.init(jax.random.key(9), latent)["params"]

    @jax.jit
    def update(parameters, statistics, state, sampled, key):
        batch = batch_of(sampled, key)

        def loss_of(parameters):
            variables = {"params": parameters["model"], **statistics}
            loss, out = efficientzero_loss(model, variables, batch, config)
            if "decoder" in parameters:
                states = Watched.states
                flat = states.reshape(-1, *states.shape[2:])
                shown = decoder.apply({"params": parameters["decoder"]}, flat)
                real = (jnp.swapaxes(sampled["pictures"], 0, 1) - mean) / spread
                real = real.reshape(UNROLL + 1, BATCH, 24, 2, 24, 2).mean((3, 5))
                error = (shown.reshape(real.shape) - real) ** 2
                loss += PICTURE_WEIGHT * error.mean()
            return loss, out

        gradient, out = jax.grad(loss_of, has_aux=True)(parameters)
        changes, state = optimiser.update(gradient, state, parameters)
        statistics = {"batch_stats": out.variables["batch_stats"]}
        return optax.apply_updates(parameters, changes), statistics, state, out.metrics

    statistics, state = variables, optimiser.init(parameters)
    random, key = np.random.default_rng(seed), jax.random.key(seed + 1)
    for n in range(updates):
        key, now = jax.random.split(key)
        sampled = games.sample(random)
        parameters, statistics, state, metrics = update(parameters, statistics, state, sampled, now)
        if n % 500 in (20, 499):
            cosine, policy = (float(metrics[m]) for m in ("consistency/cosine", "loss/policy"))
            print(n, f"cosine {cosine:.3f}, policy {policy:.3f}", file=sys.stderr, flush=True)
    return model, {"params": parameters["model"], **statistics}


def smallest_error(fit, held, which):
    """The mean error of the best of three linear maps, in pixels, where ``which`` is True."""
    x, y = fit[0].reshape(len(fit[0]), -1), fit[1]
    middle, mean = x.mean(0), y.mean(0)
    x = x - middle
    square, product = x.T @ x, x.T @ (y - mean)
    unit = np.trace(square) / len(square) * np.eye(len(square), dtype=np.float32)
    errors = []
    for ridge in (0.01, 0.1, 1.0):
        weights = np.linalg.solve(square + ridge * unit, product)
        guess = (held[0].reshape(len(held[0]), -1) - middle) @ weights + mean
        errors.append(float(np.abs(guess - held[1])[which].mean()))
    return min(errors)


def measured(games, model, variables):
    """What latents know about the held games, by steps ahead."""
    bound = model.bind(variables)
    jumps = hasattr(model, "jumps")
    walking = Looking(model).bind(variables) if jumps else bound
    look = jax.jit(lambda frames: bound.represent(frames.astype(jnp.float32) / 255))
    policy = jax.jit(lambda latent: bound.predict(latent).policy_logits)

    def step(state, action):
        state = walking.step(state, action)
        return state, state.now if jumps else state

    def rolled_through(latent, actions):
        begin = walking.begin(latent) if jumps else latent
        return jax.lax.scan(step, begin, actions.T)[1]

    roll = jax.jit(rolled_through)
    places, now, rolled, then = [], [], [], []
    for seed, (among, most) in enumerate(((games.fitted, 3000), (games.held, 1200))):
        count = min(most, len(among))
        chosen = among[np.random.default_rng(seed).choice(len(among), count, replace=False)]
        pieces = []
        for s in range(0, count, 300):
            t, i = chosen[s : s + 300].T
            latent = look(games.stack(t, i))
            ahead = roll(latent, games.along(games.action, t, i, HORIZON).astype(np.int32))
            real = [np.asarray(look(games.stack(t + k, i))) for k in STEPS]
            pieces.append((np.asarray(latent), np.asarray(ahead)[np.array(STEPS) - 1], real))
        places.append(chosen.T)
        now.append(np.concatenate([p[0] for p in pieces]))
        rolled.append(np.concatenate([p[1] for p in pieces], 1))
        then.append(np.concatenate([np.stack(p[2]) for p in pieces], 1))
    found = []
    for n, k in enumerate(STEPS):
        t, i = places[1]
        steps = np.stack([games.moves[t + j, i] for j in range(k)])
        steady = (steps < LIMIT).all(0) & (steps > 0).any(0)
        row = {"steps": k}
        kinds = {"then": [x[n] for x in then], "rolled": [x[n] for x in rolled], "now": now}
        for kind, latents in kinds.items():
            for what, part, which in (("objects", LANES, steady), ("player", PLAYER, slice(None))):
                y = [games.memory[t + k, i, part] for t, i in places]
                error = smallest_error(*zip(latents, y, strict=True), which)
                row[f"{what}_{kind}"] = round(error, 1)
        likeliest = [np.asarray(policy(x[n])).argmax(-1) for x in (rolled[1], then[1])]
        row["agreement"] = round(float((likeliest[0] == likeliest[1]).mean()), 3)
        found.append(row)
    return found


def main():
    """Play, or train and measure."""
    if sys.argv[1] == "play":
        return play(*sys.argv[2:4])
    variant, (seed, updates) = sys.argv[3], map(int, sys.argv[4:6])
    words = set(variant.split("+"))
    games, begun = Games(sys.argv[2], LEADS if "leads" in words else 0), time.monotonic()
    model, variables = trained(words, games, seed, updates)
    row = {"variant": variant, "seed": seed, "updates": updates}
    row |= {
        "seconds": round(time.monotonic() - begun),
        "results": measured(games, model, variables),
    }
    print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
