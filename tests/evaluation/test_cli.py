import json

import pytest
from gymnasium.envs.classic_control import CartPoleEnv

from delayzero.cli import main
from delayzero.evaluation import episodes
from delayzero.evaluation.episodes import Evaluator
from delayzero.runs.run_folder import RunFolder

from ..training.small import begun_run, small


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a run that has a checkpoint."""
    return begun_run(tmp_path_factory.mktemp("evaluated"))


def strictly(text):
    return json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))


def test_one_line_for_each_episode(run, capsys):
    words = ["evaluate", str(run), "--episodes", "3", "--envs", "2", "--max-steps", "9"]
    assert main(words) == 0
    captured = capsys.readouterr()
    lines = [strictly(line) for line in captured.out.splitlines()]
    assert [(line["env"], line["number"]) for line in lines] == [(0, 0), (0, 1), (1, 0)]
    names = {"env", "number", "score", "length", "truncated", "digest"}
    assert all(set(line) == names for line in lines)
    assert all(line["score"] == line["length"] <= 9 for line in lines)
    figures = strictly(captured.err.splitlines()[-1])
    assert figures["score"] == pytest.approx(sum(line["score"] for line in lines) / 3)
    assert main([*words, "--seed", "7"]) == 0
    again = capsys.readouterr().out
    assert main([*words, "--seed", "7"]) == 0
    assert capsys.readouterr().out == again


def test_a_single_episode_has_no_standard_error(run, capsys):
    assert main(["evaluate", str(run), "--episodes", "1", "--max-steps", "3"]) == 0
    strictly(capsys.readouterr().err.splitlines()[-1])


def test_a_seed_that_no_run_can_have(run, capsys):
    assert main(["evaluate", str(run), "--seed", "9" * 23]) == 2
    assert "should be between 0 and 2147483647" in capsys.readouterr().err


@pytest.mark.parametrize(("forecast", "foresees"), [("model", False), ("perfect", True)])
def test_forecasts(forecast, foresees, run, capsys, monkeypatch):
    seen = []

    class Witness(Evaluator):
        def __init__(self, system, *arguments, **settings):
            seen.append(system.agent.foresees)
            super().__init__(system, *arguments, **settings)

    monkeypatch.setattr(episodes, "Evaluator", Witness)
    words = ["evaluate", str(run), "--episodes", "1", "--max-steps", "3", "--delay", "constant:2"]
    assert main([*words, "--forecast", forecast]) == 0
    assert seen == [foresees]
    assert strictly(capsys.readouterr().out)["length"] <= 3


def test_an_environment_that_cannot_be_foreseen(run, capsys, monkeypatch):
    monkeypatch.setattr(CartPoleEnv, "__deepcopy__", lambda self, memo: 1 / 0, raising=False)
    words = ["evaluate", str(run), "--episodes", "1", "--delay", "constant:2"]
    assert main([*words, "--forecast", "perfect"]) == 2
    assert "cannot be played (division by zero)" in capsys.readouterr().err


@pytest.mark.parametrize("more", [[], ["--envs", "9" * 9]])
def test_more_environments_than_fit(more, run, capsys):
    assert main(["evaluate", str(run), "--episodes", "9" * 9, *more]) == 2
    assert "--envs 4096 or less" in capsys.readouterr().err


@pytest.mark.parametrize("place", ["nowhere", "empty", "begun"])
def test_without_weights(place, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    begun = RunFolder(tmp_path / "begun")
    begun.open(small(tmp_path / "begun"), ["delayzero"])
    before = sorted(path.name for path in (tmp_path / "begun").iterdir())
    assert main(["evaluate", str(tmp_path / place)]) == 2
    told = capsys.readouterr().err
    assert len(told.splitlines()) == 1
    assert ("has no checkpoint yet" if place == "begun" else "holds no run") in told
    assert sorted(path.name for path in (tmp_path / "begun").iterdir()) == before
    assert not (tmp_path / "nowhere").exists()


def test_options_are_checked(capsys):
    assert main(["evaluate"]) == 2
    assert "required: run" in capsys.readouterr().err
    assert main(["evaluate", "x", "--episodes", "0"]) == 2
    assert "should be at least 1" in capsys.readouterr().err
