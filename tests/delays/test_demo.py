import gymnasium as gym
import numpy as np
import pytest

from delayzero.cli import main
from delayzero.delays import demo
from delayzero.delays.demo import (
    LAWS,
    cartpole_step,
    compare,
    current_state,
    make_env,
    predicted_state,
    run_episode,
    summarise,
    table,
)
from delayzero.delays.demo_picture import overview


def test_the_equations_are_those_of_the_environment():
    env = gym.make("CartPole-v1").unwrapped
    rng = np.random.default_rng(0)
    for action in (0, 1) * 50:
        env.reset(seed=0)
        state = tuple(rng.uniform(-1, 1, 4) * (2, 3, 0.2, 3))
        env.state = np.array(state)
        env.step(action)
        assert cartpole_step(state, action) == pytest.approx(tuple(env.state), abs=1e-12)


@pytest.mark.parametrize("law", ["constant:5", "constant:0"])
def test_the_prediction_is_the_state_that_the_decision_meets(law):
    env = make_env(law)
    observation, info = env.reset(seed=3)
    delay = env.max_delay
    predicted, seen = [], []
    for step in range(12):
        seen.append(current_state(observation, info))
        predicted.append(predicted_state(observation, info))
        observation, *_, info = env.step(step % 2)
    for step in range(12 - delay):
        assert predicted[step] == pytest.approx(seen[step + delay], abs=1e-5)


def test_undelayed_the_controller_never_fails():
    env = make_env("constant:0")
    assert [run_episode(env, seed, current_state) for seed in range(5)] == [500.0] * 5


def test_prediction_overcomes_a_delay_that_is_fatal_when_ignored():
    steps = []
    comparison = compare("constant:5", 5, 0, steps.append)
    assert len(steps) == 10
    assert comparison.predicting.mean == 500
    assert comparison.ignoring.mean < 100
    again = compare("constant:5", 5, 0)
    assert again.ignoring.returns.tolist() == comparison.ignoring.returns.tolist()


def test_both_controllers_begin_with_the_same_queue():
    env = make_env("walk:5")
    for seed in (0, 1):
        _, info = env.reset(seed=seed)
        assert list(info["pending"]) == [0, 1, 0, 1, 0]


def test_bootstrap_interval():
    result = summarise([0.0, 10.0] * 50)
    assert result.mean == 5
    # The mean of 100 coin tosses of 0 or 10 has a standard deviation of 0.5.
    assert (result.low, result.high) == pytest.approx((4.02, 5.98), abs=0.1)
    same = summarise([7.0] * 3)
    assert (same.low, same.mean, same.high) == (7, 7, 7)


@pytest.fixture(scope="module")
def comparisons():
    return [compare(law, 2, 0) for law in LAWS]


def test_table(comparisons):
    head, *rows = table(comparisons).splitlines()
    assert head.split()[:3] == ["delay", "mean", "dropped"]
    assert [row.split("  ")[0] for row in rows] == ["no delay", *LAWS[1:]]
    assert f"{comparisons[1].ignoring.mean:.1f}" in rows[1]


def test_overview_shows_the_computed_numbers(comparisons):
    figure = overview(comparisons)
    assert len(figure.axes) == 2 * len(LAWS)
    texts = [text.get_text() for axes in figure.axes for text in axes.texts]
    for entry in comparisons:
        assert f"{entry.characteristics.drop_rate:.0%} dropped" in texts
        assert f"{entry.ignoring.mean:.0f}" in texts


def test_the_verb_saves_its_pictures(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(demo, "LAWS", ("constant:0", "constant:2"))
    folder = tmp_path / "new" / "folder"
    assert main(["delays", "demo", "--save", str(folder), "--episodes", "1"]) == 0
    assert {path.name for path in folder.iterdir()} == {"overview.png", "constant-2.png"}
    assert "constant:2" in capsys.readouterr().out
