"""Targets straight from their definitions: slow, obvious, over episodes as Python lists.

An episode is a list of rows. Nothing here knows of windows, rings or masks as arrays.
"""

from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np

from delayzero.actions import ActionSpec, Queue
from delayzero.learning.learner import NEVER, LearnerState
from delayzero.learning.optimiser import make_optimiser
from delayzero.learning.update import Learner
from delayzero.model import build_model
from delayzero.planning import Planner
from delayzero.replay import HostFrames, Targets, Transitions, append, create
from delayzero.settings import (
    LearnerConfig,
    ModelConfig,
    ReanalysisConfig,
    ReplayConfig,
    SearchConfig,
)

from ..made import full_queue, queue_of, spaces_of

ACTIONS = 3


@dataclass(frozen=True)
class Row:
    time: int
    env: int
    episode: int
    frame: np.ndarray
    action: int
    reward: float
    terminated: bool
    truncated: bool
    final: bool
    policy: np.ndarray
    search_value: float
    network_value: float
    made_at: int

    @property
    def ends(self):
        return self.terminated or self.truncated


@dataclass(frozen=True)
class Plan:
    """What a learner needs to know to make targets."""

    unroll: int = 3
    td_steps: int = 4
    td_age: int | None = None
    horizon: int = 5
    stack: int = 1
    bootstrap: str = "search"
    discount: float = 0.9
    mixed_value_after: int | None = None
    mixed_value_age: int = 5000
    predicts_ends: bool = False

    @property
    def config(self):
        return LearnerConfig(
            unroll=self.unroll,
            td_steps=self.td_steps,
            td_age=self.td_age,
            prefix_horizon=self.horizon,
            bootstrap=self.bootstrap,
            mixed_value_after=self.mixed_value_after,
            mixed_value_age=self.mixed_value_age,
        )


@dataclass
class History:
    """All episodes of all environments; ``episodes[env]`` is a list of lists of rows."""

    episodes: list = field(default_factory=list)

    @property
    def num_envs(self):
        return len(self.episodes)

    def rows(self, env):
        return [row for episode in self.episodes[env] for row in episode]

    def find(self, time, env):
        """The episode of a row, and where in it the row stands."""
        for episode in self.episodes[env]:
            if episode[0].time <= time <= episode[-1].time:
                return episode, time - episode[0].time
        raise LookupError((time, env))


def random_history(seed, num_envs=3, length=60):
    """Episodes of 1 to 14 steps: terminated, cut off, both, with lost lives on the way."""
    rng = np.random.default_rng(seed)
    history = History()
    for env in range(num_envs):
        episodes, time = [], 0
        while time < length:
            steps = int(rng.choice([1, 2, 3, 5, 8, 14]))
            over = [(True, False), (False, True), (True, True)][rng.choice(3, p=[0.4, 0.4, 0.2])]
            episode = []
            for i in range(steps + 1):
                final, last = i == steps, i == steps - 1
                lost_life = rng.random() < 0.15 and not last and not final
                policy = rng.dirichlet(np.ones(ACTIONS))
                episode.append(
                    Row(
                        time=time,
                        env=env,
                        episode=len(episodes),
                        frame=np.array([env, time, len(episodes)], np.float32),
                        action=int(rng.integers(ACTIONS)),
                        reward=0.0 if final else float(rng.normal()),
                        terminated=lost_life or (over[0] and last),
                        truncated=over[1] and last,
                        final=final,
                        policy=policy.astype(np.float32),
                        search_value=float(np.float32(rng.normal())),
                        network_value=float(np.float32(rng.normal())),
                        made_at=int(rng.integers(5)),
                    )
                )
                time += 1
            episodes.append(episode)
        # The last episode may still be under way.
        episodes[-1] = [row for row in episodes[-1] if row.time < length]
        history.episodes.append(episodes)
    return history


def to_arrays(history, begin, end, frame=lambda row: row.frame):
    """Rows [begin, end) of all environments as :func:`delayzero.replay.append` takes them."""
    grid = [[history.find(t, n) for n in range(history.num_envs)] for t in range(begin, end)]

    def gather(read, dtype):
        return np.array([[read(episode, i) for episode, i in line] for line in grid], dtype)

    frames = gather(lambda e, i: frame(e[i]), np.asarray(frame(grid[0][0][0][0])).dtype)
    transitions = Transitions(
        first=gather(lambda e, i: i == 0, bool),
        final=gather(lambda e, i: e[i].final, bool),
        action=gather(lambda e, i: e[i].action, np.int32),
        reward=gather(lambda e, i: e[i].reward, np.float32),
        terminated=gather(lambda e, i: e[i].terminated, bool),
        truncated=gather(lambda e, i: e[i].truncated, bool),
    )
    targets = Targets(
        policy=gather(lambda e, i: e[i].policy, np.float32),
        search_value=gather(lambda e, i: e[i].search_value, np.float32),
        network_value=gather(lambda e, i: e[i].network_value, np.float32),
        made_at=gather(lambda e, i: e[i].made_at, np.int32),
    )
    return frames, transitions, targets


def quick_jit(function, **settings):
    """Compiled with little optimisation: these programs are small and run a few times."""
    return jax.jit(function, compiler_options={"xla_backend_optimization_level": 0}, **settings)


jitted_append = quick_jit(append)


def filled(
    history, rows, length, chunks=(1, 4, 3), host=False, frame=lambda row: row.frame, stack=1
):
    """A replay that was given the first ``length`` rows of a history, in chunks in turn."""
    example = np.asarray(frame(history.episodes[0][0][0]))
    shape, dtype = example.shape, example.dtype
    replay = create(
        rows, history.num_envs, spaces_of(shape, dtype, ACTIONS), stack=stack, host_frames=host
    )
    time, turn = 0, 0
    while time < length:
        chunk = min(chunks[turn % len(chunks)], length - time)
        frames, transitions, targets = to_arrays(history, time, time + chunk, frame)
        if isinstance(replay.frames, HostFrames):
            slots = np.arange(time, time + chunk) % rows
            replay.frames.write(slots, list(frames))
            frames = None
        replay = jitted_append(replay, frames, transitions, targets)
        time, turn = time + chunk, turn + 1
    return replay


def stack_at(episode, i, stack):
    """The frames i - stack + 1 .. i of an episode; its first one stands in for what was before."""
    return np.stack([episode[max(j, 0)].frame for j in range(i - stack + 1, i + 1)])


def is_alive(episode, i, k, predicts_ends=False):
    """Whether no return ended in the k steps from row i; if ends are predicted, no episode."""
    if predicts_ends:
        return i + k < len(episode) and not episode[i + k].final
    return not any(row.ends for row in episode[i : i + k])


def is_taken(episode, i, k, predicts_ends=False):
    """Whether state k was reached by a step that belongs to what row i began."""
    return k == 0 or is_alive(episode, i, k - 1, predicts_ends)


def steps_for(age, plan):
    if plan.td_age is None:
        return plan.td_steps
    return min(max(plan.td_steps - age // plan.td_age, 1), plan.td_steps)


def value_of(row, plan):
    return row.search_value if plan.bootstrap == "search" else row.network_value


def value_target(episode, i, k, steps, plan):
    """The return of state k; only for states that were reached."""
    if not is_alive(episode, i, k, plan.predicts_ends):
        before = episode[i + k - 1]
        return 0.0 if before.terminated else value_of(episode[i + k], plan)
    total = 0.0
    for j in range(steps):
        row = episode[i + k + j]
        total += plan.discount**j * row.reward
        if row.terminated:
            return total
        if row.truncated:
            return total + plan.discount ** (j + 1) * value_of(episode[i + k + j + 1], plan)
    return total + plan.discount**steps * value_of(episode[i + k + steps], plan)


def prefix_target(episode, i, k, plan):
    """The sum of rewards of the steps since the last restart, up to and with step k (from 0)."""
    begin = (k // plan.horizon) * plan.horizon
    return sum(row.reward for row in episode[i + begin : i + k + 1])


def complete_rows(history, rows, length, plan):
    """``(time, env)`` from which a sample can be made with all that it needs still stored."""
    found = []
    for env in range(history.num_envs):
        for episode in history.episodes[env]:
            for i, row in enumerate(episode):
                oldest = episode[max(i - plan.stack + 1, 0)].time
                newest = row.time + plan.unroll + plan.td_steps
                if not row.final and oldest >= length - rows and newest < length:
                    found.append((row.time, env))
    return found


def random_variables(model, example, seed=0, queue=0):
    """Variables in which no head is constant, without running the model."""
    action = jnp.zeros(len(example), jnp.int32)
    queues = full_queue(jnp.zeros((len(example), queue), jnp.int32))
    shapes = jax.eval_shape(
        lambda *args: model.init(*args, method="everything"),
        *(jax.random.key(0), example, action, queues),
    )
    rng = np.random.default_rng(seed)

    def numbers(path, leaf):
        name = path[-1].key
        if name in ("mean", "var"):
            return jnp.full(leaf.shape, float(name == "var"))
        spread = 0.3 if len(leaf.shape) < 2 else 1.5 / np.sqrt(np.prod(leaf.shape[:-1]))
        return jnp.asarray((name == "scale") + spread * rng.normal(size=leaf.shape), jnp.float32)

    return jax.tree_util.tree_map_with_path(numbers, shapes)


def first_state(learner, example):
    """A learner's first state, with random variables."""
    variables = random_variables(learner.planner.model, example)
    optimiser = make_optimiser(learner.config, learner.total_updates)
    return LearnerState(
        variables=variables,
        target=variables if learner.config.target_period > 1 or learner.config.average else (),
        optimiser=optimiser.init(variables["params"]),
        updates=jnp.int32(0),
        failed=jnp.int32(NEVER),
    )


def small_model(kind="mlp", sees_queue=False, ends="absorbing", decodes=False):
    if kind == "conv":
        config = ModelConfig(kind="conv", channels=8, width=16, lstm=8, support=10, ends=ends)
        return build_model(config, (10, 10, 2), ActionSpec(ACTIONS), decodes=decodes)
    config = ModelConfig(support=10, latent=8, width=16, lstm=8, ends=ends)
    return build_model(config, (3,), ActionSpec(ACTIONS), sees_queue=sees_queue)


def random_queues(seed, *sizes):
    """Queues of all lengths, ``[*sizes]``."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(sizes[-1] + 1, size=(*sizes[:-1], 1))
    actions = rng.integers(ACTIONS, size=sizes)
    return queue_of(np.where(np.arange(sizes[-1]) < lengths, actions, ACTIONS), ACTIONS)


def emptied(queue):
    """The same queues without a pending action."""
    return Queue(queue.action, np.zeros_like(queue.mask))


def small_learner(
    kind="mlp",
    mode="sweep",
    augment=False,
    method="puct",
    replay=None,
    ends="absorbing",
    **changes,
):
    """A learner whose searches have no noise: PUCT, no Dirichlet."""
    settings = dict(batch_size=6, unroll=2, td_steps=2, warmup=2, learning_rate=0.05)
    config = LearnerConfig(**{**settings, **changes})
    search = SearchConfig(method=method, simulations=4, dirichlet_fraction=0.0)
    model = small_model(kind, ends=ends, decodes=config.reconstruction_weight > 0)
    planner = Planner(model, search.resolved(ACTIONS), 0.9, config.prefix_horizon)
    return Learner(
        planner=planner,
        config=config,
        reanalysis=ReanalysisConfig(mode=mode),
        replay=replay or ReplayConfig(),
        total_updates=100,
        augment=augment,
    )


def leaves_equal(a, b):
    """Whether two trees have the same numbers, bit by bit (NaN equals NaN)."""
    left, right = jax.tree.leaves(a), jax.tree.leaves(b)
    same = zip(left, right, strict=True)
    return all(np.array_equal(x, y, equal_nan=np.asarray(x).dtype.kind == "f") for x, y in same)
