"""The wrapper of a single environment."""

import copy
import pickle
import threading

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from delayzero.delays import (
    RULES,
    Callback,
    DelayedExecution,
    DelayedObservation,
    DelayError,
    Walk,
)

from .rollouts import assert_equal, rollout


def cartpole_actions(count, seed=0):
    return np.random.default_rng(seed).integers(0, 2, count).tolist()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
def test_no_delay_is_the_bare_environment_bit_for_bit(env_id, rule):
    bare, wrapped = gym.make(env_id), gym.make(env_id)
    bare.action_space.seed(0)
    actions = [bare.action_space.sample() for _ in range(450)]
    expected = rollout(bare, actions, seed=3)
    got = rollout(DelayedExecution(wrapped, "constant:0", rule=rule), actions, seed=3)
    for one, other in zip(expected, got, strict=True):
        assert_equal(one[:-1], other[:-1])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("law", ["walk:5", "uniform:0-5", "wifi", "constant:3"])
def test_transitions_are_those_of_the_executed_actions(law, rule):
    env = DelayedExecution(gym.make("CartPole-v1"), law, rule=rule)
    fresh = gym.make("CartPole-v1")
    seed, ended, steps = 7, True, 0
    for action in cartpole_actions(300):
        if ended:
            observation, _ = env.reset(seed=seed)
            expected, _ = fresh.reset(seed=seed)
            assert_equal(observation, expected)
            seed += 1
        *transition, info = env.step(action)
        *replayed, _ = fresh.step(info["executed_action"])
        assert_equal(transition, replayed)
        ended = transition[2] or transition[3]
        steps += 1
    assert steps == 300


def test_pending_under_the_walk_is_what_runs():
    env = DelayedExecution(gym.make("CartPole-v1"), "walk:6", initial_actions=[0, 1, 1, 0, 0, 1])
    promises = []  # of each decision: the pending actions known at its time
    executed = []
    _, info = env.reset(seed=1)
    ended = False
    for action in cartpole_actions(60, seed=4):
        promises.append(info["pending"])
        *_, terminated, truncated, info = env.step(action)
        executed.append(info["executed_action"])
        ended = terminated or truncated
        if ended:
            break
    assert len(executed) > 12
    for time, promised in enumerate(promises):
        ran = executed[time : time + len(promised)]
        np.testing.assert_array_equal(promised[: len(ran)], ran)


def test_delay_goes_on_over_episodes_by_one_step_of_the_law():
    law = Walk(20, up=1.0, down=0.0, start=0)  # counts the steps of the law
    env = DelayedExecution(gym.make("CartPole-v1"), law)
    _, info = env.reset(seed=0)
    expected = 0
    for _ in range(18):
        assert info["delay"] == min(expected, 20)
        *_, terminated, truncated, info = env.step(1)
        expected += 1
        if terminated or truncated:
            final = info["delay"]
            _, info = env.reset()
            assert info["delay"] == final == expected
    assert expected == 18


def test_reset_with_a_seed_begins_the_delays_anew():
    env = DelayedExecution(gym.make("CartPole-v1"), "walk:9,up=0.5,down=0.5")
    paths = []
    for seed in (5, 5, 6):
        _, info = env.reset(seed=seed)
        path = [info["delay"]]
        for _ in range(8):
            path.append(env.step(0)[-1]["delay"])
        paths.append(path)
    assert paths[0] == paths[1]
    assert paths[0] != paths[2]
    assert {path[0] for path in paths} == {9}


def test_constructor_seed_fixes_the_delays():
    def path(seed):
        env = DelayedExecution(gym.make("CartPole-v1"), "uniform:0-9", seed=seed)
        return [env.reset()[1]["delay"] for _ in range(1)] + [
            env.step(0)[-1]["delay"] for _ in range(8)
        ]

    assert path(1) == path(1)
    assert path(1) != path(2)


def test_laws_that_restart_draw_anew_in_each_episode():
    env = DelayedExecution(gym.make("CartPole-v1"), "per-episode:uniform:0-50")
    _, info = env.reset(seed=0)
    delays = [info["delay"]]
    for _ in range(5):
        assert env.step(0)[-1]["delay"] == delays[-1]
        delays.append(env.reset()[1]["delay"])
    assert len(set(delays)) > 2


@pytest.mark.parametrize(
    ("initial", "queue"),
    [(1, [1, 1, 1]), ([1, 0, 1], [1, 0, 1]), (lambda observation: [0, 1, 1], [0, 1, 1])],
)
def test_initial_queue(initial, queue):
    env = DelayedExecution(gym.make("CartPole-v1"), "constant:3", initial_actions=initial)
    _, info = env.reset(seed=0)
    np.testing.assert_array_equal(info["pending"], queue)
    infos = [env.step(0)[-1] for _ in range(4)]
    assert [info["executed_action"] for info in infos] == [*queue, 0]
    assert [info["decision_time"] for info in infos] == [-3, -2, -1, 0]


def test_initial_queue_from_the_first_observation_and_from_the_agent():
    seen = []
    env = DelayedExecution(
        gym.make("CartPole-v1"), "constant:2", initial_actions=lambda o: seen.append(o) or [0, 0]
    )
    observation, _ = env.reset(seed=0)
    np.testing.assert_array_equal(seen[0], observation)
    again, info = env.set_initial_actions([1, 0])
    np.testing.assert_array_equal(again, observation)
    assert list(info["pending"]) == [1, 0]
    assert env.step(0)[-1]["executed_action"] == 1
    env.reset()
    assert env.step(1)[-1]["executed_action"] == 0  # of this episode only


def test_initial_queue_errors():
    cartpole = gym.make("CartPole-v1")
    with pytest.raises(DelayError, match=r"sequence of 2 actions.*M = 3"):
        DelayedExecution(cartpole, "constant:3", initial_actions=[0, 1])
    with pytest.raises(DelayError, match="initial action 1, 2, is not in Discrete"):
        DelayedExecution(cartpole, "constant:3", initial_actions=[0, 2, 0])
    env = DelayedExecution(cartpole, "constant:3")
    with pytest.raises(DelayError, match=r"call reset\(\) first"):
        env.set_initial_actions([0, 0, 0])
    env.reset(seed=0)
    env.step(0)
    with pytest.raises(DelayError, match=r"can't be set at step 1.*before the first step"):
        env.set_initial_actions([0, 0, 0])


def test_keep_pending_does_not_clear_the_queue():
    env = DelayedExecution(gym.make("CartPole-v1"), "constant:2")
    env.reset(seed=0)
    env.step(1)
    env.step(1)
    _, info = env.reset(options={"keep_pending": True})
    assert list(info["pending"]) == [1, 1]
    assert env.step(0)[-1]["decision_time"] == 0
    _, info = env.reset()
    assert list(info["pending"]) == [0, 0]


def test_queue_survives_a_life_loss_ended_by_a_wrapper_outside():
    class EpisodicLife(gym.Wrapper):
        """Ends an episode every third step without resetting the game."""

        steps, over = 0, True

        def reset(self, **kwargs):
            if self.over:
                return self.env.reset(**kwargs)
            *_, info = self.step(0)
            return np.zeros(4, np.float32), info

        def step(self, action):
            observation, reward, self.over, truncated, info = self.env.step(action)
            self.steps += 1
            return observation, reward, self.over or self.steps % 3 == 0, truncated, info

    env = EpisodicLife(DelayedExecution(gym.make("CartPole-v1"), "constant:2"))
    env.reset(seed=0)
    for _ in range(3):
        result = env.step(1)
    assert result[2]
    _, info = env.reset()
    assert list(info["pending"]) == [1, 0]  # the last decision and the step at the life loss


def test_reveal_after_shows_the_last_delay_and_the_whole_queue():
    law = Walk(3, up=0.0, down=1.0, start=3)  # 3, 2, 1, 0, 0, ...
    env = DelayedExecution(gym.make("CartPole-v1"), law, reveal="after", initial_actions=[0, 1, 0])
    _, info = env.reset(seed=0)
    assert info["delay"] == 3
    assert list(info["pending"]) == [0, 1, 0]
    info = env.step(1)[-1]  # z_0 = 3
    assert (info["delay"], list(info["pending"])) == (3, [1, 0, 1])
    info = env.step(1)[-1]  # z_1 = 2
    assert (info["delay"], list(info["pending"])) == (2, [0, 1, 1])


def test_reveal_never_hides_delay_and_queue():
    env = DelayedExecution(gym.make("CartPole-v1"), "walk:3", reveal="never")
    _, info = env.reset(seed=0)
    assert not {"delay", "pending"} & set(info)
    info = env.step(0)[-1]
    assert not {"delay", "pending"} & set(info)
    assert {"executed_action", "decision_time", "dropped", "repeated"} <= set(info)


def test_observed_queue():
    env = DelayedExecution(
        gym.make("CartPole-v1"),
        Walk(3, up=0.0, down=1.0, start=3),
        observe="pending",
        initial_actions=[0, 1, 1],
    )
    observation, info = env.reset(seed=0)
    assert env.observation_space.contains(observation)
    assert observation["delay"] == 1.0
    np.testing.assert_array_equal(observation["pending"], [[1, 0, 0], [0, 1, 0], [0, 1, 0]])
    observation, *_, info = env.step(0)
    assert info["delay"] == 2
    assert observation["delay"] == pytest.approx(2 / 3)
    np.testing.assert_array_equal(observation["pending"], [[0, 1, 0], [0, 1, 0], [0, 0, 1]])


@pytest.mark.parametrize(
    ("space", "action", "slot"),
    [
        (spaces.Discrete(3, start=5), 6, [0, 1, 0, 0]),
        (spaces.MultiDiscrete([2, 3]), [1, 2], [0, 1, 0, 0, 1, 0]),
        (spaces.MultiDiscrete([[2], [2]]), [[1], [0]], [0, 1, 1, 0, 0]),
        (spaces.MultiBinary(3), [1, 0, 1], [1, 0, 1, 0]),
        (spaces.Box(-2, 2, (2,)), [0.5, -1.5], [0.5, -1.5, 0]),
        (spaces.Box(1, 2, (1, 2)), [[1.5, 2.0]], [1.5, 2.0, 0]),
    ],
)
def test_observed_queue_of_every_action_space(space, action, slot):
    class Still(gym.Env):
        action_space = space
        observation_space = spaces.Discrete(1)

        def reset(self, *, seed=None, options=None):
            return 0, {}

        def step(self, action):
            assert space.contains(action)
            return 0, 0.0, False, False, {}

    decided = np.array(action, space.dtype) if space.shape else action
    env = DelayedExecution(Still(), Walk(2, up=0.0, down=1.0), observe="pending")
    observation, _ = env.reset()
    assert env.observation_space.contains(observation)
    observation, *_ = env.step(decided)  # then z = 1: one slot is pending, one empty
    assert env.observation_space.contains(observation)
    assert observation["pending"][1].tolist() == [0] * (len(slot) - 1) + [1]
    env = DelayedExecution(Still(), "constant:2", observe="pending")
    env.reset()
    observation, *_ = env.step(decided)
    np.testing.assert_allclose(observation["pending"][1], slot)


def test_composite_actions_pass_through():
    space = spaces.Dict({"go": spaces.Discrete(2), "aim": spaces.Box(-1, 1, (2,))})

    class Still(gym.Env):
        action_space = space
        observation_space = spaces.Discrete(1)

        def reset(self, *, seed=None, options=None):
            return 0, {}

        def step(self, action):
            self.ran = action
            return 0, 0.0, False, False, {}

    first = {"go": 1, "aim": np.zeros(2, np.float32)}
    with pytest.raises(DelayError, match="no default action for Dict"):
        DelayedExecution(Still(), "constant:1")
    env = DelayedExecution(Still(), "constant:1", initial_actions=first)
    _, info = env.reset()
    assert_equal(info["pending"], (first,))
    second = {"go": 0, "aim": np.ones(2, np.float32)}
    env.step(second)
    assert_equal(env.unwrapped.ran, first)
    second["aim"][:] = -1  # the caller reuses its buffer
    env.step(first)
    np.testing.assert_array_equal(env.unwrapped.ran["aim"], [1, 1])


def test_bad_arguments():
    cartpole = gym.make("CartPole-v1")
    with pytest.raises(DelayError, match=r"reveal='befor'.*did you mean 'before'"):
        DelayedExecution(cartpole, "walk:3", reveal="befor")
    with pytest.raises(DelayError, match=r"observe='delays'.*did you mean 'delay'"):
        DelayedExecution(cartpole, "walk:3", observe="delays")
    with pytest.raises(DelayError, match=r"unknown rule 'latest-arival'.*'latest-arrival'"):
        DelayedExecution(cartpole, "walk:3", rule="latest-arival")
    with pytest.raises(DelayError, match="reveal='never' hides it"):
        DelayedExecution(cartpole, "walk:3", reveal="never", observe="delay")
    with pytest.raises(DelayError, match="can give 3 steps, more than max_delay=2"):
        DelayedExecution(cartpole, "walk:3", max_delay=2)
    with pytest.raises(DelayError, match="depends on the decision"):
        DelayedExecution(cartpole, Callback(lambda context: 0, 3, sees="decision"))
    with pytest.raises(DelayError, match="in milliseconds"):
        DelayedExecution(cartpole, "exponential:mean=3")
    env = DelayedExecution(cartpole, "exponential:mean=3@20ms", max_delay=4)
    with pytest.raises(gym.error.ResetNeeded):
        env.step(0)
    env.reset(seed=0)
    for action in (2, -1, 0.5, "left", 2**63, 2**70, -(2**70), np.uint64(2**64 - 1)):
        with pytest.raises(gym.error.InvalidAction, match="is not in Discrete"):
            env.step(action)


def test_larger_queue_than_the_law_needs():
    env = DelayedExecution(gym.make("CartPole-v1"), "constant:2", max_delay=6, observe="pending")
    observation, info = env.reset(seed=0)
    assert observation["pending"].shape == (6, 3)
    assert info["delay"] == 2
    assert observation["pending"][:, -1].tolist() == [0, 0, 1, 1, 1, 1]


def test_callbacks_see_observation_and_action():
    seen = []

    def by_position(context):
        seen.append((context.observation, context.action))
        return 2 if context.action is None else int(context.rng.integers(3))

    env = DelayedExecution(gym.make("CartPole-v1"), Callback(by_position, 2))
    first, info = env.reset(seed=0)
    assert info["delay"] == 2
    np.testing.assert_array_equal(seen[0][0], first)
    delays = []
    for _ in range(8):
        observation, *_, info = env.step(1)
        np.testing.assert_array_equal(seen[-1][0], observation)
        assert seen[-1][1] == 1
        delays.append(info["delay"])
    assert len(set(delays)) > 1
    env.reset(seed=0)
    assert [env.step(1)[-1]["delay"] for _ in range(8)] == delays


def test_delay_that_depends_on_the_decision():
    law = Callback(lambda context: 2 * context.action, 2, sees="decision")  # action 1 is slow
    env = DelayedExecution(gym.make("CartPole-v1"), law, reveal="after")
    env.reset(seed=0)
    infos = [env.step(action)[-1] for action in (0, 1, 0, 0)]
    assert [info["delay"] for info in infos] == [0, 2, 0, 0]
    assert [info["decision_time"] for info in infos] == [0, 0, 2, 3]
    assert infos[-1]["dropped"] == 1


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("law", ["walk:4", "uniform:0-4", "4g", "per-episode:uniform:0-4"])
@pytest.mark.parametrize("way", ["state", "pickle", "deepcopy"])
def test_saved_in_mid_episode_it_continues_exactly(law, rule, way):
    def make():
        return DelayedExecution(gym.make("CartPole-v1"), law, rule=rule, observe="pending")

    env = make()
    actions = cartpole_actions(400, seed=2)
    rollout(env, actions[:307], seed=11)
    if way == "state":
        twin = make()
        twin.env = copy.deepcopy(env.env)
        twin.restore_delay_state(pickle.loads(pickle.dumps(env.delay_state())))
    else:
        twin = copy.deepcopy(env) if way == "deepcopy" else pickle.loads(pickle.dumps(env))
    for action in actions[307:]:
        left, right = env.step(action), twin.step(action)
        assert_equal(left, right)
        if left[2] or left[3]:
            assert_equal(env.reset(), twin.reset())


def test_spec_makes_the_same_wrapper_again():
    env = DelayedExecution(gym.make("CartPole-v1"), "constant:1+4g@10ms", observe="delay", seed=3)
    spec = gym.envs.registration.EnvSpec.from_json(env.spec.to_json())
    again = gym.make(spec)
    assert isinstance(again, DelayedExecution)
    assert again.law == env.law
    actions = cartpole_actions(30)
    for left, right in zip(
        rollout(env, actions, seed=1), rollout(again, actions, seed=1), strict=True
    ):
        assert_equal(left, right)


def test_wrappers_of_a_stack_draw_different_delays():
    env = DelayedExecution(
        DelayedObservation(DelayedExecution(gym.make("CartPole-v1"), "uniform:0-9"), "uniform:0-9"),
        "uniform:0-9",
    )
    inner = env.env.env
    paths = []
    for seed in range(40):
        _, info = env.reset(seed=seed)
        paths.append((info["delay"], inner._channel.delay, env.env._inbox.channel.last_delay))
    correlation = np.corrcoef(np.array(paths).T)
    assert np.abs(correlation - np.eye(3)).max() < 0.6


def test_environment_may_change_the_action_that_it_gets():
    class Doubles(gym.Wrapper):
        def step(self, action):
            action *= 2
            return self.env.step(action)

    env = DelayedExecution(Doubles(gym.make("Pendulum-v1")), Walk(5, up=1.0, down=0.0, start=0))
    env.reset(seed=0)
    executed = [env.step(np.array([0.1]))[-1]["executed_action"] for _ in range(6)]
    np.testing.assert_allclose(executed, np.full((6, 1), 0.1), rtol=1e-6)


def test_an_agents_method_may_plan_the_queue():
    class Agent:
        def __init__(self):
            self.lock = threading.Lock()

        def plan(self, observation):
            return [1, 0]

    env = DelayedExecution(gym.make("CartPole-v1"), "constant:2", initial_actions=Agent().plan)
    assert env.reset(seed=0)[1]["pending"] == (1, 0)


@pytest.mark.parametrize("action", [1, np.int8(1), np.array(1), True])
def test_executed_action_has_the_type_of_the_space(action):
    env = DelayedExecution(gym.make("CartPole-v1"), "constant:0")
    env.reset(seed=0)
    assert type(env.step(action)[-1]["executed_action"]) is np.int64


def test_keep_pending_with_a_seed_draws_anew():
    env = DelayedExecution(gym.make("CartPole-v1"), "walk:2")
    env.reset(seed=0)
    env.step(1)
    _, info = env.reset(seed=1, options={"keep_pending": True})
    assert info["delay"] == 2
    assert info["pending"] == (0, 1)


def test_what_is_no_law_is_refused():
    for law in (5, None, Walk):
        with pytest.raises(DelayError, match="a delay law or its text"):
            DelayedExecution(gym.make("CartPole-v1"), law)
    with pytest.raises(DelayError, match="seed should be a whole number"):
        DelayedExecution(gym.make("CartPole-v1"), "walk:5", seed="a")


def test_nested_each_wrapper_tells_of_its_own_part_of_the_way():
    ran = []

    class Keeps(gym.Wrapper):
        def step(self, action):
            ran.append(action)
            return self.env.step(action)

    env = Keeps(gym.make("CartPole-v1"))
    for law in ("constant:1", "constant:1", "constant:2"):
        env = DelayedExecution(env, law)
    _, info = env.reset(seed=0)
    assert info["inner"]["inner"] == {"delay": 1, "pending": (0,)}
    for time, action in enumerate((1, 0, 0, 1, 1, 0)):
        coming = info["inner"]["inner"]["pending"]
        *_, info = env.step(action)
        parts = [info, info["inner"], info["inner"]["inner"]]
        assert [part["delay"] for part in parts] == [2, 1, 1]
        assert [part["decision_time"] for part in parts] == [time - 2, time - 1, time - 1]
        assert parts[-1]["executed_action"] == ran[-1] == coming[0]
        assert "inner" not in parts[-1]
    assert ran == [0, 0, 0, 0, 1, 0]
    assert info["executed_action"] == 1
