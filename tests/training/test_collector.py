"""What self-play stores, against a second playing of the same actions."""

import json
from dataclasses import replace

import gymnasium as gym
import jax
import numpy as np
import pytest

from delayzero.actions import Queue
from delayzero.envs.make import make_vector
from delayzero.playing.actor import Actor
from delayzero.playing.audit import MisalignedError
from delayzero.playing.environments import Environments, make_training_env
from delayzero.playing.streams import STREAM_TRAINING_ENVS, run_seed
from delayzero.playing.system import System, build_system
from delayzero.replay import HostFrames
from delayzero.spaces import Spaces
from delayzero.training.collector import Collector

from .small import small, stirred


def set_up(config, host_frames=False, env=None):
    env = Environments(make_training_env(config) if env is None else env, config.delays)
    system = build_system(config, Spaces.of(env.delayed.env))
    replay = system.empty_replay(host_frames=host_frames)
    collector = Collector(system, Actor(system, env))
    collector.begin()
    variables = jax.jit(system.first_state)(jax.random.key(0)).variables
    return collector, replay, stirred(variables)


def play(config, rounds, **options):
    """Rounds of self-play: the collector, the replay, and the episodes that ended."""
    collector, replay, variables = set_up(config, **options)
    finished, stacks, interactions = [], [], []
    for i in range(rounds):
        replay, ended = collector.collect(variables, replay, 10 * i)
        finished += ended
        stacks.append(np.asarray(collector.state()[0]["frames"])[:, -config.stack :])
        interactions.append(collector.interactions)
    return collector, replay, finished, stacks, interactions


class Told:
    """The same actions in new environments, by a loop that knows nothing of rows."""

    def __init__(self, config, actions):
        env = make_vector(config.env, config.envs, training=True, max_steps=config.max_steps)
        seen, _ = env.reset(seed=run_seed(config.seed, STREAM_TRAINING_ENVS, 0))
        count = config.envs
        over, new = [False] * count, [True] * count
        sums, steps, history = [0.0] * count, [0] * count, [[] for _ in range(count)]
        self.rows, self.finished, self.stacks, self.counted, self.interactions = [], [], [], [], 0
        for row in actions:
            for i in range(count):
                history[i] = [seen[i].copy()] if new[i] else [*history[i], seen[i].copy()]
            self.stacks.append(
                [([h[0]] * config.stack + h)[-config.stack :] for h in map(list, history)]
            )
            following, rewards, terminated, truncated, info = env.step(row)
            lost = info.get("life_lost", [False] * count)
            for i in range(count):
                ends = bool(terminated[i] or truncated[i])
                reward = float(rewards[i])
                sums[i] += reward
                steps[i] += not over[i]
                self.interactions += not over[i]
                if config.clip_rewards:
                    reward = float(reward > 0) - float(reward < 0)
                self.rows.append(
                    {
                        "frames": seen[i].copy(),
                        "first": new[i],
                        "final": over[i],
                        "reward": reward,
                        "terminated": bool(terminated[i] or lost[i]),
                        "truncated": bool(truncated[i]),
                        "lost": bool(lost[i]),
                    }
                )
                if ends:
                    self.finished.append((sums[i], steps[i]))
                    sums[i], steps[i] = 0.0, 0
                new[i], over[i] = over[i], ends
            self.counted.append(self.interactions)
            seen = following

    def column(self, name, envs):
        values = np.array([row[name] for row in self.rows])
        return values.reshape(-1, envs, *values.shape[1:])


def assert_told_right(config, rounds, **options):
    collector, replay, finished, stacks, interactions = play(config, rounds, **options)
    length = int(replay.length)
    assert length == rounds * config.rows
    told = Told(config, np.asarray(replay.transitions.action)[:length])
    kept = replay.frames.array if isinstance(replay.frames, HostFrames) else replay.frames
    np.testing.assert_array_equal(kept[:length], told.column("frames", config.envs))
    for name in ("first", "final", "reward", "terminated", "truncated"):
        stored = np.asarray(getattr(replay.transitions, name))[:length]
        np.testing.assert_array_equal(stored, told.column(name, config.envs), err_msg=name)
    assert [(episode.score, episode.length) for episode in finished] == told.finished
    assert interactions == told.counted[config.rows - 1 :: config.rows]
    for i, stack in enumerate(stacks):
        np.testing.assert_array_equal(stack, told.stacks[(i + 1) * config.rows - 1])
    made_at = np.asarray(replay.targets.made_at)[:length, 0]
    np.testing.assert_array_equal(made_at, 10 * np.repeat(np.arange(rounds), config.rows))
    return collector, replay, told


@pytest.mark.parametrize(
    ("host_frames", "delay"),
    [
        pytest.param(False, "constant:0", marks=pytest.mark.slow),
        (True, "walk:3"),
        (False, "uniform:0-4"),
    ],
)
def test_cartpole_is_stored_as_it_happened(host_frames, delay):
    """The executed actions, played again without delay, lead to all that is stored."""
    config = small(stack=2, max_steps=15, rows=6, random_interactions=72, interactions=600, seed=3)
    config = replace(config, delay=delay)
    collector, replay, told = assert_told_right(config, 10, host_frames=host_frames)
    ends = told.column("truncated", 4), told.column("terminated", 4)
    assert ends[0].any()
    assert ends[1].any()
    assert len(told.finished) > 10
    assert collector.interactions == told.interactions < int(replay.length) * 4


@pytest.mark.slow
def test_atari_is_stored_as_it_happened():
    config = small(
        presets=("atari", "debug"),
        env="atari:MsPacman",
        envs=2,
        rows=20,
        stack=3,
        max_steps=170,
        delay="walk:5",
        random_interactions=10_000,
        interactions=20_000,
    )
    config = replace(
        config,
        model=replace(config.model, kind="mlp"),
        search=replace(config.search, simulations=1),
        replay=replace(config.replay, capacity=10_000),
    )
    config = replace(config, interactions=10_001)
    _, replay, told = assert_told_right(config, 17)
    lost = told.column("lost", 2)
    assert lost.any(), "a life was lost on the way"
    assert told.column("truncated", 2).any() or told.column("terminated", 2).any()
    after = np.argwhere(lost)[0] + [1, 0]
    assert not np.asarray(replay.transitions.first)[tuple(after)], "the game goes on"
    assert max(score for score, _ in told.finished) >= 20, "scores are not clipped"
    assert np.asarray(replay.transitions.reward).max() == 1


def test_random_play_is_uniform_and_ends_when_it_should():
    config = small(stack=2, random_interactions=400, interactions=800, rows=6)
    collector, replay, variables = set_up(config)
    before, seen = collector._actors._player._act, []

    def watched(*args, at_random, **options):
        seen.append(at_random)
        return before(*args, at_random=at_random, **options)

    collector._actors._player._act = watched
    while collector.interactions < 500:
        replay, _ = collector.collect(variables, replay, 0)
    length = int(replay.length)
    random_rows = sum(seen)
    counted = np.cumsum((~np.asarray(replay.transitions.final)[:length]).sum(1))
    assert seen == [True] * random_rows + [False] * (length - random_rows)
    assert counted[random_rows - 1] >= 400 > counted[random_rows - 2]
    action = np.asarray(replay.transitions.action)[:random_rows].ravel()
    share = action.mean()
    assert abs(share - 0.5) < 4 * 0.5 / np.sqrt(len(action))
    pairs = np.corrcoef(action[:-1], action[1:])[0, 1]
    assert abs(pairs) < 4 / np.sqrt(len(action))


def test_a_round_keeps_to_the_budget():
    config = small(stack=2, interactions=150, rows=6)
    collector, replay, variables = set_up(config)
    while collector.interactions < 150:
        left, length = 150 - collector.interactions, int(replay.length)
        replay, _ = collector.collect(variables, replay, 0)
        assert int(replay.length) - length == min(6, -(-left // 4))
    assert collector.interactions < 150 + 4


@pytest.mark.parametrize("rounds", [1, 3, 7], ids=["at-an-end", "in-flight", "at-a-beginning"])
@pytest.mark.parametrize("delay", ["constant:0", "walk:3"])
def test_its_state_goes_on_exactly(rounds, delay):
    """Episodes take 7 rows, rounds have 6."""
    config = small(stack=2, max_steps=6, rows=6, interactions=600, delay=delay)
    collector, replay, variables = set_up(config)
    for _ in range(rounds):
        replay, _ = collector.collect(variables, replay, 0)
    arrays, numbers = collector.state()
    state = jax.tree.map(np.array, arrays)
    assert state["final"].all() == (rounds == 1)
    assert state["first"].all() == (rounds == 7)
    again = Collector(collector._system, Actor(collector._system, Environments.of(config)))
    again._append = collector._append
    again._actors._player._act = collector._actors._player._act
    assert again.restore((state, json.loads(json.dumps(numbers))))
    assert again.interactions == collector.interactions
    other = jax.tree.map(lambda x: jax.numpy.array(np.array(x)), replay)
    for _ in range(2):
        replay, finished = collector.collect(variables, replay, 0)
        other, finished_again = again.collect(variables, other, 0)
        assert finished == finished_again
    assert int(replay.transitions.truncated.sum()) > 4
    assert again.interactions == collector.interactions
    for one, two in zip(jax.tree.leaves(replay), jax.tree.leaves(other), strict=True):
        np.testing.assert_array_equal(one, two)


class Reused(gym.vector.VectorEnv):
    """Returns the same arrays each time, as some vector environments do."""

    metadata = {"autoreset_mode": gym.vector.AutoresetMode.NEXT_STEP}

    def __init__(self, num_envs):
        self.num_envs = num_envs
        self.single_observation_space = gym.spaces.Box(-9, 9, (4,), np.float32)
        self.single_action_space = gym.spaces.Discrete(2)
        self.observation_space = gym.vector.utils.batch_space(
            self.single_observation_space, num_envs
        )
        self.action_space = gym.vector.utils.batch_space(self.single_action_space, num_envs)
        self._seen = np.zeros((num_envs, 4), np.float32)
        self._rewards = np.zeros(num_envs, np.float32)
        self._ends = np.zeros(num_envs, bool)
        self._none = np.zeros(num_envs, bool)
        self._time = 0

    def reset(self, *, seed=None, options=None):
        self._time = 0
        self._seen[...] = 0
        return self._seen, {}

    def step(self, actions):
        self._time += 1
        self._seen[...], self._rewards[...] = self._time, self._time
        self._ends[...] = self._time % 4 == 3
        return self._seen, self._rewards, self._none, self._ends, {}


def test_arrays_that_an_environment_uses_again_are_copied():
    config = small(stack=2, rows=6)
    _, replay, *_ = play(config, 1, env=Reused(4))
    rows = replay.transitions
    np.testing.assert_array_equal(np.asarray(replay.frames)[:6, 0, 0], [0, 1, 2, 3, 4, 5])
    np.testing.assert_array_equal(np.asarray(rows.reward)[:6, 0], [1, 2, 3, 4, 5, 6])
    np.testing.assert_array_equal(np.asarray(rows.truncated)[:6, 0], [0, 0, 1, 0, 0, 0])
    np.testing.assert_array_equal(np.asarray(rows.final)[:6, 0], [0, 0, 0, 1, 0, 0])


def reversed_queue(queue):
    return Queue(queue.action[::-1], queue.mask[::-1])


@pytest.fixture(scope="module")
def audited():
    """By agent: a collector that audits, an empty replay and variables."""
    made = {}

    def make(agent):
        if agent not in made:
            config = small(agent=agent, delay="uniform:0-3", rows=12, interactions=2000)
            made[agent] = set_up(config)
        return made[agent]

    return make


@pytest.mark.parametrize(
    ("agent", "spoil", "column"),
    [
        pytest.param("dez", lambda h, d: (h._replace(action=d.decided), d), "action", id="decided"),
        pytest.param(
            "dez", lambda h, d: (h._replace(action=np.roll(h.action, 1)), d), "action", id="shifted"
        ),
        pytest.param("dez", lambda h, d: (h, d._replace(decided=h.action)), "decided", id="ran"),
        pytest.param("dez", lambda h, d: (h, d._replace(delay=d.delay[::-1])), "delay", id="delay"),
        pytest.param(
            "dez",
            lambda h, d: (h, d._replace(decision_time=d.decision_time + 1)),
            "decision_time",
            id="time",
        ),
        pytest.param("dez", lambda h, d: (h._replace(first=h.final), d), "first", id="first"),
        pytest.param(
            "augmented", lambda h, d: (h._replace(action=1 - h.action), d), "action", id="action"
        ),
        pytest.param(
            "augmented",
            lambda h, d: (h, d._replace(queue=reversed_queue(d.queue))),
            "queue",
            id="queue",
        ),
    ],
)
def test_the_audit_reads_what_is_stored(agent, spoil, column, audited, monkeypatch):
    collector, empty, variables = audited(agent)
    right = System.rows_of
    collector.begin()
    replay = jax.tree.map(lambda x: jax.numpy.array(np.array(x)), empty)
    replay, _ = collector.collect(variables, replay, 0)
    monkeypatch.setattr(System, "rows_of", lambda *args: spoil(*right(*args)))
    with pytest.raises(MisalignedError, match=f"the replay's column '{column}' holds"):
        collector.collect(variables, replay, 0)


def test_the_audit_reads_the_rows_where_they_are_stored(audited, monkeypatch):
    collector, empty, variables = audited("dez")
    collector.begin()
    replay = jax.tree.map(lambda x: jax.numpy.array(np.array(x)), empty)
    store = collector._append

    def elsewhere(*args):
        stored = store(*args)
        return stored._replace(decisions=jax.tree.map(lambda x: x[::-1], stored.decisions))

    monkeypatch.setattr(collector, "_append", elsewhere)
    with pytest.raises(MisalignedError, match="the replay's column 'decided' holds"):
        collector.collect(variables, replay, 0)


@pytest.mark.parametrize(
    ("agent", "host_frames"),
    [
        ("dez", False),
        pytest.param("augmented", True, marks=pytest.mark.slow),
        pytest.param("dez", True, marks=pytest.mark.slow),
        pytest.param("augmented", False, marks=pytest.mark.slow),
    ],
)
def test_everything_is_compiled_before(agent, host_frames, caplog):
    config = small(agent=agent, delay="walk:2", random_interactions=80)

    def compiled_in_play(prepare):
        collector, replay, variables = set_up(config, host_frames=host_frames)
        if prepare:
            for one in collector.lowered(variables, replay):
                one.compile()
        caplog.clear()
        with jax.log_compiles():
            for _ in range(2):
                replay, _ = collector.collect(variables, replay, 3)
        told = " ".join(caplog.messages)
        names = ("act", "plan_first_queue", "_append_rows")
        return [name for name in names if f"XLA compilation of jit({name})" in told]

    assert compiled_in_play(prepare=False) == ["act", "plan_first_queue", "_append_rows"]
    assert compiled_in_play(prepare=True) == []
