import itertools
import json
import shutil
from dataclasses import asdict
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from delayzero.campaigns.engine import Board
from delayzero.cli import main
from delayzero.evaluation.compare import run
from delayzero.evaluation.compare.plan import Plan, usual_laws
from delayzero.evaluation.compare.results import Estimate, read_agent
from delayzero.settings import AGENTS


class Signed(gym.Env):
    """Images that Delayed-Q cannot predict."""

    observation_space = gym.spaces.Box(-1, 1, (10, 10, 2), np.float32)
    action_space = gym.spaces.Discrete(2)


gym.register("delayzero-tests/Signed-v0", Signed)
WORDS = ["--preset", "cartpole", "debug", "--agents", "oblivious", "random", "--seeds", "0", "1"]
WORDS += ["--delay", "walk:2", "--folder", "here"]


def fake_train(words):
    """What a run leaves behind, without the run: its scores are drawn."""
    options = dict(itertools.pairwise(words))
    folder = Path(options["--folder"])
    agent, seed = options["--agent"], int(options["--seed"])
    config = Plan(folder.parent, ("cartpole", "debug"), delay=options["--delay"])
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(asdict(config.config(agent, seed))))
    rng = np.random.default_rng([seed, len(agent)])
    scores = rng.integers(10, 100, 4).astype(float).tolist()
    lines = [{"interactions": 20 * i + seed, "evaluation/score": 10.0 * i} for i in range(1, 9)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = {"interactions": 180 + seed, "score": np.mean(scores), "scores": scores}
    result |= {"train_seconds": 9.0, "seconds": {"evaluating": 1.0}, "versions": {"jax": "0"}}
    (folder / "result.json").write_text(json.dumps(result))


def fake_evaluation(words):
    """Scores under other laws, without playing."""
    place = words.index("--laws")
    for run_folder in words[:place]:
        scores = {law: [float(len(law)), 2.0, 3.0] for law in words[place + 1 : -2]}
        (Path(run_folder) / "by_delay.json").write_text(json.dumps(scores))


@pytest.fixture
def started(monkeypatch, tmp_path):
    """The names of the processes that would have been started."""
    monkeypatch.chdir(tmp_path)
    names = []

    def pretend(commands, engine, look):
        for command in commands:
            names.append(command.name)
            fake = fake_train if command.words[0] == "delayzero" else fake_evaluation
            fake(command.words[1:])
            look(Board([], running={command.name: None}))
        return []

    monkeypatch.setattr(run, "run_all", pretend)
    return names


def fails(capsys, *words):
    assert main(["compare", *words]) == 2
    return capsys.readouterr().err.strip()


def test_a_comparison_and_resuming_it(started, tmp_path, capsys):
    words = [*WORDS, "--evaluate-delays", "constant:0", "constant:3", "--delay-episodes", "3"]
    assert main(["compare", *words]) == 0
    shown = capsys.readouterr()
    assert started == [
        *("oblivious-seed0", "random-seed0", "oblivious-seed1", "random-seed1"),
        *("oblivious", "random"),
    ]
    assert (
        "CartPole-v1 under walk:2. Seeds per agent: 2. Per seed: 156 interactions, 4" in shown.out
    )
    assert "\noblivious" in shown.out
    assert "under other delays, 3 episodes per seed" in shown.out
    assert "other delays: 8/8" in shown.err
    folder = tmp_path / "here"
    everything = json.loads((folder / "compare.json").read_text())
    for agent in ("oblivious", "random"):
        scores = [everything["runs"][f"{agent}-seed{seed}"]["scores"] for seed in (0, 1)]
        figures = everything["agents"][agent]
        assert Estimate(**figures["estimate"]) == Estimate.of(scores)
        assert figures["lowest"] == min(map(min, scores))
        assert set(figures["by_delay"]) == {"constant:0", "constant:3"}
        assert len(figures["curves"][0]) == 9
    made = everything["runs"]["oblivious-seed1"]
    assert made["command"].startswith(
        "delayzero train cartpole debug --env CartPole-v1 --agent oblivious"
    )
    assert made["versions"]["jax"]
    assert made["by_delay"]["constant:3"] == [10, 2, 3]
    assert {path.name for path in folder.glob("*.png")} == {
        *("interactions.png", "delays.png", "overview.png")
    }

    shutil.rmtree(folder / "random-seed1")
    (folder / "oblivious-seed0" / "by_delay.json").unlink()
    started.clear()
    assert main(["compare", *words]) == 0
    assert started == ["random-seed1", "oblivious", "random"]
    again = json.loads((folder / "compare.json").read_text())
    assert again["agents"] == everything["agents"]

    capsys.readouterr()
    error = fails(capsys, *words, "--interactions", "300")
    assert "here/oblivious-seed0 holds a run with different settings" in error
    assert "interactions 156 (now 300)" in error


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--agents", "dez", "augmentd"], "did you mean 'augmented'?"),
        (["--agents", "xyzzy"], ", ".join(AGENTS)),
        (["--delay", "wlak:5"], "did you mean 'walk'?"),
        (["--evaluate-delays", "constant:0", "wlak:5"], "did you mean 'walk'?"),
        (["--preset", "cartpol"], "did you mean 'cartpole'?"),
        (["--env", "CartPol-v1"], "CartPol"),
        (["--seeds", "x"], "'x' should be a whole number"),
        (["--jobs", "0"], "should be at least 1"),
        (["--gpus", "2"], "--gpus 2 should be at most 1"),
        (["--engine", "processes", "--address", "auto"], "leave it out, or --engine processes"),
        (["--interactions", "0"], "should be at least 1"),
        (["--agnets", "dez"], "delayzero compare --help"),
        (
            ["--env", "delayzero-tests/Signed-v0", "--agents", "dez", "delayed-q", "augmented"],
            "or choose another --agent; type --agents dez augmented",
        ),
        (["--env", "delayzero-tests/Signed-v0", "--agents", "delayed-q"], "another --agent"),
    ],
)
def test_errors_are_one_line_and_start_nothing(words, message, started, tmp_path, capsys):
    error = fails(capsys, *words)
    assert message in error
    assert "\n" not in error
    assert started == []
    assert not list(tmp_path.iterdir())


def test_the_laws_of_the_evaluation(tmp_path):
    assert usual_laws("walk:2") == ("constant:0", "constant:1", "constant:2")
    assert usual_laws("constant:0") == ("constant:0",)
    assert usual_laws("walk:15") == tuple(f"constant:{d}" for d in (0, 3, 6, 9, 12, 15))
    plan = Plan(tmp_path, delay="walk:2", laws=("constant:0", "constant:3"))
    assert plan.laws_of("dez") == ["constant:0", "constant:3"]
    assert plan.laws_of("augmented") == ["constant:0"]
    assert plan.laws_of("undelayed") == []


def test_a_constant_law_shows_no_other_queues_than_full_ones(tmp_path):
    laws = ("constant:0", "constant:2", "constant:3", "uniform:0-2")
    plan = Plan(tmp_path, delay="constant:2", laws=laws)
    assert plan.laws_of("augmented") == ["constant:2"]
    assert plan.laws_of("dez") == list(laws)


def test_the_last_evaluation_on_the_way_is_before_the_end(tmp_path):
    config = Plan(tmp_path).config("dez", 0)
    evaluations = config.interactions // config.evaluate_every
    assert evaluations == 8
    assert config.interactions - evaluations * config.evaluate_every > config.rows * config.envs


def test_prediction_errors_are_means_over_seeds(tmp_path):
    plan = Plan(tmp_path, agents=("dez",), seeds=(0, 1))
    for seed in plan.seeds:
        made = plan.run("dez", seed)
        made.folder.path.mkdir()
        made.folder.metrics.write_text("")
        prediction = {"horizon": [1, 2], "latent_error": [seed, 4 * seed]}
        prediction |= {"value_error": [[None, 1.0], [None, None]][seed]}
        result = {"interactions": 9, "score": 1.5, "scores": [1.0, 2.0], "prediction": prediction}
        result |= {"train_seconds": 10.0 + seed, "seconds": {"evaluating": 2.0}}
        made.folder.result.write_text(json.dumps(result))
    result = read_agent(plan, "dez")
    assert result.prediction == {
        "horizon": [1, 2],
        "latent_error": [0.5, 2.0],
        "value_error": [None, 1.0],
    }
    assert result.seconds == 8.5


def test_interactions_made_come_from_the_files_of_a_run(tmp_path):
    made = Plan(tmp_path).run("dez", 0)
    assert run.interactions_made(made) == 0
    made.folder.path.mkdir()
    made.folder.metrics.write_text('{"interactions": 5}\n{"interactions": 7}\n{"interac')
    assert run.interactions_made(made) == 7
    made.folder.result.write_text('{"interactions": 12}')
    assert run.interactions_made(made) == 12


DAMAGED = [
    ("result.json", {"scores": [1.0, None]}, "scores[1] is None, not a finite number"),
    ("result.json", {"scores": [float("inf")]}, "scores[0] is inf, not a finite number"),
    ("result.json", {"train_seconds": "9"}, "train_seconds is '9', not a finite number"),
    ("result.json", {"seconds": {}}, "seconds.evaluating is missing"),
    ("result.json", {"interactions": None}, "interactions is None, not a whole number"),
    ("result.json", {"prediction": {"x": []}}, "prediction.horizon is missing"),
    ("by_delay.json", {"constant:0": 5}, "constant:0 is 5, not a list of 1 or more values"),
    ("by_delay.json", {"constant:0": [1, 2, None]}, "constant:0[2] is None, not a finite number"),
]


@pytest.mark.parametrize(("name", "values", "told"), DAMAGED)
def test_damaged_results_are_one_line(name, values, told, started, tmp_path, capsys):
    words = [*WORDS, "--evaluate-delays", "constant:0", "--delay-episodes", "3"]
    assert main(["compare", *words]) == 0
    path = tmp_path / "here" / "oblivious-seed1" / name
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))
    capsys.readouterr()
    error = fails(capsys, *words)
    assert f"here/oblivious-seed1/{name} is damaged: {told}; delete it, and type" in error
    assert "\n" not in error
    path.write_text(path.read_text()[:10])
    assert f"here/oblivious-seed1/{name} is damaged; delete it, and type" in fails(capsys, *words)


def test_a_damaged_record_of_a_comparison_is_written_anew(started, tmp_path):
    assert main(["compare", *WORDS, "--evaluate-delays"]) == 0
    path = tmp_path / "here" / "compare.json"
    before = json.loads(path.read_text())
    path.write_text('{"agents": nul')
    assert main(["compare", *WORDS, "--evaluate-delays"]) == 0
    assert json.loads(path.read_text()) == before


def test_curves_of_predictions_may_differ_in_length(tmp_path):
    """Seeds that different versions of the program trained."""
    plan = Plan(tmp_path, agents=("dez",), seeds=(0, 1))
    for seed in plan.seeds:
        made = plan.run("dez", seed)
        made.folder.path.mkdir()
        made.folder.metrics.write_text("")
        prediction = {"horizon": [1, 2, 3][: 2 + seed], "value_error": [2.0, 4.0, 6.0][: 2 + seed]}
        prediction |= {"similarity": [1.0, 1.0]} if seed == 0 else {}
        result = {"interactions": 9, "score": 1.5, "scores": [1.0, 2.0], "prediction": prediction}
        result |= {"train_seconds": 10.0, "seconds": {"evaluating": 2.0}}
        made.folder.result.write_text(json.dumps(result))
    found = read_agent(plan, "dez").prediction
    assert found == {"horizon": [1, 2], "value_error": [2.0, 4.0]}


@pytest.mark.slow
def test_a_real_comparison_interrupted_once(tmp_path, monkeypatch, capsys):
    """Processes, interrupted once: training, other delays, pictures."""
    monkeypatch.chdir(tmp_path)
    words = ["compare", *WORDS, "--evaluate-delays", "constant:0", "--delay-episodes", "2"]
    words += ["--jobs", "1"]
    look = run.interactions_made

    def interrupt(made):
        if made.name == "random-seed0" and made.folder.path.exists():
            monkeypatch.setattr(run, "interactions_made", look)
            raise KeyboardInterrupt
        return look(made)

    monkeypatch.setattr(run, "interactions_made", interrupt)
    assert main(words) == 130
    assert not (tmp_path / "here" / "compare.json").exists()
    finished = tmp_path / "here" / "oblivious-seed0" / "result.json"
    written = finished.stat().st_mtime_ns
    assert main(words) == 0
    assert finished.stat().st_mtime_ns == written
    everything = json.loads((tmp_path / "here" / "compare.json").read_text())
    assert len(everything["runs"]) == 4
    assert len(everything["runs"]["random-seed1"]["by_delay"]["constant:0"]) == 2
    assert (tmp_path / "here" / "overview.png").exists()
