"""Runs that take seconds, and what they leave behind."""

import json
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import jax
import numpy as np
import orbax.checkpoint as ocp
from gymnasium import spaces

from delayzero.envs.recording import ActionLog
from delayzero.learning.fresh import Fresh
from delayzero.playing.actor import Actor
from delayzero.playing.environments import Environments, make_training_env
from delayzero.playing.system import build_system
from delayzero.replay import HostFrames
from delayzero.runs.checkpoint import Checkpoints
from delayzero.runs.run_folder import RunFolder
from delayzero.settings import changed, compose
from delayzero.settings.stored import FREE_FIELDS
from delayzero.spaces import Spaces
from delayzero.training import loop
from delayzero.training.programs import Programs

TINY = {"latent": 8, "width": 16, "lstm": 8, "support": 10, "channels": 8, "head": 8}
EVERY_ROUND = 1e-9
"""Minutes between checkpoints that come after every round."""
FREE = (  # what no compiled program knows
    *("env", "folder", "seed", "log_every", "checkpoint_minutes", "rows", "final_episodes"),
    *("overlap", "max_steps", "evaluate_max_steps", "final_max_steps"),
)


def small(folder=None, presets=("cartpole", "debug"), agent="dez", **changes):
    """Five rounds of learning, with sweeps, priorities and a target network."""
    config = compose(presets, agent)
    config = changed(
        config,
        folder=None if folder is None else str(folder),
        interactions=compose(presets).random_interactions + 80,
        checkpoint_minutes=1000.0,
        prediction_rows=0,
        model=TINY,
        replay={"priority_exponent": 0.6},
        learner={"target_period": 3},
        reanalysis={"roots": 24, "positions_per_update": 9.5},
    )
    return changed(config, **changes)


class Traced(NamedTuple):
    """A function that is compiled already, where one is expected that is to be."""

    program: Any

    def compile(self, compiler_options=None):
        return self.program


class SharedPrograms(Programs):
    """Programs that are compiled once for all runs that differ in nothing compiled."""

    compiled: dict = {}

    def _key(self, which):
        config = self._system.config
        same = {k: v for k, v in asdict(config).items() if k not in FREE}
        same |= {"total": config.total_updates, "rows": self._system.replay_rows}
        same |= {"spaces": self._system.spaces}
        return which, str(same)

    def _lowerings(self):
        def once(name, lower):
            def trace(learner):
                key = self._key(name)
                if key not in self.compiled:
                    self.compiled[key] = lower(learner).compile(), self._replay.frames
                program, frames = self.compiled[key]
                if isinstance(frames, HostFrames):  # the one that the program reads
                    frames.array[...] = 0
                    self._replay = self._replay._replace(frames=frames)
                return Traced(program)

            return trace

        return {name: once(name, lower) for name, lower in super()._lowerings().items()}


class NotCompiled(Programs):
    """Updates that count themselves, with their last number as the loss, and do nothing else."""

    def _lowerings(self):
        def update(state, replay, key, count):
            state = state._replace(updates=state.updates + count)
            return state, replay, {"loss": state.updates.astype(float)}

        def sweep(state, replay, key, position, count):
            self.swept.append(int(count))
            return replay, position

        def health(state, replay, key):
            return {}

        def fresh(state, replay, learned):
            return Fresh()

        self.swept = []
        fakes = {"update": update, "sweep": sweep, "health": health, "fresh": fresh}
        fakes = {name: Fake(function) for name, function in fakes.items()}
        return {name: lambda _, name=name: Traced(fakes[name]) for name in super()._lowerings()}


class Fake:
    def __init__(self, function):
        self._function = function

    def __call__(self, *args):
        return self._function(*args)

    def memory_analysis(self):
        return None


def stirred(variables):
    """Other weights: new heads are zero, and say the same whatever they see."""
    leaves, form = jax.tree.flatten(variables)
    rng = np.random.default_rng(0)
    moved = [x + 0.3 * rng.normal(size=x.shape).astype(x.dtype) for x in leaves]
    return jax.tree.unflatten(form, moved)


def trainer(config, make_env=make_training_env):
    """A run that is ready to begin, or to go on."""
    folder = RunFolder(Path(config.run_folder))
    folder.open(config, ["delayzero", "train", "test"])
    env = Environments(make_env(config), config.delays)
    system = build_system(config, Spaces.of(env.delayed.env))
    return loop.Trainer(system, Actor(system, env), folder)


class Crash(Exception):
    """Ends a run without warning."""


def act_after(monkeypatch, steps, what):
    """Do something in a step of the environments, once, after so many of them."""
    count, original = [0], ActionLog.step

    def step(self, actions):
        count[0] += 1
        if count[0] == steps + 1:
            monkeypatch.setattr(ActionLog, "step", original)
            what()
        return original(self, actions)

    monkeypatch.setattr(ActionLog, "step", step)


def crash_after(monkeypatch, steps):
    def crash():
        raise Crash

    act_after(monkeypatch, steps, crash)


def newest(folder):
    """The folder of the newest checkpoint."""
    found = [p for p in (Path(folder) / "checkpoints").iterdir() if p.name.isdigit()]
    return max(found, key=lambda p: int(p.name))


def stored(folder, part):
    """A part of the newest checkpoint, as orbax reads it by itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ocp.PyTreeCheckpointer().restore(newest(folder) / part)


def progress_of(folder):
    values = json.loads((newest(folder) / "progress" / "metadata").read_text())
    times = ("seconds", "compile_seconds", "times", "metrics_bytes", "metrics_digest")
    values["config"] = {k: v for k, v in values["config"].items() if k not in FREE_FIELDS}
    values["evaluations"] = [
        {k: v for k, v in line.items() if not k.startswith("seconds")}
        for line in values["evaluations"]
    ]
    return {k: v for k, v in values.items() if k not in times}


def steps_of(folder):
    """How far the environments of the newest checkpoint have come."""
    return progress_of(folder)["environments"]["steps"]


def metrics_of(folder):
    """All lines, without times."""
    lines = (Path(folder) / "metrics.jsonl").read_text().splitlines()
    return [
        {k: v for k, v in json.loads(line).items() if not k.startswith("seconds")} for line in lines
    ]


def equal_trees(one, other):
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


def begun_run(folder, **settings):
    """The folder of a run that has a checkpoint and has learned nothing."""
    config = small(folder, **settings)
    opened = RunFolder(folder)
    opened.open(config, ["delayzero"])
    system = build_system(config, Spaces.of(make_training_env(config)))
    state = jax.jit(system.first_state)(jax.random.key(0))
    checkpoints = Checkpoints(opened.checkpoints)
    checkpoints.save(1, {"learner": state}, {"seconds": 0.0})
    checkpoints.close()
    opened.close()
    return folder


def assert_same_runs(one, other):
    """Everything that two runs left behind is the same, apart from times."""
    for part in ("learner", "replay", "collector"):
        assert equal_trees(stored(one, part), stored(other, part)), part
    assert progress_of(one) == progress_of(other)
    assert metrics_of(one) == metrics_of(other)
    assert (Path(one) / "episodes.jsonl").read_text() == (
        Path(other) / "episodes.jsonl"
    ).read_text()


class Counting(gym.Env):
    """Shows (episode, step, 0, 0): every observation is different; options spoil it in some way."""

    observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float32)
    action_space = spaces.Discrete(2)
    begun = 0
    """Environments reset in this process, by which an unseeded one differs from itself."""

    def __init__(
        self, length=7, bad_step=None, bad_reward=0.0, unseeded=False, cut=False, blind=None
    ):
        self._length, self._bad, self._blind = length, (bad_step, bad_reward), blind
        self._unseeded, self._cut = unseeded, cut
        self._episode = self._total = self._time = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        Counting.begun += 1
        self._episode = Counting.begun if self._unseeded else self._episode + 1
        if seed is not None and not self._unseeded:
            self._episode, self._total = 1, 0
        self._time = 0
        return self._show(), {}

    def step(self, action):
        self._time, self._total = self._time + 1, self._total + 1
        reward = self._bad[1] if self._total == self._bad[0] else float(action) - 0.25
        ended = self._time == self._length
        return self._show(), reward, ended and not self._cut, ended and self._cut, {}

    def _show(self):
        shown = np.nan if self._total == self._blind else 0
        return np.array([self._episode, self._time, shown, 0], np.float32)


gym.register("delayzero-tests/Counting-v0", Counting)
