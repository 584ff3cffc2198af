"""One contract for every kind of environment, and what each kind has of its own."""

import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from delayzero.delays.vector import DelayedExecutionVector
from delayzero.envs.make import UnsupportedEnvironment, check_supported, id_of_function, make_vector
from delayzero.extras import MissingExtraError

KINDS = {
    "CartPole-v1": ((4,), np.float32, 2),
    "delayzero/Identity-v0": ((4,), np.float32, 4),
    "minatar:breakout": ((10, 10, 4), np.float32, 3),
    "minatar:SpaceInvaders": ((10, 10, 6), np.float32, 4),
    "atari:breakout": ((96, 96, 3), np.uint8, 4),
}
ACTIONS = {
    "Alien": 18,
    "Amidar": 10,
    "Assault": 7,
    "Asterix": 9,
    "BankHeist": 18,
    "Boxing": 18,
    "Breakout": 4,
    "Gopher": 8,
    "Hero": 18,
    "MsPacman": 9,
    "NameThisGame": 6,
    "Pong": 6,
    "Qbert": 6,
    "RoadRunner": 18,
    "StarGunner": 18,
    "TimePilot": 10,
    "WizardOfWor": 10,
}


def play(envs, steps, seed=0):
    """Random play: observations ``[T + 1, N, ...]``, then rewards, ends and infos of T steps."""
    rng = np.random.default_rng(seed)
    observations, _ = envs.reset(seed=seed)
    outcomes = [envs.step(rng.integers(envs.single_action_space.n, size=envs.num_envs))
                for _ in range(steps)]  # fmt: skip
    seen, rewards, terminated, truncated, infos = zip(*outcomes, strict=True)
    observations = np.array([observations, *seen])
    return observations, np.array(rewards), np.array(terminated), np.array(truncated), infos


@pytest.mark.parametrize("env_id", KINDS)
def test_contract(env_id):
    shape, dtype, actions = KINDS[env_id]
    envs = make_vector(env_id, 2, training=True)
    check_supported(envs)
    assert envs.num_envs == 2
    assert envs.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP
    assert envs.single_observation_space.shape == shape
    assert envs.observation_space.shape == (2, *shape)
    assert envs.single_action_space == spaces.Discrete(actions)
    played = play(envs, 40)
    observations, rewards, terminated, truncated, _ = played
    assert envs.observation_space.contains(observations[0])
    assert observations.shape == (41, 2, *shape)
    assert observations.dtype == dtype
    assert (rewards.dtype, terminated.dtype, truncated.dtype) == (np.float64, bool, bool)
    for array in (rewards, terminated, truncated):
        assert array.shape == (40, 2)
    assert (observations[:, 0] != observations[:, 1]).any(), "the environments are the same"
    for first, second in zip(played[:4], play(envs, 40)[:4], strict=True):
        np.testing.assert_array_equal(first, second)
    assert (play(envs, 40, seed=7)[0] != observations).any()
    envs.close()


@pytest.mark.parametrize("env_id", ["CartPole-v1", "minatar:freeway", "atari:Pong"])
def test_time_limits_truncate_and_the_next_step_resets(env_id):
    envs = make_vector(env_id, 2, training=True, max_steps=5)
    observations, rewards, terminated, truncated, _ = play(envs, 13)
    assert not terminated.any()
    ends = np.zeros((13, 2), bool)
    ends[[4, 10]] = True  # step 5, and, after the reset in step 6, step 11
    np.testing.assert_array_equal(truncated, ends)
    assert not rewards[5].any()
    if env_id == "CartPole-v1":
        assert (np.abs(observations[[0, 6]]) <= 0.05).all()
        assert (rewards[[4, 6]] == 1).all()
        assert (observations[6] != observations[0]).any()


@pytest.mark.parametrize("env_id", ["delayzero/Identity-v0", "minatar:breakout", "atari:Breakout"])
def test_the_step_after_an_end_resets(env_id):
    envs = make_vector(env_id, 2, training=True)
    steps = {"atari:Breakout": 400}.get(env_id, 60)
    observations, rewards, terminated, truncated, infos = play(envs, steps)
    times, rows = np.nonzero(terminated[:-1])
    assert len(times)
    assert not truncated.any()
    assert not rewards[times + 1, rows].any()
    assert not terminated[times + 1, rows].any()
    if env_id == "minatar:breakout":
        assert (observations[times + 2, rows, ..., 3].sum((1, 2)) == 30).all()  # all bricks
    if env_id == "atari:Breakout":
        check_lives(terminated, infos)


def check_lives(terminated, infos):
    lives = np.array([info["lives"] for info in infos])
    lost = np.array([info["life_lost"] for info in infos])
    assert lost.dtype == bool
    assert lost.shape == terminated.shape
    np.testing.assert_array_equal(lost[1:], (lives[1:] < lives[:-1]) & ~terminated[1:])
    for row in range(lost.shape[1]):
        first = terminated[:, row].argmax()
        assert lost[: first + 1, row].sum() == 4  # the fifth life is the game's end
        assert lives[first + 1, row] == 5
        assert not lost[first + 1, row]


@pytest.mark.parametrize("game", ACTIONS)
def test_atari_games_have_their_minimal_actions(game):
    envs = make_vector(f"atari:{game}", 1, training=True)
    assert envs.single_action_space.n == ACTIONS[game]


def test_atari_rewards_are_raw_and_a_step_is_four_frames():
    envs = make_vector("atari:ms_pacman", 2, training=False)
    _, info = envs.reset(seed=0)
    assert not info["life_lost"].any()
    total = np.zeros(2)
    for _ in range(120):
        _, rewards, _, _, after = envs.step(np.array([1, 2]))
        assert rewards.dtype == np.float64
        total += rewards
    assert total.max() >= 20  # pills are 10 each: not clipped
    np.testing.assert_array_equal(after["frame_number"] - info["frame_number"], 480)


def test_a_bonus_life_that_a_reset_takes_is_not_lost(monkeypatch):
    envs = make_vector("atari:pong", 2, training=True)
    lives = [[5, 5], [6, 5], [6, 4], [5, 0], [4, 0]]
    ends = [[0, 0], [1, 0], [0, 0], [0, 1]]  # the first is reset in the third step
    frames = np.zeros((2, 1, 96, 96, 3), np.uint8)
    infos = iter({"lives": np.array(row)} for row in lives)
    monkeypatch.setattr(envs.env, "reset", lambda **_: (frames, next(infos)))
    terminated = iter(np.array(ends, bool))
    monkeypatch.setattr(
        envs.env,
        "step",
        lambda _: (frames, np.zeros(2, int), next(terminated), np.zeros(2, bool), next(infos)),
    )
    envs.reset()
    lost = [envs.step(np.zeros(2, int))[4]["life_lost"].tolist() for _ in ends]
    assert lost == [[False, False], [False, True], [False, False], [True, False]]


def test_atari_seeds_and_actions_are_checked():
    envs = make_vector("atari:pong", 2, training=True)
    one, _ = envs.reset(seed=3)
    several, _ = envs.reset(seed=[3, 4])
    np.testing.assert_array_equal(one, several)
    with pytest.raises(gym.error.Error, match="seeds are from 0 to 2147483647"):
        envs.reset(seed=2**31 - 1)
    with pytest.raises(gym.error.InvalidAction, match="99"):
        envs.step(np.array([0, 99]))


def test_delays_go_around_atari():
    envs = DelayedExecutionVector(make_vector("atari:pong", 2, training=True), "constant:3")
    envs.reset(seed=0)
    info = envs.step(np.array([1, 1]))[4]
    assert info["life_lost"].shape == (2,)
    assert (info["delay"] == 3).all()


@pytest.mark.parametrize(
    ("env_id", "message"),
    [
        ("atari:Brakout", "unknown Atari game 'Brakout'; did you mean 'atari:Breakout'"),
        ("atari:MissPacman", "did you mean 'atari:MsPacman'"),
        ("atari:xyzzy!", "choose from Adventure, AirRaid"),
        ("minatar:brekout", "unknown MinAtar game 'brekout'; did you mean 'minatar:breakout'"),
        ("minatar:qqqq", "choose from asterix"),
        (
            "CartPol-v1",
            "'CartPol-v1'; did you mean 'CartPole-v1'.*'atari:<Game>'.*'minatar:<game>'",
        ),
        ("breakout", "did you mean 'minatar:breakout'.*'atari:<Game>'"),
        (
            "nomodule:CartPole-v1",
            "unknown environment 'nomodule:CartPole-v1': no module 'nomodule'",
        ),
        ("CartPole-v77", "did you mean 'CartPole-v1'"),
    ],
)
def test_unknown_ids(env_id, message):
    with pytest.raises(gym.error.UnregisteredEnv, match=message):
        make_vector(env_id, 1, training=True)


@pytest.mark.parametrize("numbers", [{"num_envs": 0}, {"num_envs": 1, "max_steps": 0}])
def test_numbers_are_checked(numbers):
    with pytest.raises(gym.error.Error, match="at least 1, not 0"):
        make_vector("CartPole-v1", training=True, **numbers)


@pytest.mark.parametrize("env_id", ["CartPole-v1", "minatar:breakout", "atari:Pong"])
def test_too_many_environments(env_id):
    with pytest.raises(gym.error.Error, match="4097 environments side by side are too many; at"):
        make_vector(env_id, 4097, training=True)


@pytest.mark.parametrize(
    ("env_id", "module", "line"),
    [
        ("atari:Pong", "ale_py.roms", r"pip install 'delayzero\[atari\]'"),
        ("minatar:breakout", "minatar", r"pip install 'delayzero\[minatar\]'"),
    ],
)
def test_missing_packages(env_id, module, line, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=line):
        make_vector(env_id, 1, training=True)


class Spaces(gym.Env):
    def __init__(self, observations, actions):
        self.observation_space, self.action_space = observations, actions


VECTOR = spaces.Box(0, 1, (2,))


@pytest.mark.parametrize(
    ("observations", "actions", "message"),
    [
        (VECTOR, spaces.Box(-1, 1, (1,)), "not Discrete: choose a finite number"),
        (VECTOR, spaces.Discrete(3, start=2), r"begin at 2, not at 0.*lambda a: a \+ 2"),
        (spaces.Discrete(5), spaces.Discrete(2), r"not a Box: flatten them.*FlattenObservation"),
        (spaces.Box(0, 1, (2, 2)), spaces.Discrete(2), r"the shape \(2, 2\); vectors"),
    ],
)
def test_unsupported_spaces(observations, actions, message):
    envs = SyncVectorEnv([lambda: Spaces(observations, actions)])
    with pytest.raises(UnsupportedEnvironment, match=message):
        check_supported(envs)


def test_unsupported_autoreset():
    envs = SyncVectorEnv([lambda: gym.make("CartPole-v1")], autoreset_mode=AutoresetMode.SAME_STEP)
    with pytest.raises(UnsupportedEnvironment, match="not NEXT_STEP"):
        check_supported(envs)


MODULE = """
import gymnasium as gym
from gymnasium.envs.classic_control import CartPoleEnv

gym.register("Mine{number}-v0", CartPoleEnv, max_episode_steps=7)


def make_mine():
    return CartPoleEnv()


def make_nothing():
    return 3


class Maker:
    make = staticmethod(make_mine)
"""


@pytest.fixture
def module(tmp_path, monkeypatch, request):
    """A module in the current folder, which is not on Python's path."""
    number = abs(hash(request.node.name)) % 10**6
    name = f"my_module_{number}"
    (tmp_path / f"{name}.py").write_text(MODULE.format(number=number))
    (tmp_path / "broken.py").write_text("import no_such_package\n")
    (tmp_path / "wrong.py").write_text("raise ValueError('my settings are wrong')\n")
    text = "import gymnasium\ngymnasium.register('Late-v0', 'late_one:Late')\n"
    (tmp_path / "late.py").write_text(text)
    text = "from gymnasium.envs.classic_control import CartPoleEnv as Late\n"
    (tmp_path / "late_one.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield name, f"Mine{number}-v0"
    gym.registry.pop(f"Mine{number}-v0", None)
    sys.modules.pop(name, None)


@pytest.mark.parametrize("what", ["registered", "make_mine", "Maker.make"])
def test_environments_of_a_module_in_the_current_folder(what, module):
    name, env_id = module
    envs = make_vector(f"{name}:{env_id if what == 'registered' else what}", 2, training=True)
    observations, _ = envs.reset(seed=0)
    assert observations.shape == (2, 4)
    check_supported(envs)
    cut = make_vector(f"{name}:make_mine", 1, training=True, max_steps=3)
    cut.reset(seed=0)
    assert [bool(cut.step(np.zeros(1, int))[3][0]) for _ in range(3)] == [False, False, True]


def test_what_fails_inside_a_users_module_is_shown_as_it_is(module):
    with pytest.raises(ModuleNotFoundError, match="No module named 'no_such_package'"):
        make_vector("broken:Mine-v0", 1, training=True)
    with pytest.raises(ValueError, match="my settings are wrong"):
        make_vector("wrong:Mine-v0", 1, training=True)


def test_what_a_module_registers_may_be_imported_later(module):
    assert make_vector("late:Late-v0", 1, training=True).reset(seed=0)[0].shape == (1, 4)
    gym.registry.pop("Late-v0")


def test_a_module_without_the_environment(module):
    with pytest.raises(gym.error.UnregisteredEnv, match="registers no environment 'Other-v0'"):
        make_vector(f"{module[0]}:Other-v0", 1, training=True)
    with pytest.raises(UnsupportedEnvironment, match="returned int; it should return"):
        make_vector(f"{module[0]}:make_nothing", 1, training=True)


@pytest.mark.parametrize("env_id", [":", ":X-v0", "nomodule:", "..os:getcwd"])
def test_half_an_id(env_id):
    with pytest.raises(gym.error.UnregisteredEnv):
        make_vector(env_id, 1, training=True)


def test_functions_have_an_id_in_this_process():
    def make():
        return gym.make("CartPole-v1")

    env_id = id_of_function(make)
    assert make_vector(env_id, 2, training=True).num_envs == 2
    with pytest.raises(gym.error.UnregisteredEnv, match="a function of a script or notebook"):
        make_vector("__main__:make_my_env", 1, training=True)
