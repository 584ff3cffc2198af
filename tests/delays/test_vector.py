"""The vector wrapper: N independent single wrappers, whatever resets when."""

import copy
import json
import pickle

import gymnasium as gym
import numpy as np
import pytest
from ale_py.vector_env import AtariVectorEnv
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from delayzero.delays import (
    RULES,
    Callback,
    DelayedExecution,
    DelayedExecutionVector,
    DelayError,
    Walk,
)

from .rollouts import assert_equal

N = 3
MODES = list(AutoresetMode)


def cartpoles(count=N, mode=AutoresetMode.NEXT_STEP, wrap=lambda env: env, env_id="CartPole-v1"):
    makers = [lambda: wrap(gym.make(env_id)) for _ in range(count)]
    return SyncVectorEnv(makers, autoreset_mode=mode)


def by_position(context):
    return int(3 * abs(float(context.observation[0])) * 20) % 4 + int(context.rng.integers(2))


class Singles:
    """The obvious version: N single wrapped environments, reset one by one."""

    def __init__(self, mode, law, env_id="CartPole-v1", wrap=lambda env: env, **kwargs):
        self.envs = [DelayedExecution(wrap(gym.make(env_id)), law, **kwargs) for _ in range(N)]
        self.mode, self.ended = mode, [False] * N

    def reset(self, seed):
        self.ended = [False] * N
        return [env.reset(seed=seed + i) for i, env in enumerate(self.envs)]

    def step(self, actions):
        """For each environment: observation, reward, ends, what ran, what is known, the finale."""
        results = []
        for i, env in enumerate(self.envs):
            if self.ended[i]:
                observation, known = env.reset()
                results.append((observation, 0.0, False, False, None, known, None))
                self.ended[i] = False
                continue
            observation, reward, terminated, truncated, info = env.step(actions[i])
            done, finale, known = terminated or truncated, None, info
            if done and self.mode == AutoresetMode.SAME_STEP:
                finale = (observation, info)
                observation, known = env.reset()
            elif done:
                self.ended[i] = True
            results.append((observation, reward, terminated, truncated, info, known, finale))
        return results


def two_keys(env):
    space = spaces.Dict({"all": env.observation_space, "near": spaces.Discrete(2)})
    return gym.wrappers.TransformObservation(
        env, lambda o: {"all": o, "near": np.int64(o[0] > 0)}, space
    )


def row(batch, i):
    if isinstance(batch, dict):
        return {key: row(value, i) for key, value in batch.items()}
    return batch[i]


def assert_known(info, i, expected):
    if "delay" not in expected:
        assert "delay" not in info
        return
    length = len(expected["pending"])
    assert info["delay"][i] == expected["delay"]
    assert info["pending_mask"][i].sum() == length
    assert info["pending_mask"][i, :length].all()
    for action, promised in zip(info["pending"][i], expected["pending"], strict=False):
        np.testing.assert_array_equal(action, promised)
    assert not info["pending"][i, length:].any()


LAWS = ["walk:4", "uniform:0-4", "5g", "per-episode:uniform:0-4", Callback(by_position, 5)]


CHOICES = {
    "plain": {},
    "pending": {"observe": "pending"},
    "after": {"reveal": "after", "observe": "delay"},
    "never": {"reveal": "never"},
    "initial": {"initial_actions": 1},
    **{rule: {"rule": rule} for rule in RULES[1:]},
}


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize("choice", CHOICES)
def test_vector_is_n_single_wrappers(mode, law, choice):
    kwargs = CHOICES[choice]
    vector = DelayedExecutionVector(cartpoles(mode=mode), law, **kwargs)
    singles = Singles(mode, law, **kwargs)
    observations, info = vector.reset(seed=5)
    for i, (observation, expected) in enumerate(singles.reset(seed=5)):
        assert_equal(row(observations, i), observation)
        assert_known(info, i, expected)
    rng = np.random.default_rng(0)
    endings = 0
    for _ in range(120):
        actions = rng.integers(0, 2, N)
        observations, rewards, terminated, truncated, info = vector.step(actions)
        assert vector.observation_space.contains(observations)
        for i, (observation, *outcome, ran, known, finale) in enumerate(singles.step(actions)):
            assert_equal(row(observations, i), observation)
            assert [rewards[i], terminated[i], truncated[i]] == outcome
            assert info["_executed_action"][i] == (ran is not None)
            for key in ("executed_action", "decision_time", "dropped", "repeated"):
                if ran is not None:
                    assert info[key][i] == ran[key]
            assert_known(info, i, known)
            if finale is not None:
                assert info["_final_obs"][i]
                assert_equal(info["final_obs"][i], finale[0])
                assert_known(info["final_info"], i, finale[1])
            endings += terminated[i]
    assert endings >= 6


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("law", ["uniform:0-4", Callback(lambda c: int(c.observation["near"]), 1)])
@pytest.mark.parametrize("observe", ["delay", "pending"])
def test_dict_observations_get_the_delay_beside_their_own_keys(mode, law, observe):
    vector = DelayedExecutionVector(cartpoles(mode=mode, wrap=two_keys), law, observe=observe)
    singles = Singles(mode, law, wrap=two_keys, observe=observe)
    keys = {"all", "near", "delay"} | ({"pending"} if observe == "pending" else set())
    assert set(vector.single_observation_space) == set(vector.observation_space) == keys
    assert singles.envs[0].observation_space == vector.single_observation_space
    vector.reset(seed=5)
    singles.reset(seed=5)
    rng = np.random.default_rng(0)
    finals = 0
    for _ in range(80):
        actions = rng.integers(0, 2, N)
        observations, *_, info = vector.step(actions)
        assert vector.observation_space.contains(observations)
        for i, (observation, *_, finale) in enumerate(singles.step(actions)):
            assert_equal(row(observations, i), observation)
            if finale is not None:
                assert vector.single_observation_space.contains(info["final_obs"][i])
                assert_equal(info["final_obs"][i], finale[0])
                finals += 1
    assert finals >= 6 or mode == AutoresetMode.NEXT_STEP


def test_keys_that_clash_are_refused():
    def clashing(env):
        space = spaces.Dict({"delay": env.observation_space})
        return gym.wrappers.TransformObservation(env, lambda o: {"delay": o}, space)

    with pytest.raises(DelayError, match=r"already have the key 'delay'.*TransformObservation"):
        DelayedExecutionVector(cartpoles(wrap=clashing), "walk:2", observe="delay")
    twice = DelayedExecution(gym.make("CartPole-v1"), "walk:2", observe="pending")
    with pytest.raises(DelayError, match="already have the key 'delay'"):
        DelayedExecution(twice, "walk:2", observe="pending")
    plain = DelayedExecutionVector(cartpoles(wrap=clashing), "walk:2")
    assert set(plain.observation_space) == {"delay"}


def test_continuous_actions():
    vector = DelayedExecutionVector(cartpoles(env_id="Pendulum-v1"), "walk:3", observe="pending")
    singles = Singles(AutoresetMode.NEXT_STEP, "walk:3", env_id="Pendulum-v1", observe="pending")
    vector.reset(seed=0)
    singles.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(450):  # two ends by time limit
        actions = rng.uniform(-2, 2, (N, 1)).astype(np.float32)
        observations, _, _, _, info = vector.step(actions)
        for i, (observation, *_, ran, known, _) in enumerate(singles.step(actions)):
            assert_equal(row(observations, i), observation)
            assert_known(info, i, known)
            if ran is not None:
                assert_equal(info["executed_action"][i], ran["executed_action"])


def test_disabled_autoreset_resets_by_mask():
    vector = DelayedExecutionVector(cartpoles(mode=AutoresetMode.DISABLED), "walk:4")
    singles = Singles(AutoresetMode.DISABLED, "walk:4")
    vector.reset(seed=2)
    singles.reset(seed=2)
    rng = np.random.default_rng(1)
    endings = 0
    for _ in range(100):
        actions = rng.integers(0, 2, N)
        _, _, terminated, truncated, info = vector.step(actions)
        results = singles.step(actions)
        for i, (*_, ran, known, _) in enumerate(results):
            assert_known(info, i, known)
            assert info["executed_action"][i] == ran["executed_action"]
        done = terminated | truncated
        if done.any():
            endings += done.sum()
            with pytest.raises(gym.error.ResetNeeded, match="reset_mask"):
                vector.step(actions)
            _, info = vector.reset(options={"reset_mask": done})
            for i in np.flatnonzero(done):
                assert_known(info, i, singles.envs[i].reset()[1])
                singles.ended[i] = False
    assert endings >= 6


def test_environments_have_independent_delays():
    vector = DelayedExecutionVector(cartpoles(8), "uniform:0-9")
    _, info = vector.reset(seed=0)
    delays = [info["delay"]]
    for _ in range(60):
        delays.append(vector.step(np.zeros(8, int))[-1]["delay"])
    correlation = np.corrcoef(np.array(delays).T)
    assert np.abs(correlation - np.eye(8)).max() < 0.6


def breakout(**kwargs):
    return AtariVectorEnv("breakout", num_envs=2, use_fire_reset=False, **kwargs)


def fire_and_run(step):
    """Actions that lose lives quickly: fire, then run to one side."""
    return np.full(2, 1 if step % 5 == 0 else 3)


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("life_loss_info", [True, False])
def test_queue_survives_a_life_loss_and_not_the_end_of_a_game(mode, life_loss_info):
    env = breakout(life_loss_info=life_loss_info, autoreset_mode=mode)
    vector = DelayedExecutionVector(env, "constant:3", life_loss_info=life_loss_info)
    _, info = vector.reset(seed=0)
    lives, time = info["lives"].copy(), np.zeros(2, int)
    lost = games = 0
    for step in range(900):
        _, _, terminated, _, info = vector.step(fire_and_run(step))
        for i in range(2):
            if info["_executed_action"][i]:
                assert info["decision_time"][i] == time[i] - 3
                time[i] += 1
            if info["lives"][i] > lives[i]:  # a new game
                assert not info["pending"][i].any()  # the initial queue again
                time[i], games = 0, games + 1
            elif info["lives"][i] < lives[i]:
                assert info["pending"][i].any()
                assert terminated[i] == (life_loss_info or info["lives"][i] == 0)
                lost += info["lives"][i] > 0
        lives = info["lives"].copy()
    assert lost >= 8
    assert games >= 2


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("life_loss_info", [True, False])
def test_a_state_written_as_json_continues_at_every_step(mode, life_loss_info):
    """At lost lives and at the ends of games too."""
    whole, resumed = (
        DelayedExecutionVector(
            breakout(life_loss_info=life_loss_info, autoreset_mode=mode),
            "walk:3",
            life_loss_info=life_loss_info,
        )
        for _ in range(2)
    )
    whole.reset(seed=0)
    resumed.reset(seed=0)
    ends = 0
    for step in range(900):
        state = resumed.delay_state()
        observations = state.pop("observations")
        written = json.loads(json.dumps(state, default=lambda value: value.tolist()))
        resumed.restore_delay_state({**written, "observations": observations})
        *_, terminated, truncated, info = whole.step(fire_and_run(step))
        *_, terminated_too, truncated_too, info_too = resumed.step(fire_and_run(step))
        np.testing.assert_array_equal(terminated, terminated_too)
        np.testing.assert_array_equal(truncated, truncated_too)
        for name in ("delay", "pending", "executed_action", "decision_time", "lives"):
            np.testing.assert_array_equal(info[name], info_too[name])
        ends += (terminated | truncated).sum()
    assert ends >= 4


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_lost_lives_reported_as_ends_are_noticed(mode):
    env = breakout(life_loss_info=True, autoreset_mode=mode)
    vector = DelayedExecutionVector(env, "constant:3")
    vector.reset(seed=0)

    def play():
        for step in range(900):
            vector.step(fire_and_run(step))

    with pytest.raises(DelayError, match="pass life_loss_info=True"):
        play()
    with pytest.raises(DelayError, match="play on after a lost life"):
        DelayedExecutionVector(cartpoles(), "constant:3", life_loss_info=True)
    vector = DelayedExecutionVector(
        gym.make_vec("CartPole-v1", N, vectorization_mode="vector_entry_point"),
        "constant:3",
        life_loss_info=True,
    )
    with pytest.raises(DelayError, match="report 'lives'"):
        vector.reset(seed=0)


def test_initial_queues_from_the_first_observations():
    seen = []

    def plan(observations):
        seen.append(observations)
        return (observations[:, :1] > 0).astype(int) * [1, 1]

    vector = DelayedExecutionVector(cartpoles(), "constant:2", initial_actions=plan)
    observations, info = vector.reset(seed=0)
    assert_equal(seen[0], observations)
    np.testing.assert_array_equal(info["pending"][:, 0], observations[:, 0] > 0)
    begun = 0
    for _ in range(60):
        observations, _, _, _, info = vector.step(np.ones(N, int))
        rows = np.flatnonzero(~info["_executed_action"])
        if len(rows):
            assert_equal(seen[-1], observations[rows])
            begun += len(rows)
    assert begun == sum(len(batch) for batch in seen[1:]) > 4


def test_initial_queues_set_by_the_agent():
    vector = DelayedExecutionVector(cartpoles(), "constant:2")
    observations, _ = vector.reset(seed=0)
    queues = np.array([[0, 1], [1, 0], [1, 1]])
    again, info = vector.set_initial_actions(queues)
    assert_equal(again, observations)
    np.testing.assert_array_equal(info["pending"], queues)
    _, info = vector.set_initial_actions([0, 0], mask=np.array([True, False, False]))
    np.testing.assert_array_equal(info["pending"], [[0, 0], [1, 0], [1, 1]])
    infos = [vector.step(np.zeros(N, int))[-1] for _ in range(2)]
    np.testing.assert_array_equal([i["executed_action"] for i in infos], [[0, 1, 1], [0, 0, 1]])
    with pytest.raises(DelayError, match="environment 0 can't be set at step 2"):
        vector.set_initial_actions(queues)


def test_initial_queues_set_after_an_autoreset():
    vector = DelayedExecutionVector(cartpoles(1), "constant:2")
    vector.reset(seed=0)
    done = False
    while not done:
        _, _, terminated, _, _ = vector.step(np.ones(1, int))
        done = terminated[0]
    with pytest.raises(DelayError, match="not in an episode"):
        vector.set_initial_actions([1, 0])
    vector.step(np.ones(1, int))  # the reset
    vector.set_initial_actions([1, 0], mask=np.array([True]))
    assert vector.step(np.zeros(1, int))[-1]["executed_action"] == [1]


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("law", ["walk:4", "uniform:0-4", Callback(by_position, 5)], ids=str)
def test_saved_in_mid_episode_it_continues_exactly(mode, law):
    vector = DelayedExecutionVector(cartpoles(mode=mode), law, observe="pending")
    vector.reset(seed=0)
    rng = np.random.default_rng(3)
    for _ in range(47):
        vector.step(rng.integers(0, 2, N))
    twin = DelayedExecutionVector(cartpoles(mode=mode), law, observe="pending")
    twin.env = copy.deepcopy(vector.env)
    twin.restore_delay_state(pickle.loads(pickle.dumps(vector.delay_state())))
    for _ in range(80):
        actions = rng.integers(0, 2, N)
        assert_equal(vector.step(actions), twin.step(actions))


def test_bad_input():
    vector = DelayedExecutionVector(cartpoles(), Walk(2))
    with pytest.raises(gym.error.ResetNeeded):
        vector.step(np.zeros(N, int))
    vector.reset(seed=0)
    with pytest.raises(gym.error.InvalidAction, match=r"action .*2.* of environment 1 is not in"):
        vector.step(np.array([0, 2, 1]))
    with pytest.raises(gym.error.InvalidAction, match="3 actions are needed"):
        vector.step(np.zeros(2, int))
    with pytest.raises(gym.error.InvalidAction):
        vector.step(np.array([0.5, 0.0, 1.0]))
    with pytest.raises(gym.error.InvalidAction, match="of environment 1 is not in"):
        vector.step([0, 2**70, 1])
    with pytest.raises(DelayError, match=r"initial actions of shape \(4,\)"):
        DelayedExecutionVector(cartpoles(), "constant:2", initial_actions=[0, 0, 0, 0])
    with pytest.raises(DelayError, match=r"initial action .*5.* is not in"):
        DelayedExecutionVector(cartpoles(), "constant:2", initial_actions=5)
    silent = cartpoles()
    silent.metadata = {}
    with pytest.raises(DelayError, match="does not declare when it resets"):
        DelayedExecutionVector(silent, "constant:2")
    assert vector.step([0, 1, 0])[-1]["delay"].shape == (N,)  # a list will do


def test_no_delay_is_the_bare_environment_bit_for_bit():
    bare = AtariVectorEnv("pong", num_envs=2, noop_max=5)
    wrapped = DelayedExecutionVector(AtariVectorEnv("pong", num_envs=2, noop_max=5), "constant:0")
    assert_equal(bare.reset(seed=1)[0], wrapped.reset(seed=1)[0])
    rng = np.random.default_rng(0)
    for _ in range(60):
        actions = rng.integers(0, 6, 2)
        assert_equal(bare.step(actions)[:4], wrapped.step(actions)[:4])


def test_short_games_and_true_resets_raise_no_alarm():
    for kwargs in ({"max_num_frames_per_episode": 20}, {"episodic_life": True}):
        vector = DelayedExecutionVector(breakout(noop_max=30, **kwargs), "constant:2")
        vector.reset(seed=0)
        ends = 0
        for step in range(300):
            _, _, terminated, truncated, _ = vector.step(fire_and_run(step))
            ends += (terminated | truncated).sum()
        assert ends > 3


def test_actions_come_in_any_type_of_their_kind():
    vector = DelayedExecutionVector(cartpoles(env_id="Pendulum-v1"), "constant:1")
    vector.reset(seed=0)
    vector.step(np.full((N, 1), 0.25))  # float64
    info = vector.step([[0.5]] * N)[-1]
    assert info["executed_action"].dtype == np.float32
    assert (info["executed_action"] == 0.25).all()
    for mask in ([0, 2, 1], [True]):
        with pytest.raises(DelayError, match="mask of 3 booleans"):
            vector.set_initial_actions(0.0, mask=np.array(mask))
    with pytest.raises(gym.error.InvalidAction, match="do not form an array"):
        vector.step([[0.5], [[0.1]], 0])
    with pytest.raises(DelayError, match="keep_pending is for single"):
        vector.reset(options={"keep_pending": True})


def test_singles_in_gymnasiums_own_vector_environment():
    envs = gym.make_vec(
        "CartPole-v1",
        N,
        vectorization_mode="sync",
        wrappers=[lambda env: DelayedExecution(env, "uniform:0-5")],
    )
    _, info = envs.reset(seed=0)
    for _ in range(30):
        assert [len(pending) for pending in info["pending"]] == info["delay"].tolist()
        info = envs.step(np.ones(N, int))[-1]


def test_state_of_another_delay_is_refused():
    state = DelayedExecutionVector(cartpoles(), "uniform:0-5").delay_state()
    with pytest.raises(DelayError, match="law 'uniform:0-5' can't be restored to 'walk:5'"):
        DelayedExecutionVector(cartpoles(), "walk:5").restore_delay_state(state)


@pytest.mark.parametrize("mode", MODES)
def test_nested_the_inner_delays_are_told_apart(mode):
    inside = cartpoles(mode=mode, wrap=lambda env: DelayedExecution(env, "constant:2"))
    vector = DelayedExecutionVector(inside, "constant:1")
    _, info = vector.reset(seed=0)
    for time in range(4):
        assert (info["delay"].tolist(), info["inner"]["delay"].tolist()) == ([1] * N, [2] * N)
        info = vector.step(np.ones(N, int))[-1]
        assert info["decision_time"].tolist() == [time - 1] * N
        assert info["inner"]["decision_time"].tolist() == [time - 2] * N
        assert info["inner"]["_decision_time"].all()
    for _ in range(20):
        if mode == AutoresetMode.SAME_STEP and "final_info" not in info:
            info = vector.step(np.ones(N, int))[-1]
    if mode == AutoresetMode.SAME_STEP:
        ended = info["_final_info"]
        assert (info["final_info"]["delay"][ended] == 1).all()
        assert (info["final_info"]["inner"]["delay"][ended] == 2).all()
