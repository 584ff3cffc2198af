"""What is recorded, against the environment played again by itself, and against its definition."""

import functools

import gymnasium as gym
import jax
import numpy as np
import pytest

from delayzero.actions import Queue
from delayzero.agents import Observed
from delayzero.envs.make import make_vector
from delayzero.evaluation.episodes import Evaluator
from delayzero.playing.streams import STREAM_EVALUATION_ENVS, run_seed
from delayzero.runs.weights import load_weights
from delayzero.watching.frames import encoded
from delayzero.watching.recording import Subject, record

from ..training.small import begun_run

SEED = 3


def recorded(run, episodes=1, most=500):
    system, variables = load_weights(run)
    subject = Subject(run, system, variables, system.config.delays)
    return system, variables, record(subject, episodes, SEED, most, lambda units, note="": None)


def played_again(system, episode):
    """(observations, frames, rewards) of the bare environment, given what ran."""
    first = run_seed(SEED, STREAM_EVALUATION_ENVS)
    env = make_vector(system.config.env, 1, training=False, render=True)
    observation, _ = env.reset(seed=first + episode.number)
    observations, frames, rewards = [observation[0].copy()], [encoded(env.render()[0])], []
    for moment in episode.moments:
        observation, reward, *_ = env.step(np.array([moment.lane[0].action]))
        observations.append(observation[0].copy())
        frames.append(encoded(env.render()[0]))
        rewards.append(float(reward[0]))
    env.close()
    return observations, frames, rewards


def check(system, variables, episode):
    """Check every field of every moment by its definition."""
    moments, config, agent = episode.moments, system.config, system.agent
    observations, frames, rewards = played_again(system, episode)
    assert list(episode.frames) == frames
    assert [m.reward for m in moments] == rewards
    assert episode.score == sum(rewards)
    decided = {m.time: m.action for m in moments}
    ran = [m.lane[0] for m in moments]
    before = set()
    for t, m in enumerate(moments):
        assert (m.time, m.score) == (t, sum(rewards[:t]))
        assert m.lane[-1] == (t, m.action)
        assert len(m.lane) == m.delay + 1 <= episode.longest + 1
        assert all(decided[sent.time] == sent.action for sent in m.lane if sent.time >= 0)
        assert m.repeated == (ran[t].time in before)
        before.add(ran[t].time)
        runs = [k for k, sent in enumerate(ran) if sent.time == t]
        assert m.met == (runs[0] if runs else None)
        assert m.target == (t + m.delay if agent.looks_ahead else m.seen)
        check_value(system, m, rewards, episode)
        if m.there is not None:
            decision = asked(system, variables, observations[: m.met + 1])
            assert m.there == int(decision.action[0])
    gone = [sent.time for m in moments for sent in m.dropped]
    assert len(gone) == len(set(gone))
    assert all(moments[time].met is None for time in gone)
    assert config.agent == episode.agent


def check_value(system, moment, rewards, episode):
    if moment.policy is None:
        assert (moment.foreseen, moment.realised) == (None, None)
        return
    assert sum(moment.policy) == pytest.approx(1, abs=1e-5)
    if moment.target >= len(rewards):
        assert moment.realised is None
    elif episode.ending == "ended":
        left = rewards[moment.target :]
        by_hand = sum(system.config.discount**k * reward for k, reward in enumerate(left))
        assert moment.realised == pytest.approx(by_hand)


def asked(system, variables, observations):
    """What the agent decides at the last of some observations, alone and with nothing pending."""
    stack = [observations[0]] * system.config.stack + observations[1:]
    stack = np.stack(stack[-system.config.stack :])[None]
    nothing = Queue(np.zeros((1, 0), np.int32), np.zeros((1, 0), bool))
    observed = Observed(stack, np.ones(1, bool), nothing)
    return _decide(system.agent)(variables, observed)


@functools.cache
def _decide(agent):
    def decide(variables, observed):
        state, key = agent.init_state(1), jax.random.key(0)
        return agent.decide(variables, state, observed, key, explore=False, progress=1.0)[1]

    return jax.jit(decide)


@pytest.mark.parametrize("rule", ["latest-generated", "fixed", "lag-index", "latest-arrival"])
def test_every_rule(rule, tmp_path):
    run = begun_run(tmp_path, agent="random", delay="uniform:0-4", rule=rule)
    system, variables, episodes = recorded(run, 2)
    assert len({len(episode.moments) for episode in episodes}) == 2, "seeds differ"
    for episode in episodes:
        check(system, variables, episode)
        assert episode.moments[0].there is None
    dropped = sum(len(m.dropped) for e in episodes for m in e.moments)
    assert (dropped > 0) == (rule != "fixed")


def test_dez(tmp_path):
    system, variables, (episode,) = recorded(begun_run(tmp_path, delay="walk:3"))
    check(system, variables, episode)
    assert sum(m.there is not None for m in episode.moments) > 3


@pytest.mark.slow
def test_episodes_are_those_of_an_evaluation(tmp_path):
    system, variables, episodes = recorded(begun_run(tmp_path, delay="walk:3"), 3)
    evaluator = Evaluator(system, 3)
    scores = [episode.score for episode in evaluator.play(variables, SEED)]
    evaluator.close()
    assert scores == [episode.score for episode in episodes]


LATE = {"delay": "walk:2", "observation_delay": "walk:3"}
SETTINGS = {
    "late observations": {"agent": "dez", **LATE},
    "late, other rules": {"agent": "dez", **LATE, "observation_rule": "latest-arrival"},
    "oblivious": {"agent": "oblivious", "delay": "walk:3"},
    "never told": {"agent": "oblivious-executed", "delay": "uniform:0-3", "reveal": "never"},
    "augmented": {"agent": "augmented", "delay": "walk:3"},
    "delayed-q": {"agent": "delayed-q", "delay": "walk:3"},
    "no delay": {"agent": "undelayed"},
    "images": {"agent": "dez", "delay": "walk:3", "presets": ("minatar", "debug"), "stack": 2},
}


@pytest.mark.slow
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_every_agent(settings, tmp_path):
    run = begun_run(tmp_path, **settings)
    system, variables, (episode,) = recorded(run, most=40)
    check(system, variables, episode)
    ages = {m.time - m.seen for m in episode.moments}
    assert (ages == {0}) == ("observation_delay" not in settings)
    assert all(m.told for m in episode.moments) == ("reveal" not in settings)
    sees_queue = settings["agent"] == "augmented"
    assert any(m.there is not None for m in episode.moments) == (not sees_queue)


def test_a_recording_that_stops_early(tmp_path):
    run = begun_run(tmp_path, agent="random", delay="walk:2")
    _, _, (whole,) = recorded(run)
    _, _, (part,) = recorded(run, most=5)
    assert (whole.ending, part.ending) == ("ended", "goes on")
    assert part.closing == "goes on after 5 steps"
    assert [m.action for m in part.moments] == [m.action for m in whole.moments[:5]]
    assert part.frames == whole.frames[:6]


@pytest.mark.slow
def test_what_follows_a_cut_is_valued(tmp_path):
    """Where a limit ends the episode, the value of its last state stands for the rest."""
    run = begun_run(tmp_path, delay="constant:1", final_max_steps=6)
    system, variables, (episode,) = recorded(run)
    assert episode.ending == "cut off"
    discount, last = system.config.discount, episode.moments[-2]
    observations, _, _ = played_again(system, episode)
    decision = asked(system, variables, observations)
    assert last.target == 5
    assert last.realised == pytest.approx(1 + discount * float(decision.search.value[0]), abs=1e-4)


class Blind(gym.Env):
    """Says that it renders, and returns nothing."""

    metadata = {"render_modes": ["rgb_array"]}
    observation_space = gym.spaces.Box(-1, 1, (4,), np.float32)
    action_space = gym.spaces.Discrete(2)
    action_names = ("near", "far")

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(4, np.float32), {}

    def step(self, action):
        return np.zeros(4, np.float32), 0.0, True, False, {}

    def render(self):
        return None


gym.register("delayzero-tests/Blind-v0", Blind, disable_env_checker=True, order_enforce=False)


def test_an_environment_that_renders_nothing(tmp_path):
    run = begun_run(tmp_path, agent="random", env="delayzero-tests/Blind-v0")
    with pytest.raises(gym.error.Error, match=r"render\(\) of the environment returned nothing"):
        recorded(run)
