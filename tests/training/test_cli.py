import subprocess
import sys

import pytest

from delayzero.cli import main
from delayzero.runs.run_folder import RunFolder
from delayzero.settings import PRESETS, compose
from delayzero.training import loop
from delayzero.training.loop import Outcome


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """The configurations that would have been trained."""
    seen = []

    def train(config, command, callbacks=None):
        seen.append(config)
        return Outcome(True, tmp_path)

    monkeypatch.setattr(loop, "train", train)
    monkeypatch.chdir(tmp_path)
    return seen


def fails(capsys, *words):
    """The error, in one line, of a command that should fail."""
    try:
        code = main(["train", *words])
    except SystemExit as ending:
        code = ending.code
    assert code == 2
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return " ".join((captured.err + captured.out).replace("│", " ").split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["cartpole", "--interaction", "5"], "--interactions"),
        (["cartpole", "--learner.batchsize", "5"], "--learner.batch-size"),
        (["cartpole", "--seed", "x"], "--seed"),
        (["cartpol"], "did you mean 'cartpole'?"),
        (["cartpole", "debg"], "did you mean 'debug'?"),
        ([], "name a preset: cartpole"),
        (["--seed", "3"], "name a preset: cartpole"),
        (["cartpole", "--envs", "0"], "--envs is 0; it should be at least 1"),
        (["cartpole", "--random-interactions", "3"], "type --random-interactions"),
        (["cartpole", "--learner.batch-size", "0"], "--learner.batch-size is 0"),
        (["cartpole", "--lerning-rate", "1"], "did you mean --learner.learning-rate?"),
        (["cartpole", "--batch_size=8"], "did you mean --learner.batch-size?"),
        (["cartpole", "-seed", "1"], "did you mean --seed?"),
        (
            ["cartpole", "--xyzzyxyzzy", "1"],
            "unknown setting --xyzzyxyzzy; type: delayzero train --help",
        ),
        (
            ["cartpole", "--env", "X-v1", "debug", "--seed", "1"],
            "presets come first; type: delayzero train cartpole debug --env X-v1 --seed 1",
        ),
        (["cartpole", "--seed", "1", "2"], "'2' belongs to no option"),
        (["cartpole", "--interactions", "500"], "nothing would be learned; type --interactions"),
        (["cartpole", "--learner.learning-rate", "nan"], "--learner.learning-rate is nan"),
        (
            ["cartpole", "--q.width=3"],
            "--q.width is not a setting of the agent 'dez' (it is one of delayed-q); type: "
            "delayzero train --agent dez --help",
        ),
        (
            ["cartpole", "--agent", "delayed-q", "--learner.learning_rate", "7"],
            "--learner.learning_rate is not a setting of the agent 'delayed-q' (it is one of dez,",
        ),
        (
            ["cartpole", "--search.simulations", "9", "--agent", "random"],
            "--search.simulations is not a setting of the agent 'random' (it is one of dez",
        ),
        (
            ["cartpole", "--agent", "delayed-q", "--discount", "0.5"],
            "--discount is not a setting of the agent 'delayed-q'",
        ),
        (
            ["cartpole", "--agent=random", "--update-ratio", "3"],
            "--update-ratio is not a setting of the agent 'random'",
        ),
        (
            ["cartpole", "--agent", "undelayed", "--delay", "walk:5"],
            "--delay is not a setting of the agent 'undelayed'",
        ),
        (["cartpole", "--agent", "dezz"], "unknown agent 'dezz'; did you mean 'dez'?"),
        (["cartpole", "--rule", "newest"], "--rule"),
        (["cartpole", "--observation-delay", "wolk:3"], "did you mean 'walk'?"),
    ],
    ids=[
        *("option", "nested-option", "value", "preset", "second-preset", "nothing"),
        *("no-preset", "too-small", "too-early", "nested-too-small"),
        *("nested-name", "no-group", "one-dash", "far-from-all", "late-preset", "two-values"),
        *("nothing-learned", "nan", "q-of-dez", "learner-of-delayed-q", "search-of-random"),
        *("discount-of-delayed-q", "ratio-of-random", "delay-of-undelayed", "no-agent"),
        *("no-rule", "no-law"),
    ],
)
def test_errors_say_what_to_type(words, message, asked, capsys):
    assert message in fails(capsys, *words)
    assert asked == []


@pytest.mark.parametrize("verb", ["train", "evaluate"])
@pytest.mark.parametrize("package", ["jax", "flax", "optax", "orbax", "mctx", "tensorboard"])
def test_a_missing_package_is_one_line(package, verb, tmp_path):
    """In a process of its own, where nothing is imported yet."""
    code = f"import sys; sys.modules[{package!r}] = None\n"
    code += f"from delayzero.cli import main; sys.exit(main([{verb!r}, 'cartpole']))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=100, cwd=tmp_path
    )
    line = f"delayzero: error: {package} is not installed; type: pip install 'delayzero[train]'\n"
    assert (done.returncode, done.stderr) == (2, line)


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["cartpole", "debug", "--help"]])
def test_help(words, asked, capsys):
    assert main(["train", *words]) == 0
    shown = capsys.readouterr().out
    assert asked == []
    assert all(f"  {name} " in shown for name in PRESETS)
    for option in ("--interactions", "--learner.batch-size", "--reanalysis.roots", "--model.kind"):
        assert option in shown
    assert ("default: 64.0" in shown) == ("cartpole" not in words)


@pytest.mark.parametrize("missing", ["jax", "tyro"])
def test_help_needs_neither_jax_nor_tyro(missing, tmp_path):
    code = f"import sys; sys.modules[{missing!r}] = None\n"
    code += "from delayzero.cli import main; sys.exit(main(['train', 'minatar', '--help']))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=100, cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (0, "")
    for words in ("minatar:breakout", "--learner.batch-size", "--observation-delay", "atari-paper"):
        assert words in done.stdout
    assert ("pip install 'delayzero[cli]'" in done.stdout) == (missing == "tyro")


def test_every_setting_can_be_typed(asked, capsys, tmp_path):
    words = ["--learner.batch_size", "32", "--clip-rewards=True", "--replay.capacity", "7000"]
    words += ["--search.method", "puct", "--max-steps", "9", "--learner.td-age", "None"]
    assert main(["train", "cartpole", *words]) == 0
    (config,) = asked
    assert config.learner.batch_size == 32
    assert config.learner.optimiser == "adam", "the preset's"
    assert config.clip_rewards is True
    assert config.replay.capacity == 7000
    assert config.search.method == "puct"
    assert config.max_steps == 9
    assert capsys.readouterr().out.strip() == str(tmp_path)
    assert main(["train", "minatar", "debug"]) == 0
    assert asked[1] == compose(["minatar", "debug"])


def test_what_an_agent_uses_can_be_typed(asked):
    q = ["--q.width", "8", "--replay.capacity=7000", "--q.batch_size", "32", "--seed", "3"]
    assert main(["train", "cartpole", "--agent", "delayed-q", *q]) == 0
    assert main(["train", "cartpole", "--model.width", "32", "--reanalysis.roots=64"]) == 0
    assert main(["train", "atari", "--agent", "random"]) == 0, "what presets set is left alone"
    assert [config.agent for config in asked] == ["delayed-q", "dez", "random"]


def test_an_interrupted_run_ends_with_130(monkeypatch, tmp_path):
    monkeypatch.setattr(loop, "train", lambda *_, **__: Outcome(False, tmp_path))
    assert main(["train", "cartpole"]) == 130


def test_unknown_environments_are_one_line(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["cartpole", "--env", "CartPol-v1", "--folder", str(tmp_path / "run")]
    assert "did you mean 'CartPole-v1'?" in fails(capsys, *words)
    again = RunFolder(tmp_path / "run")
    again.open(compose(["cartpole"]), ["delayzero"])  # what never began is in nobody's way
    again._lock.close()
