import gymnasium as gym
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delayzero.delays import RULES, Callback, DelayedExecution

from .simulator import Simulator


class Recorder(gym.Env):
    """Accepts any of 1000 actions and remembers those that ran."""

    action_space = gym.spaces.Discrete(1000)
    observation_space = gym.spaces.Discrete(1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.ran = []
        return 0, {}

    def step(self, action):
        self.ran.append(int(action))
        return 0, 0.0, False, False, {}


def scripted(delays, max_delay):
    """A law that gives the delays of a list, one after the other, and then M."""
    remaining = iter(delays)
    return Callback(lambda context: next(remaining, max_delay), max_delay)


def action_of(decided, max_delay):
    """Every decision has an action of its own: the initial queue 0 .. M - 1, then M, M + 1, ..."""
    return decided + max_delay


@st.composite
def scripts(draw):
    max_delay = draw(st.integers(0, 8))
    return max_delay, draw(st.lists(st.integers(0, max_delay), min_size=1, max_size=50))


@pytest.mark.parametrize("rule", RULES)
@given(script=scripts())
@settings(max_examples=60)
def test_action_that_runs_is_the_one_decided_then(rule, script):
    max_delay, delays = script
    simulator = Simulator(rule, max_delay)
    env = DelayedExecution(
        Recorder(),
        scripted(delays, max_delay),
        rule=rule,
        initial_actions=list(range(max_delay)) or None,
    )
    _, info = env.reset(seed=0)
    for time, delay in enumerate(delays):
        known = max_delay if rule == "fixed" else delay
        assert info["delay"] == known
        pending = [action_of(decided, max_delay) for decided in simulator.pending(known)]
        assert list(info["pending"]) == pending
        *_, info = env.step(action_of(time, max_delay))
        decided = simulator.push(known)
        assert info["decision_time"] == decided
        assert info["executed_action"] == action_of(decided, max_delay)
        assert env.unwrapped.ran[-1] == action_of(decided, max_delay)


def test_late_packet_that_is_held_keeps_its_action():
    env = DelayedExecution(
        Recorder(),
        scripted([0, 0, 0, 2, 1], 4),
        rule="latest-arrival",
        initial_actions=[901, 902, 903, 904],
    )
    env.reset(seed=0)
    for action in range(6):
        env.step(action)
    # The last of the initial queue lands at 3; nothing else lands before 5.
    assert env.unwrapped.ran == [0, 1, 2, 904, 904, 4]
