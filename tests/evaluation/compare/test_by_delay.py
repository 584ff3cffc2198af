import json
import subprocess
import sys

import pytest

from delayzero.arguments import UsageError
from delayzero.campaigns.engine import USAGE
from delayzero.evaluation.compare import by_delay
from delayzero.evaluation.compare.by_delay import main, read_scores
from delayzero.evaluation.compare.plan import Plan
from delayzero.evaluation.episodes import Evaluator
from delayzero.runs.weights import load_weights

from ...training.small import begun_run


@pytest.fixture
def trained(tmp_path):
    """The folder of a run that has a checkpoint."""
    return begun_run(tmp_path / "run", agent="oblivious", delay="constant:1")


def test_scores_are_those_of_the_evaluator(trained):
    place = trained / "by_delay.json"
    main([str(trained), "--laws", "constant:1", "--episodes", "2"])
    system, variables = load_weights(trained)
    limit = system.config.final_max_steps
    played = Evaluator(system, 2, max_steps=limit, delay="constant:1").play(variables, 0)
    assert read_scores(place, 2) == {"constant:1": [episode.score for episode in played]}
    assert read_scores(place, 3) == {}


def test_stored_scores_are_not_played_again(tmp_path, monkeypatch):
    """A law and a run at a time."""
    runs = [Plan(tmp_path).run("dez", seed) for seed in (0, 1)]
    for run in runs:
        run.folder.path.mkdir()
    runs[0].folder.by_delay.write_text(json.dumps({"constant:0": [1.0, 2.0], "constant:1": [1.0]}))
    played = []

    class Fake:
        def __init__(self, system, episodes, *, max_steps, delay):
            self.law = delay

        def play(self, variables, seed):
            played.append((self.law, variables))
            return [type("Episode", (), {"score": 5.0})] * 2

        def close(self):
            pass

    class Nothing:
        seed, final_max_steps = 0, None

    Nothing.config = Nothing
    monkeypatch.setattr(by_delay, "Evaluator", Fake)
    monkeypatch.setattr(by_delay, "load_weights", lambda folder, trust: (Nothing, folder.name))
    module, *words = by_delay.words_for(runs, ["constant:0", "constant:1"], 2)
    assert module == by_delay.__name__
    main(words)
    assert played == [
        *(("constant:0", "dez-seed1"), ("constant:1", "dez-seed0"), ("constant:1", "dez-seed1"))
    ]
    assert read_scores(runs[0].folder.by_delay, 2) == {"constant:0": [1, 2], "constant:1": [5, 5]}
    main(words)
    assert len(played) == 3


def test_no_file_has_no_scores(tmp_path):
    assert read_scores(tmp_path / "none.json", 2) == {}


def test_a_damaged_file_says_what_to_do(tmp_path):
    (tmp_path / "by_delay.json").write_text('{"constant:0": [1')
    with pytest.raises(UsageError, match=r"by_delay.json is damaged; delete it, and type the same"):
        read_scores(tmp_path / "by_delay.json", 2)


def test_an_error_of_the_user_ends_the_process_with_the_code_of_one(tmp_path):
    words = (by_delay.MODULE, str(tmp_path), "--laws", "constant:0", "--episodes", "2")
    ended = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True)
    assert ended.returncode == USAGE
    assert f"{tmp_path} holds no run" in ended.stderr
    assert "Traceback" not in ended.stderr
