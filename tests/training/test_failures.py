"""Losses that are not finite, budgets, and rounds."""

import json
import math
import re
from dataclasses import replace

import gymnasium as gym
import jax
import numpy as np
import pytest

from delayzero.arguments import UsageError
from delayzero.evaluation import episodes
from delayzero.playing.environments import Environments
from delayzero.training import evaluating, loop, reporting
from delayzero.training.collector import Collector
from delayzero.training.learning import DivergedError
from delayzero.training.loop import train

from .small import (
    EVERY_ROUND,
    Counting,
    Crash,
    NotCompiled,
    crash_after,
    metrics_of,
    newest,
    small,
    stored,
    trainer,
)

COMMAND = ["delayzero", "train"]


@pytest.fixture
def counting():
    """Register an environment with options; its name."""
    name = "delayzero-tests/CountingWith-v0"

    def register(**options):
        gym.register(name, Counting, kwargs=options)
        return name

    yield register
    gym.registry.pop(name, None)


@pytest.mark.parametrize(
    ("bad", "overlap"),
    [
        pytest.param(math.nan, False, id="nan", marks=pytest.mark.slow),
        pytest.param(math.nan, True, id="nan-in-the-thread"),
        pytest.param(math.inf, False, id="inf", marks=pytest.mark.slow),
    ],
)
def test_a_reward_that_is_not_finite_ends_the_run(bad, overlap, counting, tmp_path):
    """Environments 0 to 3 all give it in their 30th step, after learning began."""
    env = counting(bad_step=30, bad_reward=bad)
    folder = tmp_path / "run"
    config = small(
        folder,
        env=env,
        checkpoint_minutes=EVERY_ROUND,
        max_steps=None,
        final_max_steps=None,
        overlap=overlap,
    )
    with pytest.raises(DivergedError, match="not finite") as failed:
        train(config, COMMAND)
    told = str(failed.value)
    assert "rewards of the environment are not finite" in told
    assert f"fix {env}, or wrap it so that its rewards are finite" in told
    update = int(told.split("update ")[1].split(":")[0])
    assert 0 < update < config.total_updates
    place = folder / f"failed-batch-{update}.npz"
    assert str(place) in told
    with np.load(place) as batch:
        assert batch["observation"].shape == (16, 1, 4)
        assert not (np.isfinite(batch["value"]).all() and np.isfinite(batch["prefix"]).all())
        assert np.isfinite(batch["observation"]).all()
    kept = stored(folder, "learner")
    assert f"checkpoint {newest(folder).name} is intact" in told
    assert 0 < int(kept["updates"]) <= update
    assert int(kept["failed"]) == -1
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(kept["variables"]))
    go_on = trainer(config)
    go_on.checkpoints.restore()
    assert go_on.learning.updates == int(kept["updates"])
    go_on.close()
    for line in (folder / "metrics.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))


@pytest.mark.slow
def test_an_observation_that_is_not_finite_is_named_as_the_cause(counting, tmp_path):
    env = counting(blind=30)
    config = small(tmp_path / "run", env=env, max_steps=None, final_max_steps=None)
    with pytest.raises(DivergedError, match="observations of the environment are not") as failed:
        train(config, COMMAND)
    assert "learning-rate" not in str(failed.value)
    assert f"fix {env}, or wrap it" in str(failed.value)


def full_disk(*_, **__):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("ahead", [0, 1, 5])
def test_it_is_named_wherever_it_is_in_the_window(ahead, tmp_path, monkeypatch):
    """A target is made of more than the frames that a batch has."""
    monkeypatch.setattr(loop, "Programs", NotCompiled)
    run = trainer(small(tmp_path / "run"))
    run.collector.begin()
    for _ in range(6):
        run._play()
    learning = run.learning
    sample, batch = learning._programs.batch(learning.state, learning.replay, learning._key)
    learning._programs.batch = lambda *_: (sample, batch)
    with pytest.raises(DivergedError, match="the loss or its gradient is not finite"):
        learning._explain_failure(3)
    with monkeypatch.context() as patch:
        patch.setattr(np, "savez_compressed", full_disk)
        with pytest.raises(DivergedError, match=r"could not be saved \(No space left"):
            learning._explain_failure(3)
    assert learning._system.learner.window == 5
    slot = (int(sample.times[2]) + ahead) % learning.replay.rows
    frames = learning.replay.frames.at[slot, int(sample.envs[2])].set(math.nan)
    learning.replay = learning.replay._replace(frames=frames)
    with pytest.raises(DivergedError, match="observations of the environment are not finite"):
        learning._explain_failure(3)
    run.close()


@pytest.mark.parametrize(
    ("ratio", "tail", "rows"), [(0.37, 5, 3), (2.0, 0, 4), (0.0, 3, 5)], ids=str
)
def test_updates_are_due_exactly(ratio, tail, rows, tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "Programs", NotCompiled)
    config = small(tmp_path / "run", update_ratio=ratio, tail_updates=tail, rows=rows, log_every=1)
    run = trainer(config)
    original, seen = run._round, []

    def watched(advance):
        played = run.collector.interactions < config.interactions
        original(advance)
        seen.append((played, run.collector.interactions, run.learning.updates))

    monkeypatch.setattr(run, "_round", watched)
    monkeypatch.setattr(run.evaluations, "conclude", lambda _: None)
    assert run.run()
    run.close()
    for played, interactions, updates in seen:
        if played:
            assert updates == config.updates_due(interactions)
    assert 0 <= seen[-1][1] - config.interactions < config.envs
    assert seen[-1][2] == config.total_updates
    tail_rounds = [updates for played, _, updates in seen if not played]
    assert len(tail_rounds) == (0 if tail == 0 else -(-tail // max(1, round(ratio * rows * 4))))
    assert [line["updates"] for line in metrics_of(tmp_path / "run")] == [u for *_, u in seen]


@pytest.mark.parametrize("log_every", [16, 10_000])
def test_the_tail_is_logged_as_often_as_the_rest(log_every, tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "Programs", NotCompiled)
    config = small(
        tmp_path / "run", update_ratio=0.25, rows=4, tail_updates=42, log_every=log_every
    )
    run = trainer(config)
    monkeypatch.setattr(run.evaluations, "conclude", lambda _: None)
    assert run.run()
    run.close()
    before = config.updates_due(config.interactions)
    ends = [*range(4, 42, 4), 42]  # updates of the tail after each of its rounds
    written, done = [], config.interactions
    for end in ends:
        now = config.interactions + end
        if now // log_every > done // log_every or end == 42:
            written.append(before + end)
        done = now
    assert len(written) == (4 if log_every == 16 else 1)
    lines = [line["updates"] for line in metrics_of(tmp_path / "run")]
    assert [updates for updates in lines if updates > before] == written
    assert len(lines) > len(written) or log_every > 16


def test_who_does_not_learn_has_no_tail(tmp_path, monkeypatch):
    config = small(tmp_path / "run", agent="random", log_every=32, rows=1)
    run = trainer(config)
    assert run._done() == 0
    monkeypatch.setattr(run.evaluations, "conclude", lambda _: None)
    assert run.run()
    run.close()
    logged = [line["interactions"] // 32 for line in metrics_of(tmp_path / "run")]
    assert logged[:-1] == [*range(1, config.interactions // 32 + 1)]
    assert run._done() == config.interactions


class Clock:
    """Time that goes on only when something is said to take it."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def taking(self, seconds, function):
        """The function, taking so long."""

        def longer(*args, **kwargs):
            self.now += seconds
            return function(*args, **kwargs)

        return longer


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    for module in (loop, reporting):
        monkeypatch.setattr(module, "time", found)
    return found


class Nothing:
    """That was foreseen."""

    def lists(self):
        return {}


@pytest.mark.slow
def test_training_takes_what_is_neither_evaluating_nor_coming_back(clock, tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "Programs", NotCompiled)
    play, restore = episodes.Evaluator.play, Environments.restore
    monkeypatch.setattr(episodes.Evaluator, "play", clock.taking(100, play))
    foresee = clock.taking(10, lambda *_: Nothing())
    monkeypatch.setattr(evaluating, "foresight_program", lambda _: foresee)
    monkeypatch.setattr(evaluating, "measure_foresight", clock.taking(7, lambda *_: {}))
    monkeypatch.setattr(Environments, "restore", clock.taking(10_000, restore))
    monkeypatch.setattr(Collector, "play", clock.taking(1, Collector.play))
    monkeypatch.setattr(
        NotCompiled, "compile_seconds", property(lambda _: 40.0, lambda *_: None), raising=False
    )
    config = small(
        tmp_path / "run",
        evaluate_every=60,
        evaluate_episodes=1,
        evaluate_max_steps=5,
        final_episodes=1,
        final_max_steps=4,
        prediction_rows=8,
        checkpoint_minutes=EVERY_ROUND,
    )
    with monkeypatch.context() as patch:
        crash_after(patch, 33)
        with pytest.raises(Crash):
            train(config, COMMAND)
    assert train(config, COMMAND).finished
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    rounds = int(newest(tmp_path / "run").name)
    assert result["seconds"]["evaluating"] == 2 * 110
    assert result["seconds"]["acting"] == result["train_seconds"] - 220
    assert 0 < result["seconds"]["acting"] <= rounds
    assert result["evaluate_seconds"] == 107
    assert result["compile_seconds"] == 80


def test_sweeps_search_as_many_positions_as_they_should(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "Programs", NotCompiled)
    config = small(tmp_path / "run", update_ratio=1.0)
    run = trainer(config)
    monkeypatch.setattr(run.evaluations, "conclude", lambda _: None)
    assert run.run()
    run.close()
    roots = run.learning._system.sweep_roots
    searched = roots * (sum(run.learning._programs.swept) + run.learning.numbers()["sweep_credit"])
    wanted = config.reanalysis.positions_per_update * config.total_updates
    assert searched == pytest.approx(wanted)


def test_no_position_is_searched_twice_in_a_round(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "Programs", NotCompiled)
    config = small(tmp_path / "run", update_ratio=1.0)
    config = replace(config, reanalysis=replace(config.reanalysis, positions_per_update=1000.0))
    run = trainer(config)
    monkeypatch.setattr(run.evaluations, "conclude", lambda _: None)
    assert run.run()
    run.close()
    stored = int(run.learning.replay.length) * config.envs
    roots = run.learning._system.sweep_roots
    assert max(run.learning._programs.swept) * roots < stored + roots


def test_evaluations_on_the_way(tmp_path, monkeypatch):
    played = []

    class Noted(episodes.Evaluator):
        def play(self, variables, seed, advance=None):
            found = super().play(variables, seed, advance)
            played.append(found)
            return found

    monkeypatch.setattr(evaluating, "Evaluator", Noted)
    monkeypatch.setattr(loop, "Programs", NotCompiled)
    config = small(
        tmp_path / "run", evaluate_every=60, evaluate_episodes=1, final_episodes=1, log_every=10_000
    )
    train(replace(config, evaluate_max_steps=5, final_max_steps=4), COMMAND)
    lines = [line for line in metrics_of(tmp_path / "run") if "evaluation/score" in line]
    assert [line["interactions"] // 60 for line in lines] == [1, 2]
    assert [found[0].length for found in played] == [5, 5, 4]
    assert [line["evaluation/score"] for line in lines] == [5.0, 5.0]
    text = (tmp_path / "run" / "result.json").read_text()
    json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_score_that_is_not_finite_is_no_result(bad, counting, tmp_path):
    """An agent that learns nothing meets the reward in its evaluation."""
    env = counting(bad_step=3, bad_reward=bad)
    config = small(tmp_path / "run", agent="random", env=env, final_episodes=2, max_steps=None)
    expected = f"a reward of the environment is {bad:g}, so its episode has no score; fix {env}, or"
    with pytest.raises(UsageError, match=re.escape(expected)):
        train(replace(config, final_max_steps=None), COMMAND)
    assert not (tmp_path / "run" / "result.json").exists()
    assert newest(tmp_path / "run").exists()
