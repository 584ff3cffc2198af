"""Delayed-Q decides for the state that its action will meet."""

import functools
import itertools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from delayzero.actions import ActionSpec
from delayzero.agents import Decision, DelayedQAgent, Foreseen, Observed, RandomAgent
from delayzero.agents.acting import _moved_on
from delayzero.agents.delayed_q import epsilon
from delayzero.delays import DelayedExecutionVector
from delayzero.envs.atari import Atari
from delayzero.envs.foresight import ForeseeingAtari
from delayzero.model import AtariQModel
from delayzero.planning import SearchResult
from delayzero.playing import Delayed, Player
from delayzero.settings import QConfig
from delayzero.spaces import Spaces

from ..made import full_queue, no_queue, queue_of

ACTIONS, NOTHING = 4, 4
SPEC = ActionSpec(ACTIONS)
CONFIG = QConfig(epsilon_start=0.8, epsilon_end=0.2, epsilon_share=0.5)


@dataclass(frozen=True)
class Counter:
    """A perfect model: the state counts actions in base 4, and the best one is its last digit."""

    actions: ActionSpec = SPEC

    def bind(self, variables):
        return self

    def step(self, stack, action):
        newest = (stack[:, -1] * 3 + action[:, None] + 1) % 97
        return jnp.concatenate([stack[:, 1:], newest[:, None]], axis=1)

    def values(self, stack):
        wanted = (stack[:, -1, 0] + 2 * stack[:, 0, 0]) % ACTIONS
        return -jnp.abs(jnp.arange(ACTIONS) - wanted[:, None]).astype(jnp.float32)


AGENT = DelayedQAgent(Counter(), CONFIG)


@functools.partial(jax.jit, static_argnames="explore")
def decide(stack, queue, explore=False, progress=0.0):
    key = jax.random.key(0)
    observed = Observed(stack, jnp.zeros(len(stack), bool), queue)
    _, decision = AGENT.decide(None, (), observed, key, explore=explore, progress=progress)
    return decision.action


advance = jax.jit(Counter().step)


def test_under_a_constant_delay_it_decides_what_the_undelayed_one_decides_then():
    rng = np.random.default_rng(0)
    stack = rng.integers(0, 97, (6, 2, 1))
    queue = rng.integers(0, ACTIONS, (6, 5))
    empty = no_queue(6)
    for _ in range(30):
        later = stack
        for action in queue.T:
            later = advance(later, action)
        decided = decide(stack, full_queue(queue))
        np.testing.assert_array_equal(decided, decide(later, empty))
        stack = advance(stack, queue[:, 0])
        queue = np.concatenate([queue[:, 1:], decided[:, None]], axis=1)


def test_each_environment_is_rolled_through_its_own_queue_alone():
    rng = np.random.default_rng(1)
    stack = rng.integers(0, 97, (6, 2, 1))
    queue = rng.integers(0, ACTIONS, (6, 5))
    lengths = [0, 5, 3, 1, 4, 2]
    for row, length in zip(queue, lengths, strict=True):
        row[length:] = NOTHING
    decided = decide(stack, queue_of(queue, NOTHING))
    for i, length in enumerate(lengths):
        alone = decide(stack[i : i + 1], full_queue(queue[i : i + 1, :length]))
        assert decided[i] == alone[0]


def test_epsilon_falls_and_then_stays():
    shares = [float(epsilon(CONFIG, progress)) for progress in (0, 0.25, 0.5, 1, 2)]
    np.testing.assert_allclose(shares, [0.8, 0.5, 0.2, 0.2, 0.2], rtol=1e-6)


@pytest.mark.parametrize(("progress", "share"), [(0.0, 0.8), (1.0, 0.2)])
def test_a_share_of_the_decisions_is_random(progress, share):
    stack = np.full((4000, 2, 1), 5)
    queue = no_queue(4000)
    best = decide(stack, queue)[0]
    decided = decide(stack, queue, explore=True, progress=progress)
    assert abs(np.mean(decided != best) - share * (ACTIONS - 1) / ACTIONS) < 0.03
    assert set(decided.tolist()) == set(range(ACTIONS))


def test_the_first_queue_is_what_it_would_decide_step_by_step():
    stack = np.random.default_rng(2).integers(0, 97, (6, 2, 1))
    key = jax.random.key(0)
    planned = np.asarray(AGENT.first_queue(None, jnp.asarray(stack), key, 5, explore=False))
    for k in range(5):
        decided = decide(stack, no_queue(6))
        np.testing.assert_array_equal(planned[:, k], decided)
        stack = advance(stack, decided)
    noisy = np.asarray(AGENT.first_queue(None, jnp.asarray(stack), key, 5, explore=True))
    assert noisy.shape == (6, 5)


def test_frames_to_come_move_the_stack_on():
    stack = np.arange(3 * 4).reshape(3, 4)
    frames = 100 + stack
    count = np.array([0, 2, 4])
    moved = _moved_on(jnp.asarray(stack), Foreseen(jnp.asarray(frames), jnp.asarray(count)))
    for i, new in enumerate(count):
        wanted = [*stack[i], *frames[i, 4 - new :]][-4:]
        np.testing.assert_array_equal(moved[i], wanted)


@dataclass(frozen=True)
class Witness(RandomAgent):
    """Decides at random, and tells what it saw by a sum over it."""

    foresees: bool = True

    def decide(self, variables, state, observed, key, *, explore, progress):
        assert observed.queue.width == 0
        told = self.told(observed.stack)
        action = jax.random.randint(key, told.shape, 0, self.actions.count)
        return state, Decision(action, SearchResult(action, told, told, told, told))

    def told(self, stack):
        weights = jax.random.normal(jax.random.key(0), stack.shape[1:])
        return jnp.sum(stack.astype(jnp.float32) * weights, axis=(1, 2, 3, 4))


def test_with_an_emulator_it_sees_what_its_action_will_meet():
    delay, steps, stack = 3, 60, 2
    env = DelayedExecutionVector(
        ForeseeingAtari(Atari("Breakout", 2, max_steps=25)), f"constant:{delay}"
    )
    spaces = Spaces.of(env)
    agent = Witness(spaces.actions)
    settings = {"stack": stack, "spaces": spaces, "explore": True}
    player = Player(agent, Delayed(env), jax.random.key(1), **settings)
    player.begin(seed=5)
    played = [player.step(None)[0] for _ in range(steps)]
    env.close()
    compared = 0
    for now in range(steps - delay):
        meets = now + delay
        for i in range(2):
            if any(s.final[i] or s.first[i] for s in played[now + 1 : meets + 1]):
                continue
            frames = [played[meets - 1].observation[i], played[meets].observation[i]]
            wanted = agent.told(jnp.asarray(np.stack(frames))[None])[0]
            if played[now].final[i]:
                continue
            np.testing.assert_allclose(played[now].search.value[i], wanted, rtol=1e-5)
            compared += 1
    assert compared > 60


@dataclass(frozen=True)
class Reader(RandomAgent):
    """Decides by what it sees: a number that all of it makes up."""

    foresees: bool = True

    def decide(self, variables, state, observed, key, *, explore, progress):
        return state, Decision(self.choose(observed.stack))

    def first_queue(self, variables, stack, key, length, *, explore):
        assert length == 1
        return self.choose(stack)[:, None]

    def choose(self, stack):
        weights = jax.random.randint(jax.random.key(0), stack.shape[1:], 0, 97)
        return jnp.sum(stack.astype(jnp.int32) * weights, axis=(1, 2, 3, 4)) % self.actions.count


@pytest.mark.slow
def test_with_an_emulator_every_action_is_chosen_for_where_it_runs():
    env = DelayedExecutionVector(
        ForeseeingAtari(Atari("RoadRunner", 2, max_steps=1000)), "constant:4"
    )
    spaces = Spaces.of(env)
    agent = Reader(spaces.actions)
    settings = {"stack": 2, "spaces": spaces, "explore": True}
    player = Player(agent, Delayed(env), jax.random.key(1), **settings)
    player.begin(seed=5)
    played = [player.step(None)[0] for _ in range(300)]
    env.close()
    assert any(s.first.any() and not s.first.all() for s in played), "they begin apart"
    choose = jax.jit(agent.choose)
    queued, later = set(), set()
    for before, now in itertools.pairwise([played[0], *played]):
        older = np.where(now.first[:, None, None, None], now.observation, before.observation)
        wanted = np.asarray(choose(np.stack([older, now.observation], axis=1)))
        runs = ~now.final
        np.testing.assert_array_equal(now.executed[runs], wanted[runs])
        queued |= set(now.executed[runs & (now.decision_time < 0)].tolist())
        later |= set(now.executed[runs & (now.decision_time >= 0)].tolist())
    assert min(len(queued), len(later)) > 1


def test_pixels_take_no_roll_and_one_action_of_a_first_queue():
    model = AtariQModel(ActionSpec(ACTIONS))
    agent = DelayedQAgent(model, CONFIG)
    stack = jnp.zeros((2, 4, 36, 36, 3), jnp.uint8)
    variables = jax.jit(model.init, static_argnames="method")(
        jax.random.key(0), stack, jnp.zeros(2, jnp.int32), method="everything"
    )
    values = jax.jit(lambda stack: model.bind(variables).values(stack))(stack)
    assert values.shape == (2, ACTIONS)
    queues = agent.first_queue(variables, stack, jax.random.key(1), 1, explore=False)
    np.testing.assert_array_equal(queues, np.argmax(values, axis=1)[:, None])
    observed = Observed(stack, jnp.zeros(2, bool), no_queue(2))
    decide = jax.jit(functools.partial(agent.decide, explore=False, progress=0.0))
    _, decision = decide(variables, (), observed, jax.random.key(2))
    np.testing.assert_array_equal(decision.action, np.argmax(values, axis=1))
