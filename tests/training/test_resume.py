"""A run is a function of its configuration, however often it is interrupted."""

import functools
import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import gymnasium as gym
import jax
import numpy as np
import pytest

from delayzero.arguments import UsageError
from delayzero.cli import main
from delayzero.replay import arrays_of
from delayzero.runs.checkpoint import Checkpoints
from delayzero.settings import changed
from delayzero.training import loop
from delayzero.training.evaluating import Evaluations
from delayzero.training.loop import train

from .small import (
    EVERY_ROUND,
    Counting,
    Crash,
    NotCompiled,
    act_after,
    assert_same_runs,
    crash_after,
    equal_trees,
    metrics_of,
    newest,
    progress_of,
    small,
    steps_of,
    stored,
    trainer,
)

COMMAND = ["delayzero", "train", "test"]


def options_of(config):
    """The command line of a small run."""
    return [
        *("train", "cartpole", "debug", "--folder", config.folder),
        *("--interactions", str(config.interactions), "--learner.target-period", "3"),
        *("--reanalysis.roots", "24", "--reanalysis.positions-per-update", "9.5"),
        *("--replay.priority-exponent", "0.6", "--checkpoint-minutes", str(EVERY_ROUND)),
        *("--model.latent", "8", "--model.width", "16", "--model.lstm", "8"),
        *("--model.support", "10", "--model.channels", "8", "--model.head", "8"),
        *("--prediction-rows", "0"),
    ]


def test_the_same_seed_gives_the_same_run(whole_run, tmp_path):
    train(small(tmp_path / "again", checkpoint_minutes=EVERY_ROUND), COMMAND)
    assert_same_runs(whole_run, tmp_path / "again")
    made = progress_of(whole_run)
    assert made["sweeps"] >= 3
    assert made["position"] > 0
    assert 0 < made["sweep_credit"] < 1
    priority = np.asarray(stored(whole_run, "replay")["priority"])
    assert len(np.unique(priority)) > 20


@pytest.mark.slow
def test_another_seed_gives_another_run(whole_run, tmp_path):
    train(small(tmp_path / "other", seed=1, final_episodes=1, final_max_steps=8), COMMAND)
    for part in ("learner", "replay", "collector"):
        assert not equal_trees(stored(whole_run, part), stored(tmp_path / "other", part))


@pytest.mark.slow
def test_a_killed_process_goes_on(whole_run, tmp_path):
    config = small(tmp_path / "killed")
    process = subprocess.Popen(
        [sys.executable, "-m", "delayzero", *options_of(config)],
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 120
    checkpoints = tmp_path / "killed" / "checkpoints"
    while time.monotonic() < deadline and process.poll() is None:
        steps = [int(p.name) for p in checkpoints.glob("*") if p.name.isdigit()]
        if any(steps) and metrics_exist(config.folder):
            break
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait(30) == -signal.SIGKILL, "it ended before it was killed"
    assert not (tmp_path / "killed" / "result.json").exists()
    at = steps_of(tmp_path / "killed")
    assert 0 < at < steps_of(whole_run)
    assert main(options_of(config)) == 0
    assert_same_runs(whole_run, tmp_path / "killed")
    assert len((tmp_path / "killed" / "starts.jsonl").read_text().splitlines()) == 2


def metrics_exist(folder):
    try:
        return len(metrics_of(folder)) >= 3
    except (OSError, ValueError):
        return False


@pytest.mark.parametrize(
    "number",
    [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)],
    ids=["int", "term"],
)
def test_a_signal_stops_after_the_round_with_a_checkpoint(
    number, whole_run, tmp_path, monkeypatch, capsys
):
    options = options_of(small(tmp_path / "run"))
    options[options.index("--checkpoint-minutes") + 1] = "1000"
    before = signal.getsignal(number)
    act_after(monkeypatch, 33, lambda: signal.raise_signal(number))
    assert main(options) == 130
    assert "the same command resumes" in capsys.readouterr().err
    assert steps_of(tmp_path / "run") == 36, "the round is played to its end"
    assert signal.getsignal(number) == before
    assert not (tmp_path / "run" / "result.json").exists()
    assert main(options) == 0
    assert_same_runs(whole_run, tmp_path / "run")


@pytest.mark.slow
def test_a_second_signal_stops_at_once(tmp_path, monkeypatch):
    def twice():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    act_after(monkeypatch, 5, twice)
    assert main(options_of(small(tmp_path / "run"))) == 130
    assert steps_of(tmp_path / "run") == 4


@pytest.mark.slow
def test_many_crashes_at_any_time(whole_run, tmp_path, monkeypatch):
    config = small(tmp_path / "run", checkpoint_minutes=EVERY_ROUND)
    for steps in (29, 38):
        crash_after(monkeypatch, steps)
        with pytest.raises(Crash):
            train(config, COMMAND)
    assert 36 <= steps_of(tmp_path / "run") < steps_of(whole_run)
    assert train(config, COMMAND).finished
    assert_same_runs(whole_run, tmp_path / "run")


def test_a_crash_before_the_first_checkpoint_leaves_no_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "Programs", NotCompiled)
    config = small(tmp_path / "run", final_episodes=1)
    crash_after(monkeypatch, 30)
    with pytest.raises(Crash):
        train(config, COMMAND)
    before = metrics_of(tmp_path / "run")
    assert before
    assert train(config, COMMAND).finished
    lines = metrics_of(tmp_path / "run")
    assert lines[: len(before)] == before
    places = [(line["interactions"], line["updates"]) for line in lines]
    assert places == sorted(set(places))


@pytest.mark.slow
def test_lines_are_written_once_where_checkpoints_fall_between_them(tmp_path, monkeypatch):
    """A crash after lines, a resumed run that saves before it writes, and another crash."""
    monkeypatch.setattr(loop, "Programs", NotCompiled)
    config = small(tmp_path / "run", log_every=48, final_episodes=1)
    assert train(replace(config, folder=str(tmp_path / "whole")), COMMAND).finished
    every_round = replace(config, checkpoint_minutes=EVERY_ROUND)
    crash_after(monkeypatch, 9)  # the checkpoint is at 8 rows, 32 interactions
    with pytest.raises(Crash):
        train(every_round, COMMAND)
    crash_after(monkeypatch, 8 + 10)  # without a checkpoint on the way, at 72 interactions
    with pytest.raises(Crash):
        train(config, COMMAND)
    assert len(metrics_of(tmp_path / "run")) == 1
    crash_after(monkeypatch, 8 + 4 + 3)  # saves at 12 rows, before the line at 48 or just with it
    with pytest.raises(Crash):
        train(every_round, COMMAND)
    assert train(config, COMMAND).finished
    assert_same_runs(tmp_path / "whole", tmp_path / "run")


@pytest.mark.slow
def test_lines_of_rounds_without_updates_are_the_same(tmp_path, monkeypatch):
    """Few updates: most lines repeat the metrics of the last one."""
    monkeypatch.setattr(loop, "Programs", NotCompiled)
    config = small(tmp_path / "run", update_ratio=0.02, final_episodes=1)
    assert train(replace(config, folder=str(tmp_path / "whole")), COMMAND).finished
    updates = [line["updates"] for line in metrics_of(tmp_path / "whole")]
    first = updates.index(1)
    assert updates[first + 1] == 1
    crash_after_lines(monkeypatch, first + 1)  # right after the round of the first update
    with pytest.raises(Crash):
        train(replace(config, checkpoint_minutes=EVERY_ROUND), COMMAND)
    assert train(config, COMMAND).finished
    assert_same_runs(tmp_path / "whole", tmp_path / "run")


class InTurn:
    """Instead of a thread: does what it is given when it is waited for."""

    def __init__(self, *_, **__):
        pass

    def submit(self, work, *args):
        return SimpleNamespace(result=functools.partial(work, *args))

    def shutdown(self):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("delay", ["constant:0", "walk:3"])
def test_learning_beside_playing_gives_one_run(delay, whole_run, tmp_path, monkeypatch):
    """Whichever is faster, and however often it is interrupted."""
    config = small(tmp_path / "beside", overlap=True, final_episodes=1, final_max_steps=8)
    config = replace(config, delay=delay)
    assert train(config, COMMAND).finished
    assert not equal_trees(stored(whole_run, "learner"), stored(tmp_path / "beside", "learner"))
    with monkeypatch.context() as patch:
        patch.setattr(loop, "ThreadPoolExecutor", InTurn)
        assert train(replace(config, folder=str(tmp_path / "in-turn")), COMMAND).finished
    assert_same_runs(tmp_path / "beside", tmp_path / "in-turn")
    config = replace(config, folder=str(tmp_path / "crashed"), checkpoint_minutes=EVERY_ROUND)
    crash_after(monkeypatch, 30)
    with pytest.raises(Crash):
        train(config, COMMAND)
    assert train(config, COMMAND).finished
    assert_same_runs(tmp_path / "beside", tmp_path / "crashed")


def crash_after_lines(monkeypatch, lines):
    """Crash in the round after so many lines of metrics."""
    original, count = loop.Trainer._play, [0]

    def play(self):
        metrics = self.folder.metrics
        if metrics.exists() and len(metrics_of(self.folder.path)) == lines and not count[0]:
            count[0] += 1
            raise Crash
        return original(self)

    monkeypatch.setattr(loop.Trainer, "_play", play)


@pytest.mark.slow
@pytest.mark.parametrize("overlap", [False, True])
def test_minatar_with_frames_on_the_host(overlap, tmp_path, monkeypatch, capsys):
    """Its state cannot be saved: the actions are played again."""
    base = small(presets=("minatar", "debug"), env="minatar:breakout", stack=2, final_episodes=1)
    base = replace(base, overlap=overlap)
    base = replace(
        base,
        model=replace(base.model, kind="mlp"),
        replay=replace(base.replay, device_gigabytes=0.0),
    )
    assert train(replace(base, folder=str(tmp_path / "whole")), COMMAND).finished
    assert "they stay on the host" in capsys.readouterr().err
    config = replace(base, folder=str(tmp_path / "run"), checkpoint_minutes=EVERY_ROUND)
    crash_after(monkeypatch, 35)
    with pytest.raises(Crash):
        train(config, COMMAND)
    assert train(config, COMMAND).finished
    assert "did not come back" not in capsys.readouterr().err
    assert_same_runs(tmp_path / "whole", tmp_path / "run")
    frames = np.asarray(stored(tmp_path / "run", "replay")["frames"])
    assert frames.shape[2:] == (10, 10, 4)
    assert frames.any(axis=(2, 3, 4))[:40].all()


def atari(folder=None, **changes):
    """Played at random, which compiles little; its replay is a short ring."""
    usual = {"agent": "random", "interactions": 260}
    base = small(
        folder,
        presets=("atari", "debug"),
        delay="walk:3",
        final_episodes=1,
        final_max_steps=8,
        **usual | changes,
    )
    return changed(base, model={"kind": "mlp"})


def test_frames_of_atari_are_rebuilt(tmp_path, monkeypatch):
    """They are not in the checkpoint: the same actions show them again."""
    monkeypatch.setattr(loop, "Programs", NotCompiled)
    changes = {"env": "atari:Breakout", "max_steps": 22}
    whole = trainer(atari(tmp_path / "whole", **changes))
    whole.run()
    config = atari(tmp_path / "run", checkpoint_minutes=EVERY_ROUND, **changes)
    crash_after(monkeypatch, 50)
    first = trainer(config)
    with pytest.raises(Crash):
        first.run()
    first.folder.close()
    assert stored(tmp_path / "run", "replay")["frames"] in ((), [], None)
    again = trainer(config)
    again.checkpoints.restore()
    before, after = first.learning.replay, again.learning.replay
    assert int(after.length) == int(before.length) > 3 * after.rows, "the ring went round"
    np.testing.assert_array_equal(after.frames, before.frames)
    shown = {frame.tobytes() for row in np.asarray(after.frames) for frame in row}
    assert len(shown) > 2 * after.rows
    assert np.asarray(before.transitions.first).any(), "an episode began in it"
    again.run()
    assert_same_runs(tmp_path / "whole", tmp_path / "run")
    np.testing.assert_array_equal(again.learning.replay.frames, whole.learning.replay.frames)
    for run in (whole, first, again):
        run.close()


@pytest.mark.slow
def test_a_learning_atari_run_goes_on_with_rebuilt_frames(tmp_path, monkeypatch):
    """With what the preset does: delay, learning beside playing, frames that are learned from."""
    base = atari(agent="dez", overlap=True, max_steps=22, interactions=180)
    assert train(replace(base, folder=str(tmp_path / "whole")), COMMAND).finished
    config = replace(base, folder=str(tmp_path / "run"), checkpoint_minutes=EVERY_ROUND)
    crash_after(monkeypatch, 40)
    with pytest.raises(Crash):
        train(config, COMMAND)
    assert int(stored(tmp_path / "run", "learner")["updates"]) > 0
    assert train(config, COMMAND).finished
    assert_same_runs(tmp_path / "whole", tmp_path / "run")


def test_frames_that_do_not_come_back_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "Programs", NotCompiled)
    config = atari(tmp_path / "run", checkpoint_minutes=EVERY_ROUND)
    crash_after(monkeypatch, 4)
    with pytest.raises(Crash):
        trainer(config).run()
    monkeypatch.setattr("delayzero.envs.recording.digest", lambda *_: 1)
    with pytest.raises(UsageError, match=r"showed something else.*starts\.jsonl"):
        trainer(config).run()


@pytest.fixture
def forgetful(monkeypatch):
    """The name of an environment that cannot be brought back."""
    monkeypatch.setattr(loop, "Programs", NotCompiled)
    name = "delayzero-tests/Forgetful-v0"
    gym.register(name, Counting, kwargs={"unseeded": True, "length": 9})
    yield name
    del gym.registry[name]


def interrupted_forgetful(env, folder, monkeypatch, capsys):
    config = small(
        folder,
        env=env,
        checkpoint_minutes=EVERY_ROUND,
        max_steps=None,
        final_episodes=1,
        final_max_steps=None,
    )
    crash_after(monkeypatch, 33)
    with pytest.raises(Crash):
        train(config, COMMAND)
    at = steps_of(folder)
    capsys.readouterr()
    return config, at


@pytest.mark.slow
def test_what_cannot_be_brought_back_is_begun_again(forgetful, tmp_path, monkeypatch, capsys):
    config, at = interrupted_forgetful(forgetful, tmp_path / "run", monkeypatch, capsys)
    assert train(replace(config, checkpoint_minutes=1000.0), COMMAND).finished
    shown = capsys.readouterr().err
    assert "did not come back to where it was: episodes in flight are restarted" in shown
    replay = stored(tmp_path / "run", "replay")
    rows = {name: np.asarray(x) for name, x in replay["transitions"].items()}
    length, frames = int(replay["length"]), np.asarray(replay["frames"])
    assert rows["first"][at].all()
    assert (frames[at, :, 1] == 0).all()
    assert not (frames[at - 1, :, 1] == 9).all(), "the episodes were in flight"
    # Whatever begins comes after something that ended, which a transition said.
    np.testing.assert_array_equal(rows["first"][1:length], rows["final"][: length - 1])
    inner = rows["final"][1:length] & ~rows["first"][1:length]
    ended = (rows["terminated"] | rows["truncated"])[: length - 1]
    np.testing.assert_array_equal(ended & ~rows["final"][: length - 1], inner)
    # A row follows its predecessor in its own episode.
    same = ~rows["first"][1:length]
    step = frames[1:length] - frames[: length - 1]
    np.testing.assert_array_equal(
        step[same], np.broadcast_to([0.0, 1.0, 0.0, 0.0], step[same].shape)
    )


@pytest.mark.slow
def test_checkpoints_go_on_after_environments_began_again(forgetful, tmp_path, monkeypatch, capsys):
    config, at = interrupted_forgetful(forgetful, tmp_path / "run", monkeypatch, capsys)
    crash_after(monkeypatch, at + 9)  # the log is played again first
    with pytest.raises(Crash):
        train(config, COMMAND)
    assert int(stored(tmp_path / "run", "replay")["length"]) == at + 8
    assert train(config, COMMAND).finished
    final = stored(tmp_path / "run", "learner")
    assert int(final["updates"]) == config.total_updates


@pytest.mark.parametrize("gigabytes", [None, 0.0], ids=["device", "host"])
def test_a_resumed_run_never_has_two_replays(gigabytes, tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "Programs", NotCompiled)
    config = small(tmp_path / "run", checkpoint_minutes=EVERY_ROUND)
    config = replace(config, replay=replace(config.replay, device_gigabytes=gigabytes))
    crash_after(monkeypatch, 9)
    with pytest.raises(Crash):
        train(config, COMMAND)
    saved = np.asarray(stored(tmp_path / "run", "replay")["frames"])
    resumed, original, before = trainer(config), Checkpoints.restore, []
    others = {id(a) for a in jax.live_arrays()} - {
        id(a) for a in jax.tree.leaves(arrays_of(resumed.learning.replay))
    }
    frames = resumed.learning.replay.frames

    def restore(self, examples):
        mine = [a for a in jax.live_arrays() if id(a) not in others and a.shape == saved.shape]
        before.append((len(mine), getattr(frames, "array", saved[:0]).size))
        return original(self, examples)

    monkeypatch.setattr(Checkpoints, "restore", restore)
    resumed.checkpoints.restore()
    resumed.close()
    assert before == [(0, 0)]
    learning = resumed.learning
    for array in jax.tree.leaves((learning.state, arrays_of(learning.replay))):
        assert not getattr(array, "committed", False), "it would be compiled for once more"
    if gigabytes == 0.0:
        assert resumed.learning.replay.frames is frames, "the one that compiled functions read"
        np.testing.assert_array_equal(frames.array, saved)
        assert frames.array.flags.writeable
    else:
        np.testing.assert_array_equal(resumed.learning.replay.frames, saved)


@pytest.mark.slow
def test_a_run_killed_in_its_last_evaluation_is_evaluated_again(whole_run, tmp_path, monkeypatch):
    config = small(tmp_path / "run")
    original = Evaluations.conclude

    def crash(self, interactions):
        raise Crash

    monkeypatch.setattr(Evaluations, "conclude", crash)
    with pytest.raises(Crash):
        train(config, COMMAND)
    step = newest(tmp_path / "run")
    monkeypatch.setattr(Evaluations, "conclude", original)
    assert train(config, COMMAND).finished
    assert newest(tmp_path / "run") == step
    assert_same_runs(whole_run, tmp_path / "run")
    scores = json.loads((tmp_path / "run" / "result.json").read_text())["scores"]
    assert scores == json.loads((whole_run / "result.json").read_text())["scores"]


def test_importance_weights_after_a_resumption_are_those_before(tmp_path):
    config = small(tmp_path / "run")
    begun = trainer(config)
    begun.collector.begin()
    for _ in range(12):
        begun._round(lambda *_: None)
    learning = begun.learning
    assert learning.updates > 0
    before = learning._programs.batch(learning.state, learning.replay, jax.random.key(0))
    begun.checkpoints.save(begun._rounds)
    begun.close()
    begun.folder.close()
    resumed = trainer(config)
    resumed.checkpoints.restore()
    learning = resumed.learning
    after = learning._programs.batch(learning.state, learning.replay, jax.random.key(0))
    resumed.close()
    assert len(set(np.asarray(before[0].weights).tolist())) > 1
    assert equal_trees(before, after)
