"""The agents in the loop: what they store, what they see, and that nothing else differs."""

import json
from dataclasses import replace

import jax
import numpy as np
import pytest

from delayzero.agents.build import BUILDERS
from delayzero.arguments import UsageError
from delayzero.evaluation.episodes import Evaluator
from delayzero.model import WorldModel
from delayzero.planning import Planner
from delayzero.playing.actor import Actor
from delayzero.playing.environments import Environments, make_training_env
from delayzero.playing.system import build_system
from delayzero.runs.weights import load_weights
from delayzero.settings import AGENTS, SearchingConfig
from delayzero.spaces import Spaces
from delayzero.training import loop
from delayzero.training.collector import Collector

from .small import (
    Crash,
    assert_same_runs,
    crash_after,
    equal_trees,
    small,
    stored,
)
from .test_collector import assert_told_right, play

SEARCHING = [name for name, kind in AGENTS.items() if issubclass(kind.settings, SearchingConfig)]


@pytest.fixture(scope="module")
def undelayed(tmp_path_factory):
    """The folder of a run without any delay wrapper."""
    folder = tmp_path_factory.mktemp("undelayed") / "run"
    assert loop.train(small(folder, agent="undelayed"), ["test"]).finished
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["dez", "augmented"])
def test_without_delay_it_is_efficientzero_bit_for_bit(agent, undelayed, tmp_path):
    """It runs through the delay wrapper; one rolls, the other observes its queue."""
    folder = tmp_path / "run"
    assert loop.train(small(folder, agent=agent, delay="constant:0"), ["test"]).finished
    for part in ("learner", "replay"):
        assert equal_trees(stored(folder, part), stored(undelayed, part))
    mine, other = (json.loads((f / "result.json").read_text()) for f in (folder, undelayed))
    assert mine["scores"] == other["scores"]
    assert (mine["delay"], other["delay"]) == ("constant:0", None)


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["dez", "augmented"])
def test_a_run_under_delay_goes_on_as_if_it_had_never_stopped(agent, tmp_path, monkeypatch):
    config = small(tmp_path / "whole", agent=agent, delay="walk:3")
    assert loop.train(config, ["test"]).finished
    broken = replace(config, folder=str(tmp_path / "broken"), checkpoint_minutes=1e-9)
    crash_after(monkeypatch, 30)
    with pytest.raises(Crash):
        loop.train(broken, ["test"])
    assert loop.train(broken, ["test"]).finished
    assert_same_runs(tmp_path / "whole", tmp_path / "broken")


@pytest.mark.parametrize("agent", SEARCHING)
def test_each_agent_stores_what_it_should(agent):
    config = small(agent=agent, delay="walk:3", rows=6, random_interactions=72, interactions=600)
    _, replay, *_ = play(config, 10)
    length = int(replay.length)
    rows = jax.tree.map(lambda x: np.asarray(x)[:length], (replay.transitions, replay.decisions))
    happened, decisions = rows
    alive = ~happened.final
    start = np.asarray(replay.start)[:length]
    time = np.arange(length)[:, None] - start
    if agent == "undelayed":
        assert not decisions.delay.any()
        np.testing.assert_array_equal(decisions.decision_time[alive], time[alive])
        np.testing.assert_array_equal(decisions.decided, happened.action)
        return
    assert set(np.unique(decisions.delay)) <= {0, 1, 2, 3}
    assert decisions.delay.max() == 3
    late = alive & (decisions.decision_time >= 0)
    made = np.clip(start + decisions.decision_time, 0, None)
    executed = decisions.decided[made, np.arange(config.envs)[None]]
    if agent not in ("oblivious", "augmented"):
        np.testing.assert_array_equal(happened.action[late], executed[late])
        assert (happened.action[alive] != decisions.decided[alive]).any()
    else:
        np.testing.assert_array_equal(happened.action, decisions.decided)
    if agent == "augmented":
        shown = decisions.queue.lengths
        np.testing.assert_array_equal(shown, decisions.delay)
    else:
        assert decisions.queue == ()


def test_targets_of_late_observations_are_those_of_their_rows():
    """The search while acting is about an older observation than the row's."""
    settings = {"agent": "oblivious-executed", "rows": 6, "random_interactions": 72}
    _, late, *_ = play(small(observation_delay="constant:3", **settings), 3)
    _, timely, *_ = play(small(**settings), 3)
    stored = int(late.length)
    np.testing.assert_array_equal(late.frames[:stored], timely.frames[:stored])
    values, expected = (np.asarray(one.targets.network_value)[:stored] for one in (late, timely))
    np.testing.assert_allclose(values, expected, rtol=1e-4, atol=1e-5)
    assert np.std(expected) > 1e-3


def test_new_rows_under_delay_are_searched_where_they_are():
    """DEZ's own searches are about later states: their policies are not those of the rows."""
    config = small(agent="dez", delay="constant:3", rows=6, random_interactions=72)
    config = replace(config, search=replace(config.search, simulations=8))
    _, delayed, *_ = play(config, 3)
    _, ignored, *_ = play(replace(config, agent="oblivious-executed"), 3)
    seen = int(delayed.length)
    frames = np.asarray(delayed.frames)[:seen] == np.asarray(ignored.frames)[:seen]
    assert frames.all(), "random play: both see the same"
    same = np.asarray(delayed.targets.network_value)[:seen]
    expected = np.asarray(ignored.targets.network_value)[:seen]
    np.testing.assert_allclose(same, expected, rtol=1e-4, atol=1e-5)
    assert np.std(same) > 1e-3


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dez") / "run"
    config = small(folder, agent="dez", delay="walk:3", prediction_rows=20)
    assert loop.train(config, ["test"]).finished
    return folder


class Idle:
    """A run that ends as soon as it begins."""

    def __init__(self, *_):
        pass

    def run(self):
        return True

    def close(self):
        pass


@pytest.mark.parametrize(
    ("agent", "share", "told"),
    [
        ("dez", 0.0, True),
        ("dez", None, False),
        ("oblivious", 0.0, False),
        ("delayed-q", 0.0, False),
    ],
)
def test_rolling_further_than_training_is_told(agent, share, told, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(loop, "Trainer", Idle)  # it is told before
    config = small(tmp_path / "run", agent=agent, delay="constant:4")
    if agent != "delayed-q":
        config = replace(config, learner=replace(config.learner, lead_share=share))
    loop.train(config, ["test"])
    assert ("--learner.lead-share 0.25 trains it that far" in capsys.readouterr().err) == told


@pytest.mark.slow
def test_a_run_can_be_evaluated_under_another_law(trained):
    system, variables = load_weights(trained)
    evaluator = Evaluator(system, 4, max_steps=30, delay="constant:4")
    assert evaluator._player.max_delay == 4
    assert len(evaluator.play(variables, 1)) == 4
    evaluator.close()


def test_a_queue_longer_than_an_agent_knows_is_refused():
    config = small(agent="augmented", delay="walk:3")
    system = build_system(config, Spaces.of(make_training_env(config)))
    with pytest.raises(UsageError, match=r"delays up to 3 .* this law has 7"):
        Evaluator(system, 4, delay="constant:7")


@pytest.mark.slow
def test_how_well_it_foresees_is_in_the_result(trained):
    prediction = json.loads((trained / "result.json").read_text())["prediction"]
    assert prediction["horizon"] == [1, 2, 3]
    measures = "latent_error", "similarity", "policy_agreement", "value_error", "action_worth"
    for name in (*measures, *(f"stale_{measure}" for measure in measures), "positions"):
        assert len(prediction[name]) == 3
        assert np.isfinite(prediction[name]).all()


def test_the_random_agent_learns_nothing(tmp_path):
    config = small(tmp_path / "random", agent="random", delay="walk:3")
    assert loop.train(config, ["test"]).finished
    result = json.loads((tmp_path / "random" / "result.json").read_text())
    assert result["updates"] == 0
    assert result["prediction"] is None
    assert len(set(result["scores"])) > 1


def test_the_random_agent_neither_searches_nor_keeps_what_it_saw(monkeypatch):
    def never(*args, **options):
        raise AssertionError("nothing is encoded or searched")

    monkeypatch.setattr(WorldModel, "represent", never)
    monkeypatch.setattr(Planner, "search", never)
    config = small(agent="random", delay="walk:3", rows=8, interactions=4000, max_steps=None)
    env = Environments.of(config)
    system = build_system(config, Spaces.of(env.delayed.env))
    assert system.replay_rows < 2 * (config.rows + config.stack)
    replay = system.empty_replay()
    collector = Collector(system, Actor(system, env))
    collector.begin()
    counts = np.zeros(2)
    for _ in range(20):
        replay, _ = collector.collect(None, replay, 0)
        rows = (int(replay.length) - 1 - np.arange(config.rows)) % replay.rows
        counts += np.bincount(np.asarray(replay.decisions.decided)[rows].ravel(), minlength=2)
    assert abs(counts[0] - counts.sum() / 2) < 2 * np.sqrt(counts.sum())
    assert int(replay.length) > 2 * replay.rows, "the ring goes round"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"agent": "dezz"}, "did you mean 'dez'"),
        ({"delay": "wolk:5"}, "walk"),
    ],
)
def test_bad_names_are_refused(change, message):
    with pytest.raises((ValueError, UsageError), match=message):
        small(**change)


@pytest.mark.parametrize("agent", ["dez", "augmented", "delayed-q"])
@pytest.mark.parametrize("reveal", ["after", "never"])
def test_an_agent_that_needs_what_is_hidden_says_so_before_anything_starts(agent, reveal, tmp_path):
    config = small(tmp_path / "run", agent=agent, delay="walk:3", reveal=reveal)
    with pytest.raises(UsageError, match=rf"'{agent}' must know .* --reveal {reveal} hides it"):
        loop.train(config, ["test"])
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("agent", "presets"), [("augmented", ("cartpole", "debug")), ("delayed-q", ("atari", "debug"))]
)
def test_agents_that_cannot_act_on_late_observations(agent, presets, tmp_path):
    config = small(
        tmp_path / "run", presets, agent=agent, delay="walk:3", observation_delay="constant:2"
    )
    with pytest.raises(UsageError, match=f"'{agent}' cannot act on late observations"):
        loop.train(config, ["test"])
    assert not (tmp_path / "run").exists()


DELAYS = {
    "rule": {"rule": "latest-arrival", "delay": "uniform:0-3"},
    "lag": {"rule": "lag-index", "delay": "uniform:0-3", "first_queue": "random"},
    "buffer": {"rule": "fixed", "delay": "uniform:0-3", "first_queue": "default"},
    "late": {"delay": "walk:2", "observation_delay": "uniform:0-3"},
    "hidden": {"delay": "walk:3", "reveal": "never", "agent": "oblivious-executed"},
    "afterwards": {"delay": "walk:3", "reveal": "after", "agent": "oblivious"},
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in ("rule", "late", "hidden") else pytest.mark.slow)
        for name in DELAYS
    ],
)
def test_delays_reach_training_and_the_audit_agrees(name):
    """The audit is on; what ran leads to all that is stored, without any delay."""
    config = small(
        stack=2, max_steps=15, rows=6, random_interactions=72, interactions=600, **DELAYS[name]
    )
    assert config.audit
    if config.agent == "oblivious":
        play(config, 10)  # its rows hold what was decided
    else:
        assert_told_right(config, 10)


@pytest.mark.slow
def test_a_run_with_late_observations_goes_on_as_if_it_had_never_stopped(tmp_path, monkeypatch):
    config = small(tmp_path / "whole", **DELAYS["late"], stack=2)
    assert loop.train(config, ["test"]).finished
    broken = replace(config, folder=str(tmp_path / "broken"), checkpoint_minutes=1e-9)
    crash_after(monkeypatch, 30)
    with pytest.raises(Crash):
        loop.train(broken, ["test"])
    assert loop.train(broken, ["test"]).finished
    assert_same_runs(tmp_path / "whole", tmp_path / "broken")


def test_builders_and_names_of_agents_agree():
    assert set(BUILDERS) == set(AGENTS)
    for name, kind in AGENTS.items():
        config = small(agent=name, delay="walk:3")
        system = build_system(config, Spaces.of(make_training_env(config)))
        assert (system.agent.queue_width == 3) == kind.sees_queue
        assert system.agent.init_state(4) == ()


def test_folders_tell_agents_and_laws_apart():
    names = {small(agent=a, delay=d).run_folder for a in SEARCHING for d in ("walk:3", "walk:5")}
    assert len(names) == 2 * len(SEARCHING) - 1, "without delay the law does not matter"
    assert small(agent="dez", delay="walk:5,up=0.1").run_folder.count("/") == 1
    others = {small(**DELAYS[name]).run_folder for name in DELAYS}
    assert len(others) == len(DELAYS)
    assert small(**DELAYS["late"]).run_folder.endswith("-walk-2-observed-uniform-0-3-seed0-debug")


def test_augmenting_what_is_no_picture_is_refused():
    config = small(presets=("minatar", "debug"))
    config = replace(config, learner=replace(config.learner, augment=True))
    with pytest.raises(UsageError, match=r"--learner\.augment False"):
        build_system(config, Spaces.of(make_training_env(config)))
