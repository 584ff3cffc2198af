"""Random input, seeded: whatever it is, the answer is a result or an error of a documented kind.

``make test`` runs a sample; ``make test-slow`` runs 100,000 laws, 2,000 command lines, 500 damaged
run folders and 600 damaged files of results.
"""

import functools
import json
import os
import shutil
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from delayzero.arguments import UsageError
from delayzero.cli import main
from delayzero.delays import DelayError, parse
from delayzero.delays.statistics import characterise
from delayzero.delays.text import LAWS
from delayzero.extras import MissingExtraError
from delayzero.runs.curves import read_curve
from delayzero.runs.run_folder import RunFolder
from delayzero.runs.weights import load_weights
from delayzero.settings.options import options
from delayzero.training import loop
from delayzero.training.loop import Outcome, train

from .evaluation.compare.test_run import WORDS as COMPARE
from .evaluation.compare.test_run import started  # noqa: F401
from .evaluation.test_paper import finished_run
from .training.small import EVERY_ROUND, Crash, NotCompiled, crash_after, small

EXPECTED = (UsageError, DelayError, MissingExtraError, OSError, gym.error.Error)
"""What the command line turns into one line."""
NUMBERS = ("0", "1", "5", "-1", "15", "2000", "2001", "0.5", "1e3", "nan", "inf")
NUMBERS += ("9" * 30, "1" * 400)
WORDS = (":", ",", "=", "@", "+", "-", "/", "ms", "max=", "up=", "mode=", "x", "", " ", "\0", "é")
NAMED = ("wifi", "4g", "5g", "starlink", "geo")


def some(rng, choices):
    return choices[int(rng.integers(len(choices)))]


def mutated(rng, text):
    """A text with a few characters, words or numbers changed."""
    for _ in range(int(rng.integers(1, 4))):
        place, end = sorted(rng.integers(0, len(text) + 1, 2).tolist())
        new = some(rng, (*NUMBERS, *WORDS, *NAMED, *LAWS))
        text = text[:place] + (new if rng.random() < 0.7 else "") + text[end:]
    return text


def random_law(rng):
    examples = [law.example for law in LAWS.values() if law.name not in ("trace", "callback")]
    text = some(rng, (*examples, *NAMED, "constant:1+walk:4", "4g@10ms", "trace:x.csv@20ms"))
    if rng.random() < 0.3:
        text = f"{text}+{some(rng, examples)}"
    return mutated(rng, text) if rng.random() < 0.9 else text


def check_laws(count, seed):
    rng, accepted = np.random.default_rng(seed), 0
    for _ in range(count):
        text = random_law(rng)
        try:
            law = parse(text)
        except DelayError:
            continue
        accepted += 1
        assert parse(str(law)) == law, text
        assert str(parse(str(law))) == str(law), text
        try:
            assert 0 <= law.max_delay <= 2000, text
        except DelayError:
            continue
    assert accepted > count / 50


def test_laws():
    check_laws(2000, seed=0)


@pytest.mark.slow
def test_many_laws():
    check_laws(100_000, seed=1)


def random_command(rng, folder):
    verb = some(
        rng, ("train", "evaluate", "curves", "results", "delays", "compare", "campaign", "x")
    )
    words = [verb]
    if verb == "train":
        words += [some(rng, ("cartpole", "minatar", "debug", "cartpol", ""))]
        agent = some(rng, ("dez", "delayed-q", "random", "undelayed", "augmented", "zzz"))
        if rng.random() < 0.5:
            words += ["--agent", agent]
        names = options(agent if agent != "zzz" else "dez")
        for _ in range(int(rng.integers(0, 4))):
            value = some(rng, (*NUMBERS, "True", "None", "walk:5", random_law(rng), ""))
            words += [some(rng, names), value]
    elif verb == "delays":
        words += [some(rng, ("show", "list", "shw")), random_law(rng)]
    elif verb == "compare":
        words += ["--delay", random_law(rng), "--agents", some(rng, ("dez", "zzz", "random"))]
        words += ["--seeds", some(rng, NUMBERS), "--folder", str(folder / "compare")]
    elif verb == "campaign":
        words += [some(rng, ("paper", "paper", "status", "missing.toml", str(folder)))]
        words += ["--agents", some(rng, ("dez", "delayed-q", "zzz"))]
        words += [some(rng, ("--games", "--seeds", "--laws", "--jobs"))]
        words += [some(rng, (*NUMBERS, "Hero", random_law(rng)))]
    else:
        words += [str(folder / some(rng, ("run", "missing", "")))]
        words += [some(rng, ("--save", "--episodes", "--delay", "--seed", "--zzz"))]
        words += [some(rng, (*NUMBERS, str(folder / "x.zzz")))]
    if rng.random() < 0.3:
        words.insert(int(rng.integers(len(words) + 1)), some(rng, (*WORDS, "--help", "-h")))
    return [word.replace("\0", "") for word in words]


def check_commands(count, seed, folder, monkeypatch):
    monkeypatch.setattr(loop, "train", lambda *_, **__: Outcome(True, folder))
    monkeypatch.setattr("delayzero.evaluation.compare.cli.compare", lambda *_: [])
    monkeypatch.setattr("delayzero.campaigns.campaign.run_campaign", lambda *_: None)
    monkeypatch.setattr("delayzero.campaigns.dry_run.dry_run", lambda *_: "")
    brief = functools.partial(characterise, streams=2, steps=50, burn_in=0)
    monkeypatch.setattr("delayzero.delays.cli.characterise", brief)
    monkeypatch.chdir(folder)
    rng, codes = np.random.default_rng(seed), []
    for _ in range(count):
        words = random_command(rng, folder)
        try:
            codes.append(main(words))
        except SystemExit as ending:
            codes.append(ending.code)
        except Exception as error:
            raise AssertionError(f"delayzero {words} raised {error!r}") from error
    assert set(codes) <= {0, 2}
    assert codes.count(2) > count / 4
    assert codes.count(0) > 0


def test_commands(tmp_path, monkeypatch):
    check_commands(15, 0, tmp_path, monkeypatch)


@pytest.mark.slow
def test_many_commands(tmp_path, monkeypatch):
    check_commands(2000, 1, tmp_path, monkeypatch)


@pytest.fixture
def interrupted(tmp_path, monkeypatch):
    """The settings of a run that crashed after some checkpoints."""
    monkeypatch.setattr(loop, "Programs", NotCompiled)
    config = small(
        tmp_path / "run",
        checkpoint_minutes=EVERY_ROUND,
        final_episodes=1,
        final_max_steps=4,
    )
    with monkeypatch.context() as patch:
        crash_after(patch, 28)
        with pytest.raises(Crash):
            train(config, ["test"])
    return config


def damage(rng, folder):
    """Flip a bit, cut, empty, delete or rewrite some file; return its path."""
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.name != "lock")
    path = some(rng, files)
    content = path.read_bytes()
    match int(rng.integers(5)):
        case 0:
            flipped = bytearray(content or b"0")
            flipped[int(rng.integers(len(flipped)))] ^= 1 << int(rng.integers(8))
            path.write_bytes(flipped)
        case 1:
            path.write_bytes(content[: int(rng.integers(len(content) + 1))])
        case 2:
            path.unlink()
        case 3:
            path.write_bytes(rng.bytes(int(rng.integers(40))))
        case _:
            rewrite(rng, path)
    return path


WRONG = (None, 8.5, -1, "x", "", [], {}, True, 10**30, float("nan"), float("inf"), [None], {"x": 1})


def rewrite(rng, path):
    """Another value somewhere in a JSON file, or in one of its lines; or a value less."""
    try:
        lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
        values = [json.loads(line) for line in lines]
    except ValueError:
        return
    place = some(rng, values) if values else None
    while isinstance(place, (dict, list)) and place:
        key = some(rng, sorted(place) if isinstance(place, dict) else range(len(place)))
        if not isinstance(place[key], (dict, list)) or rng.random() < 0.3:
            if rng.random() < 0.2:
                del place[key]
            else:
                place[key] = some(rng, WRONG)
            break
        place = place[key]
    path.write_text("".join(json.dumps(value) + "\n" for value in values))


def check_folders(count, seed, config, tmp_path, trains=True):
    rng, refused = np.random.default_rng(seed), 0
    before, run = tmp_path / "before", Path(config.run_folder)
    shutil.copytree(run, before)
    uses = (
        lambda: RunFolder(run).config(),
        lambda: load_weights(run),
        lambda: read_curve(run),
        *([lambda: train(config, ["test"])] if trains else []),
    )
    for _ in range(count):
        for _ in range(int(rng.integers(1, 3))):
            damage(rng, run)
        for use in uses:
            try:
                use()
            except EXPECTED:
                refused += 1
        shutil.rmtree(run)
        shutil.copytree(before, run)
    assert refused > count / 4 or count < 9


def test_damaged_folders(interrupted, tmp_path):
    check_folders(4, 0, interrupted, tmp_path, trains=False)


@pytest.mark.slow
def test_many_damaged_folders(interrupted, tmp_path):
    check_folders(500, 1, interrupted, tmp_path)


PREDICTION = {"horizon": [1.0, 2.0], "policy_agreement": [0.9, 0.8]}
PREDICTION |= {"stale_policy_agreement": [0.7, None]}
LAWS_BESIDE = ("--evaluate-delays", "constant:0", "--delay-episodes", "3")


@pytest.fixture
def results(started, tmp_path, monkeypatch):  # noqa: F811
    """Commands that read results, each with the folder of the files that it reads."""
    place = tmp_path / "results"
    for seed in (0, 1):
        finished_run(place / "runs" / str(seed), seed, prediction=PREDICTION)
    monkeypatch.chdir(place)
    runs = [str(place / "runs" / str(seed)) for seed in (0, 1)]
    compare = ["compare", *COMPARE, *LAWS_BESIDE]
    assert main(["results", "add", *runs, "--folder", "records"]) == 0
    assert main(compare) == 0
    return {
        "runs": [
            ["results", "add", *runs, "--folder", str(tmp_path / "new")],
            ["curves", *runs, "--save", str(tmp_path / "x.png")],
            ["report", *runs, "--out", str(tmp_path / "x.html")],
        ],
        "records": [
            ["results", "table", "records", "--out", str(tmp_path / "x.md")],
            ["results", "add", *runs, "--folder", "records"],
            ["report", "records", "--out", str(tmp_path / "x.html")],
        ],
        "here": [["report", "here", "--out", str(tmp_path / "x.html")], compare],
    }


def check_results(count, seed, results, tmp_path, capsys):
    rng, refused = np.random.default_rng(seed), 0
    place, before = tmp_path / "results", tmp_path / "before"
    shutil.copytree(place, before)
    for i in range(count):
        folder = list(results)[i % len(results)]
        if rng.random() < 0.5:
            path = damage(rng, place / folder)
        else:
            path = some(rng, sorted((place / folder).rglob("*.json*")))
            rewrite(rng, path)
        for words in results[folder]:
            how = f"{path}, {path.exists() and path.read_bytes()[:2000]!r}: delayzero {words}"
            capsys.readouterr()
            try:
                code = main(words)
            except Exception as error:
                raise AssertionError(f"{how} raised {error!r}") from error
            errors = [line for line in capsys.readouterr().err.splitlines() if "rror" in line]
            assert code in (0, 2), how
            assert len(errors) == (code == 2), (how, errors)
            refused += code == 2
        for name in ("results", "new"):
            shutil.rmtree(tmp_path / name, ignore_errors=True)
        shutil.copytree(before, place)
        os.chdir(place)
    assert refused > count / 8


def test_damaged_results(results, tmp_path, capsys):
    check_results(9, 0, results, tmp_path, capsys)


@pytest.mark.slow
def test_many_damaged_results(results, tmp_path, capsys):
    check_results(600, 1, results, tmp_path, capsys)
