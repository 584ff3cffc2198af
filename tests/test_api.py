"""The way in from Python: what users call, and what it says when they call it wrong."""

import functools
import json
import shlex
import shutil
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import delayzero
from delayzero.actions import ActionSpec
from delayzero.api import Policy, UsageError
from delayzero.delays import DelayedExecution
from delayzero.envs import make
from delayzero.evaluation.episodes import Evaluator
from delayzero.playing.environments import make_env
from delayzero.playing.streams import STREAM_EVALUATION_ENVS, run_seed
from delayzero.playing.system import build_system
from delayzero.runs.weights import load_weights
from delayzero.settings import compose
from delayzero.settings.keywords import configure
from delayzero.spaces import Spaces

from .training.small import TINY

SMALL = {
    "interactions": 250,
    "final_episodes": 2,
    "final_max_steps": 40,
    "prediction_rows": 0,
    "model": TINY,
}


class Cart(gym.Env):
    """A cart on a line, pushed left or right, that should stay near the middle."""

    observation_space = spaces.Box(-20, 20, (2,), np.float32)
    action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._state, self._left = self.np_random.uniform(-1, 1, 2), 30
        return self._state.astype(np.float32), {}

    def step(self, action):
        place, speed = self._state
        self._state = np.array([place + 0.1 * speed, speed + 0.3 * (int(action) - 1)])
        self._left -= 1
        reward = 1.0 - min(abs(place), 1.0)
        return self._state.astype(np.float32), reward, abs(place) > 5, self._left == 0, {}


def make_cart():
    return Cart()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run of a function's environment, and what its callbacks were given."""
    rounds, evaluations = [], []
    run = delayzero.train(
        "cartpole",
        "debug",
        env=make_cart,
        delay="walk:3",
        seed=3,
        folder=tmp_path_factory.mktemp("api") / "run",
        evaluate_every=150,
        evaluate_episodes=2,
        on_round=rounds.append,
        on_evaluation=evaluations.append,
        quiet=True,
        **SMALL,
    )
    return run, rounds, evaluations


def test_a_run_has_its_result_curves_settings_and_folder(trained):
    run, *_ = trained
    assert run.finished
    assert run.result["interactions"] >= 250
    assert len(run.result["scores"]) == 2
    assert run.result == json.loads((run.folder / "result.json").read_text())
    assert run.curves.evaluations[-1] == (run.result["interactions"], run.result["score"])
    assert run.config.delay == "walk:3"
    assert run.config.env == f"{__name__}:make_cart"
    assert run.config.model.lstm == 8
    (start,) = map(json.loads, (run.folder / "starts.jsonl").read_text().splitlines())
    call = shlex.split(start["command"])[-1]
    assert call.startswith("delayzero.train('cartpole', 'debug', delay='walk:3', seed=3, ")
    assert f"env='{__name__}:make_cart'" in call


def test_callbacks_are_told_of_every_round_and_evaluation(trained):
    run, rounds, evaluations = trained
    assert [one.number for one in rounds] == list(range(1, len(rounds) + 1))
    assert rounds[-1].updates == run.result["updates"]
    assert rounds[-1].interactions == run.result["interactions"]
    assert sum(len(one.endings) for one in rounds) > 4
    assert "loss" in rounds[-1].metrics
    assert [one.final for one in evaluations] == [False, True]
    assert evaluations[-1].summary["score"] == run.result["score"]


def test_the_same_call_changes_nothing_in_a_finished_run(trained):
    run, *_ = trained
    before = (run.folder / "result.json").stat().st_mtime_ns
    settings = {**SMALL, "evaluate_every": 150, "evaluate_episodes": 2, "seed": 3}
    again = delayzero.train(
        "cartpole", "debug", env=make_cart, delay="walk:3", folder=str(run.folder), **settings
    )
    assert again == run
    assert (run.folder / "result.json").stat().st_mtime_ns == before


@pytest.mark.slow
def test_what_a_callback_raises_ends_the_run(tmp_path):
    def stop(_):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        delayzero.train(
            "cartpole",
            "debug",
            env=make_cart,
            delay="walk:3",
            folder=tmp_path / "run",
            on_round=stop,
            quiet=True,
            **SMALL,
        )


def test_a_policy_needs_no_environment_and_decides_as_an_evaluation_does(trained, monkeypatch):
    run, *_ = trained
    scores = evaluated(run, episodes=1)

    def never(*args, **options):
        raise AssertionError("no environment is made")

    with monkeypatch.context() as patch:
        patch.setattr(make, "make_vector", never)
        patch.setattr("delayzero.playing.environments.make_vector", never)
        policy = delayzero.load(run.folder)
        policy.warm_up()
    assert policy.max_delay == 3
    assert policy.spaces.actions.count == 3
    assert policy.dtype == "float32"
    env = DelayedExecution(Cart(), "walk:3")
    observation, info = env.reset(seed=run_seed(3, STREAM_EVALUATION_ENVS))
    state = policy.reset(observation)
    _, info = env.set_initial_actions(state.first_queue)
    score, ended = 0.0, False
    while not ended:
        action, state = policy.act(observation, state, delay=info["delay"], pending=info["pending"])
        assert isinstance(action, int)
        observation, reward, terminated, truncated, info = env.step(action)
        score, ended = score + reward, terminated or truncated
    assert score == pytest.approx(scores[0], abs=1e-4)


def evaluated(run, episodes):
    """The scores of the run's own evaluation."""
    system, variables = load_weights(run.folder, trust=True)
    evaluator = Evaluator(system, episodes)
    played = evaluator.play(variables, run.config.seed)
    evaluator.close()
    return [episode.score for episode in played]


def test_a_batch_is_decided_as_each_alone(trained):
    policy = delayzero.load(trained[0].folder)
    observations = np.random.default_rng(0).normal(size=(4, 2))
    queues = [[], [1], [0, 2], [2, 2, 1]]
    states = policy.reset(observations)
    assert states.first_queue.shape == (4, 3)
    together, states = policy.act(observations, states, delay=[0, 1, 2, 3], pending=queues)
    again, _ = policy.act(observations + 1, states, delay=[0, 1, 2, 3], pending=queues)
    for i, queue in enumerate(queues):
        state = policy.reset(observations[i])
        np.testing.assert_array_equal(state.first_queue, states.first_queue[i])
        alone, state = policy.act(observations[i], state, pending=queue)
        assert alone == together[i]
        assert policy.act(observations[i] + 1, state, pending=queue)[0] == again[i]


@pytest.mark.parametrize(
    ("observation", "arguments", "message"),
    [
        (np.zeros(3), {}, r"shape \[3\]; this run was trained on \[2\]"),
        (np.zeros(2), {"delay": 2, "pending": [0]}, "delay is 2, and 1 actions are pending"),
        (np.zeros(2), {"delay": 2}, "delay is 2, and 0 actions are pending"),
        (np.zeros(2), {"pending": [3]}, "pending holds 3; actions are whole numbers from 0 to 2"),
        (np.zeros(2), {"pending": [0.5]}, r"pending holds 0\.5"),
        (np.zeros((2, 2)), {}, "2 observations for a state of 1 environments"),
        ([1e300, 0], {}, "the observation is not finite in float32"),
        ([[1, 2], [3]], {}, "the observation is not an array of numbers"),
        (np.zeros(2), {"delay": "3"}, "delay is '3'; it should be a whole number from 0"),
        (np.zeros(2), {"delay": {}}, r"delay is \{\}; it should be a whole number"),
        (np.zeros(2), {"delay": True, "pending": [0]}, "delay is True; it should be a whole"),
        (np.zeros(2), {"delay": 2.0, "pending": [0, 0]}, r"delay is 2\.0; it should be a whole"),
        (np.zeros(2), {"delay": 10**5000}, "delay is a very long number; it should be a whole"),
        (np.zeros(2), {"delay": [[1, 2], [3]]}, "delay is not an array of numbers"),
        (np.zeros(2), {"pending": [[1, 2], [0]]}, "pending is not an array of numbers"),
        (np.zeros(2), {"pending": [True]}, "pending holds True"),
    ],
)
def test_a_policy_says_what_does_not_fit(trained, observation, arguments, message):
    policy = delayzero.load(trained[0].folder)
    state = policy.reset(np.zeros(2))
    with pytest.raises(UsageError, match=message):
        policy.act(observation, state, **arguments)


@pytest.mark.parametrize(
    ("pending", "message"),
    [
        (5, "pending is 5; it should be a sequence of actions for each environment"),
        (np.array(5), "it should be a sequence of actions for each environment"),
        ([[1], [[1, 2], [0]]], "pending is not an array of numbers"),
        ([[1]], "pending has 1 queues for 2 environments"),
    ],
)
def test_a_policy_says_what_does_not_fit_a_batch(trained, pending, message):
    policy = delayzero.load(trained[0].folder)
    state = policy.reset(np.zeros((2, 2)))
    with pytest.raises(UsageError, match=message):
        policy.act(np.zeros((2, 2)), state, pending=pending)


def test_a_policy_takes_whole_numbers_and_those_of_numpy(trained):
    policy = delayzero.load(trained[0].folder, seed=np.int64(3))
    policy.warm_up(np.int32(2))
    state = policy.reset(np.zeros(2), length=np.int8(2))
    assert state.first_queue.shape == (2,)
    queue = [np.int64(1), np.array(2)]
    action, _ = policy.act(np.zeros(2), state, delay=np.uint8(2), pending=queue)
    assert action == policy.act(np.zeros(2), state, delay=2, pending=[1, 2])[0]
    for wrong in ("3", 2.5, 2.0, True, -1, 2**70):
        with pytest.raises(UsageError, match=r"length is .*; it should be a whole number from 0"):
            policy.reset(np.zeros(2), length=wrong)
    for wrong in (-1, 0, "a", 2.0, True):
        with pytest.raises(UsageError, match=r"batch is .*; it should be a whole number from 1"):
            policy.warm_up(wrong)
    for wrong in ("x", 2**70, -1, 1.0, True, None):
        with pytest.raises(UsageError, match=r"seed is .*; it should be a whole number from 0"):
            delayzero.load(trained[0].folder, seed=wrong)


def test_integers_that_the_data_type_cannot_hold_are_refused():
    config = configure(["cartpole"], {"agent": "random"})
    policy = Policy(build_system(config, Spaces((2,), np.dtype(np.uint8), ActionSpec(3))), None)
    policy.reset(np.array([0, 255]))
    for wrong in (256, -1):
        with pytest.raises(UsageError, match=f"observation holds {wrong}; .* uint8, from 0 to 255"):
            policy.reset(np.array([0, wrong]))


def test_another_data_type_than_in_training_is_said(trained, capsys, tmp_path):
    folder = shutil.copytree(trained[0].folder, tmp_path / "run")
    delayzero.load(folder)
    assert capsys.readouterr().err == ""
    starts = folder / "starts.jsonl"
    starts.write_text(starts.read_text().replace('"float32"', '"bfloat16"'))
    assert delayzero.load(folder).dtype == "float32"
    assert "was trained in bfloat16; this machine computes in float32" in capsys.readouterr().err


def test_longer_queues_than_in_training_are_rolled_too(trained):
    policy = delayzero.load(trained[0].folder)
    action, _ = policy.act(np.zeros(2), policy.reset(np.zeros(2)), pending=[1] * 7)
    assert action in (0, 1, 2)


@pytest.mark.parametrize(
    ("presets", "settings", "message"),
    [
        ((), {}, "name a preset"),
        (("cartpol",), {}, "did you mean 'cartpole'"),
        (("cartpole",), {"sede": 1}, "did you mean --seed"),
        (("cartpole",), {"learner": {"batchsize": 3}}, "did you mean --learner.batch-size"),
        (("cartpole",), {"seed": 1.5}, r"--seed is 1\.5; it should be a whole number"),
        (("cartpole",), {"overlap": 1}, "--overlap is 1; it should be True or False"),
        (("cartpole",), {"reveal": "later"}, "--reveal is 'later'; it should be one of 'before'"),
        (("cartpole",), {"agent": "random", "update_ratio": 3}, "not a setting of the agent"),
        (("cartpole",), {"learner.batch_size": 0}, "--learner.batch-size is 0"),
        (("cartpole",), {"learner": 3}, "unknown setting --learner"),
        (("cartpole",), {"--seed": 5}, "unknown setting '--seed'; did you mean 'seed'"),
        (("cartpole",), {"-seed": 5}, "unknown setting '-seed'; did you mean 'seed'"),
        (("cartpole",), {"_seed": 5}, "unknown setting '_seed'; did you mean 'seed'"),
        (("cartpole",), {"--delay": "walk:2"}, "unknown setting '--delay'; did you mean 'delay'"),
        (("cartpole",), {"help": 5}, "unknown setting --help"),
        (("cartpole",), {"tyro_interactions": 5}, "unknown setting --tyro-interactions"),
        (("cartpole",), {"learner": {"-batch_size": 5}}, "unknown setting --learner.-batch-size"),
        (("cartpole",), {"learner": {"zzz": {}}}, "unknown setting --learner.zzz"),
        (("cartpole",), {"seed": {}}, r"--seed is \{\}; it should be a whole number"),
        (("cartpole",), {"learner": {5: 5}}, "the name of a setting is of the type int"),
        (
            ("cartpole",),
            {"learner": {"batch_size": 5, "batch-size": 6}},
            "the setting --learner.batch-size is given twice",
        ),
        (
            ("cartpole",),
            {"learner": {"batch_size": 5}, "learner.batch_size": 6},
            "the setting --learner.batch-size is given twice",
        ),
        (("cartpole",), {"x" * 5000: 1}, r"unknown setting 'x+\.\.\.x+'; type"),
    ],
)
def test_wrong_settings_are_refused(presets, settings, message):
    with pytest.raises(UsageError, match=message):
        delayzero.train(*presets, **settings)


def test_keywords_are_the_settings_of_the_command_line(tmp_path):
    nested = {"learner": {"batch_size": 32}, "replay.capacity": np.int64(5000), "seed": 4}
    config = configure(["cartpole"], {**nested, "folder": tmp_path, "delay": "walk:2"})
    assert config.learner.batch_size == 32
    assert config.learner.optimiser == "adam", "the preset's"
    assert config.replay.capacity == 5000
    assert config.folder == str(tmp_path)
    assert configure(["cartpole", "debug"], {}) == compose(["cartpole", "debug"])
    assert configure(["cartpole"], {"learner": {}, "log-every": 7}).log_every == 7


def test_groups_within_groups_without_end():
    settings: dict = {}
    settings["learner"] = settings
    with pytest.raises(UsageError, match=r"unknown setting 'learner\.lear\.\.\."):
        configure(["cartpole"], settings)


def test_loading_what_is_no_run(tmp_path):
    with pytest.raises(UsageError, match="holds no run"):
        delayzero.load(tmp_path)
    with pytest.raises(UsageError, match="holds no run"):
        delayzero.load(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="run is of the type NoneType; it should be the folder"):
        delayzero.load(None)
    for wrong in ("x" * 5000, "a\0b"):
        with pytest.raises(UsageError, match=r"^'.{3,300} is not the folder of a run: "):
            delayzero.load(wrong)


def test_functions_without_a_name_of_their_own_need_a_folder():
    for env in (lambda: Cart(), functools.partial(Cart), Cart().reset):
        with pytest.raises(UsageError, match="has no name of its own; give folder="):
            delayzero.train("cartpole", env=env)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"env": "CartPol-v1"}, "did you mean 'CartPole-v1'"), ({"delay": "wolk:3"}, "'walk'")],
)
def test_wrong_environments_and_laws_are_usage_errors_too(settings, message):
    with pytest.raises(UsageError, match=message):
        delayzero.train("cartpole", **settings)


def test_evaluations_of_a_functions_environment_are_cut_off_as_training_is():
    class Endless(Cart):
        def step(self, action):
            observation, reward, *_ = super().step(action)
            return observation, reward, False, False, {}

    config = configure(["cartpole"], {"env": make.id_of_function(Endless), "max_steps": 5})
    env = make_env(config, 1, training=False, max_steps=None)
    env.reset(seed=0)
    ends = [bool(env.step(np.zeros(1, int))[3][0]) for _ in range(5)]
    assert ends == [False] * 4 + [True]


def test_a_random_policy_plays_other_actions_in_other_episodes():
    config = configure(["cartpole"], {"agent": "random", "delay": "walk:3"})
    spaces = Spaces((2,), np.dtype(np.float32), ActionSpec(3))
    policy = Policy(build_system(config, spaces), None)
    episodes = []
    for _ in range(2):
        state, actions = policy.reset(np.zeros(2)), []
        for _ in range(20):
            action, state = policy.act(np.zeros(2), state)
            actions.append(action)
        episodes.append(actions)
    assert episodes[0] != episodes[1]
    assert len(set(episodes[0])) == 3


def test_policies_that_cannot_be():
    late = {"stack": 2, "observation_delay": "walk:2", "random_interactions": 600}
    config = configure(["cartpole"], late)
    spaces = Spaces((2,), np.dtype(np.float32), ActionSpec(3))
    with pytest.raises(UsageError, match="stacks 2 frames of late observations"):
        Policy(build_system(config, spaces), None)
    config = configure(["cartpole"], {"agent": "augmented", "delay": "walk:3"})
    policy = Policy(build_system(config, spaces), None)
    with pytest.raises(UsageError, match="trained for at most 3 pending actions, not 4"):
        policy.reset(np.zeros(2), length=4)
    config = configure(["atari"], {"agent": "delayed-q", "delay": "walk:3"})
    spaces = Spaces((96, 96, 3), np.dtype(np.uint8), ActionSpec(3))
    with pytest.raises(UsageError, match="looks ahead with its environment"):
        Policy(build_system(config, spaces), None)


def test_its_error_is_at_hand_without_jax():
    code = (
        "import delayzero, sys; from delayzero import UsageError; assert 'jax' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_importing_delayzero_imports_no_jax():
    code = "import delayzero, sys; assert 'jax' not in sys.modules; delayzero.load"
    code += "; assert 'jax' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_without_jax_the_error_says_what_to_type():
    code = "import sys; sys.modules['jax'] = None; import delayzero; delayzero.train('cartpole')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "jax is not installed; type: pip install 'delayzero[train]'" in done.stderr
