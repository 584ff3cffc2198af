"""Learn the replay of one run again, from nothing, with other settings. See docs/lab.

    python results/relearned/relearn.py play DATA --env atari:Asterix --interactions 24000
    python results/relearned/relearn.py learn DATA --variant lead_gradient=True --out OUT

``play`` trains a run with the preset ``atari`` under a delay, and stores its replay, and new
episodes that its weights play. ``learn`` trains a model from that replay alone: the same rows
and stored targets for every variant, so that nothing but the model differs. It adds a line of
JSON to OUT: how well the model foresees in stored rows and in the new episodes, and its scores
under the delay and without.

A variant is ``base``, or joins ``name=value`` by commas: settings of the learner or the model,
``stack=4`` (frames of an observation), ``halved=0`` (gradients are not halved from step to step),
``blocks=2`` (residual blocks of the dynamics), ``together=1`` (what is compared has the shift of
what it is imagined from), ``local=1`` (latents are compared place by place, not as a whole),
``wide=1`` (Atari: latents of 128 channels, not 64), ``by_delay=1`` (all leads are delays of stored
decisions; 0: all are uniform), ``noise=0.1`` (normal noise of that size is added to the latents
from which the model is unrolled), or another range of latents: ``simplex=8`` (groups of 8 channels
sum up to one), ``code=8`` (one channel of each such group is 1, the others 0) or ``levels=4`` (each
entry is one of 4 numbers), where gradients pass as if nothing had been rounded. With ``jump=5`` the
model looks ahead five steps at once (``jumps.py``), by ``jump_blocks`` residual blocks.

With ``--hold N`` the model does not learn from N of the run's environments: ``held`` is how well
it foresees there. With ``--forecasts FILE`` a model's policies in the new episodes are stored, at
the real states and at the predicted ones: ``averages.py`` compares and averages them.
"""

import argparse
import json
import sys
import time
from dataclasses import asdict, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from delayzero.evaluation.episodes import Evaluator, summary
from delayzero.evaluation.prediction import foresight, new_episodes
from delayzero.evaluation.way import draw_starts, way_from
from delayzero.learning import Learner, augment, leads, loss
from delayzero.model import WorldModel, world_model
from delayzero.model.layers import ConvNorm, ResidualBlock, mean_pool, scale_to_unit
from delayzero.model.parts import Perceptron
from delayzero.playing.actor import Actor
from delayzero.playing.environments import Environments, make_env
from delayzero.playing.system import build_system
from delayzero.replay.frames import FrameWriter, empty_frames
from delayzero.runs.run_folder import RunFolder
from delayzero.settings import changed, compose
from delayzero.spaces import Spaces
from delayzero.training.loop import Trainer
from delayzero.training.programs import compiler_options

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
from jumps import JumpModel, Looking, jump_everywhere, with_jumps
from parts import settings_in

ROWS, GAMES, HORIZON, POSITIONS = 320, 32, 25, 1024
STEPS = (1, 3, 5, 8, 10, 15, 20, 25)
EPISODES, LONGEST = 32, 1500
CURVES = ("policy_agreement", "action_worth", "value_error", "reward_recall", "similarity")
PROJECTION = 128
LAGS = 4


def settings(options):
    """Return the settings of the run."""
    return changed(
        compose([*options.presets]),
        env=options.env,
        delay=options.delay,
        seed=options.seed,
        interactions=options.interactions,
        tail_updates=0,
        folder=str(options.data / "run"),
        final_episodes=2,
        final_max_steps=LONGEST,
        prediction_rows=0,
    )


def play(options):
    """Train the run, and store its replay and new episodes."""
    config = settings(options)
    folder, env = RunFolder(Path(config.run_folder)), Environments.of(config)
    folder.check_free()
    system = build_system(config, Spaces.of(env.delayed.env))
    folder.open(config, ["relearn.py"])
    folder.save_spaces(system.spaces.to_json())
    trainer = Trainer(system, Actor(system, env), folder)
    trainer.run()
    kept = {"spaces": system.spaces.to_json(), **vars(options), "data": None}
    (options.data / "settings.json").write_text(json.dumps(kept))
    store(options.data / "stored.npz", trainer.learning.replay, env)
    new_env = new_environments(config)
    new = new_episodes(system, trainer.learning.variables(), new_env.delayed, 0, ROWS)
    store(options.data / "new.npz", new, new_env)
    trainer.close()


def new_environments(config):
    """Make the environments of the new episodes."""
    return Environments(make_env(config, GAMES, training=False, max_steps=None), config.delays)


def store(path, replay, env):
    """Write a replay without its frames, and the actions that bring them back."""
    actions, numbers = env.state()
    leaves = jax.tree.leaves(replay._replace(frames=np.zeros(0)))
    arrays = {f"array{n}": np.asarray(leaf) for n, leaf in enumerate(leaves)}
    np.savez_compressed(path, actions=actions, numbers=json.dumps(numbers), **arrays)


def stored(path, like, env):
    """Read a replay with the structure of another one; the environments play its frames again."""
    kept = np.load(path)
    structure = jax.tree.structure(like._replace(frames=np.zeros(0)))
    leaves = [jnp.asarray(kept[f"array{n}"]) for n in range(structure.num_leaves)]
    replay = jax.tree.unflatten(structure, leaves)
    frames = empty_frames(*replay.priority.shape, like.frames.shape[2:], like.frames.dtype, False)
    writer = FrameWriter(frames)
    numbers = json.loads(str(kept["numbers"]))
    if env.restore(kept["actions"], numbers, lambda _: None, writer.write) is None:
        raise SystemExit(f"{path}: the environments showed something else than before")
    env.close()
    writer.finish()
    return replay._replace(frames=writer.frames)


class Together(Learner):
    """Shifts what is compared as what it is imagined from."""

    def augmented(self, batch, key):
        """Augment both alike."""
        augmented = super().augmented(batch, key)
        stacks = batch.following.reshape(batch.following.shape[0], -1, *batch.following.shape[3:])
        first = jax.random.split(key)[0]
        moved = augment.augmented(first, stacks, self.planner.model.dtype)
        return augmented._replace(following=moved.reshape(batch.following.shape))


class Local(WorldModel):
    """Compares latents place by place: the cosine is the mean over places."""

    def project(self, latent):
        """Return unit vectors of all places, one after the other."""
        return self._by_place(self.projector, latent, latent.shape[-1])

    def predict_projection(self, projection):
        """Predict them, each from its own."""
        return self._by_place(self.predictor, projection, PROJECTION)

    def _by_place(self, network, x, channels):
        places = network(x.reshape(-1, channels), self.train).astype(jnp.float32)
        length = jnp.maximum(jnp.linalg.norm(places, axis=-1, keepdims=True), 1e-5)
        return (places / length).astype(x.dtype).reshape(x.shape[0], -1)


class WideEncoder(nn.Module):
    """The encoder of the preset with latents of 128 channels."""

    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x, train):
        x = nn.relu(ConvNorm(32, stride=2, dtype=self.dtype)(x, train))
        x = ResidualBlock(32, dtype=self.dtype)(x, train)
        x = ResidualBlock(64, stride=2, dtype=self.dtype)(x, train)
        x = ResidualBlock(64, dtype=self.dtype)(x, train)
        x = ResidualBlock(128, stride=2, dtype=self.dtype)(x, train)
        x = mean_pool(x)
        return ResidualBlock(128, dtype=self.dtype)(x, train)


def noisy(first_latents, size, model, batch, config):
    """Return the first latents of a batch with noise, whose seed is made from the batch."""
    latents = first_latents(model, batch, config)
    seed = jax.lax.bitcast_convert_type(batch.value.sum(), jnp.uint32)
    noise = jax.random.normal(jax.random.fold_in(jax.random.key(0), seed), latents.shape)
    return latents + (size * noise).astype(latents.dtype)


def simplex(size, x):
    """Return latents in which groups of channels are probabilities."""
    return nn.softmax(x.reshape(*x.shape[:-1], -1, size)).reshape(x.shape)


def code(size, x):
    """Return latents in which one channel of each group is 1, with the gradient of ``simplex``."""
    soft = simplex(size, x).reshape(*x.shape[:-1], -1, size)
    hard = jax.nn.one_hot(soft.argmax(axis=-1), size, dtype=x.dtype)
    return (soft + jax.lax.stop_gradient(hard - soft)).reshape(x.shape)


def levels(count, x):
    """Return latents scaled to [0, 1] and rounded to one of so many numbers."""
    scaled = scale_to_unit(x)
    return scaled + jax.lax.stop_gradient(jnp.round(scaled * (count - 1)) / (count - 1) - scaled)


def of_environments(replay, chosen):
    """Return the rows of some environments."""
    grid = replay.priority.shape
    return jax.tree.map(lambda x: x[:, chosen] if x.shape[:2] == grid else jnp.array(x), replay)


def variant_of(system, text):
    """Return the system of a variant."""
    chosen = {} if text == "base" else settings_in(text)
    if not chosen.pop("halved", 1):
        loss._half_gradient = lambda latent: latent
    if noise := chosen.pop("noise", 0):
        loss._first_latents = partial(noisy, loss._first_latents, noise)
    for scaling in (simplex, code, levels):
        if size := chosen.pop(scaling.__name__, 0):
            world_model.scale_to_unit = partial(scaling, size)
            leads.can_chain = lambda model: False
    leads.BY_DELAY = chosen.pop("by_delay", leads.BY_DELAY)
    blocks, local, wide = (chosen.pop(name, 0) for name in ("blocks", "local", "wide"))
    kind = Together if chosen.pop("together", 0) else Learner
    jump, jump_blocks = chosen.pop("jump", 0), chosen.pop("jump_blocks", 1)
    of_model = {name: chosen.pop(name) for name in [*chosen] if hasattr(system.config.model, name)}
    stack = chosen.pop("stack", system.config.stack)
    config = changed(system.config, learner=chosen, model=of_model, stack=stack)
    system = build_system(config, system.spaces)
    model = system.planner.model
    model = model.clone(dynamics=model.dynamics.clone(blocks=blocks or 1))
    if wide:
        model = model.clone(encoder=WideEncoder(model.dtype))
    if local:
        own = {f.name: getattr(model, f.name) for f in fields(model) if f.init}
        del own["parent"], own["name"]
        model = Local(**own).clone(
            projector=Perceptron((PROJECTION,) * 2, norm_last=True, dtype=model.dtype),
            predictor=Perceptron((PROJECTION // 2, PROJECTION), dtype=model.dtype),
        )
    if jump:
        jump_everywhere()
        model = with_jumps(model, jump, jump_blocks)
    planner = replace(system.planner, model=model)
    values = {f.name: getattr(system.learner, f.name) for f in fields(system.learner)}
    learner = kind(**{**values, "planner": planner})
    return replace(system, learner=learner, agent=replace(system.agent, planner=planner))


def forecasts(model, variables, replay, key):
    """Predict the same states from the newest observation and from earlier ones.

    Returns:
        The policies' logits at the real states, ``[HORIZON, B, A]``, at those rolled from LAGS
        observations, the newest first, ``[LAGS, HORIZON, B, A]``; their values; and whether the
        states count.
    """
    steps = HORIZON + LAGS - 1
    starts = draw_starts(replay, steps, POSITIONS, key)
    way, bound = way_from(starts, steps), model.bind(variables)

    def seen(latent):
        prediction = bound.predict(latent)
        return prediction.policy_logits, model.support.decode(prediction.value_logits)

    def encoded(step):
        return bound.represent(starts.frames(step), starts.queue(step))

    def rolled_from(first):
        def ahead(latent, action):
            latent = bound.step(latent, action)
            return latent, seen(latent)

        ahead_of = jax.lax.scan(ahead, encoded(jnp.int32(first)), way.action[first:])[1]
        return [x[-HORIZON:] for x in ahead_of]

    rolled = [rolled_from(LAGS - 1 - lag) for lag in range(LAGS)]
    real = jax.lax.map(lambda k: seen(encoded(k)), jnp.arange(LAGS, LAGS + HORIZON))
    return {
        "real": real[0],
        "real_value": real[1],
        "rolled": jnp.stack([logits for logits, _ in rolled]),
        "rolled_value": jnp.stack([values for _, values in rolled]),
        "alive": way.alive[-HORIZON:],
    }


def learn(options):
    """Learn a variant, and print what it knows."""
    begun = time.monotonic()
    kept = json.loads((options.data / "settings.json").read_text())
    spaces = Spaces.from_json(kept.pop("spaces"))
    config = settings(argparse.Namespace(**{**kept, "data": options.data}))
    system = variant_of(build_system(config, spaces), options.variant)
    learner = replace(system.learner, total_updates=options.updates)
    like = jax.eval_shape(system.empty_replay)
    replay = stored(options.data / "stored.npz", like, Environments.of(config))
    looked_at = {"new": stored(options.data / "new.npz", like, new_environments(config))}
    if options.hold:
        looked_at["held"] = of_environments(replay, slice(-options.hold, None))
        replay = of_environments(replay, slice(-options.hold))
    state = system.first_state(jax.random.key(options.seed))
    key, part = jax.random.key(options.seed + 1), options.updates // options.parts
    update = jax.jit(learner.update, donate_argnums=(0, 1))
    update = update.lower(state, replay, key, jnp.int32(1)).compile(
        compiler_options=compiler_options()
    )
    model = system.planner.model
    looking = Looking(model) if isinstance(model, JumpModel) else model
    look = jax.jit(partial(foresight, looking, HORIZON, POSITIONS))
    row = {"variant": options.variant, "seed": options.seed, "hold": options.hold, "run": kept}
    row["results"] = []
    row["learner"] = asdict(learner.config)
    compiled, learning = time.monotonic(), 0.0
    for n in range(options.parts):
        started = time.monotonic()
        state, replay, metrics = update(state, replay, key, jnp.int32(part))
        jax.block_until_ready(state)
        learning += time.monotonic() - started
        variables = learner.playing(state)
        found = {"updates": (n + 1) * part}
        for name, rows in {"stored": replay, **looked_at}.items():
            curves = look(variables, rows, jax.random.key(7)).lists()
            for curve in CURVES:
                values = [curves[curve][k - 1] for k in STEPS]
                found[f"{name}_{curve}"] = [None if v is None else round(v, 3) for v in values]
        found["losses"] = {
            k: round(float(v), 4)
            for k, v in metrics.items()
            if k.startswith("loss") and v.ndim == 0
        }
        row["results"].append(found)
    if options.forecasts:
        predicted = jax.jit(partial(forecasts, system.planner.model))
        found = predicted(variables, looked_at["new"], jax.random.key(7))
        np.savez_compressed(options.forecasts, **{k: np.asarray(v) for k, v in found.items()})
    row["seconds_before"] = round(compiled - begun, 1)
    row["ms_per_update"] = round(1000 * learning / options.updates, 2)
    for delay in (config.delay, "constant:0") if options.evaluate else ():
        evaluator = Evaluator(system, EPISODES, max_steps=LONGEST, delay=delay)
        scores = summary(evaluator.play(variables, 0))
        evaluator.close()
        row[f"score {delay}"] = {k: v for k, v in scores.items() if k != "scores"}
    row["seconds"] = round(time.monotonic() - begun, 1)
    with options.out.open("a") as file:
        file.write(json.dumps(row) + "\n")
    print(json.dumps({k: v for k, v in row.items() if k not in ("learner", "run")}), flush=True)


def main():
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(required=True)
    player = verbs.add_parser("play")
    player.add_argument("--presets", nargs="+", default=["atari"])
    player.add_argument("--env", default="atari:Asterix")
    player.add_argument("--delay", default="walk:15")
    player.add_argument("--interactions", type=int, default=24_000)
    player.set_defaults(verb=play)
    learning = verbs.add_parser("learn")
    learning.add_argument("--variant", default="base")
    learning.add_argument("--updates", type=int, default=9_000)
    learning.add_argument("--parts", type=int, default=3)
    learning.add_argument("--hold", type=int, default=0)
    learning.add_argument("--evaluate", type=int, default=1)
    learning.add_argument("--forecasts", type=Path)
    learning.add_argument("--out", type=Path, required=True)
    learning.set_defaults(verb=learn)
    for verb in (player, learning):
        verb.add_argument("data", type=Path)
        verb.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    verb = options.verb
    del options.verb
    verb(options)


if __name__ == "__main__":
    main()
