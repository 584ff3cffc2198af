"""A run's time, projected with updates that do nothing; processes side by side; load."""

import json
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from .training.small import NotCompiled

WORDS = (
    *("cartpole", "debug", "--delay", "walk:3", "--interactions", "2000"),
    *("--model.latent", "8", "--model.width", "16", "--model.lstm", "8", "--model.support", "10"),
)


@pytest.fixture
def budget(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    import budget

    monkeypatch.setattr(budget, "Programs", NotCompiled)
    return budget


@pytest.fixture
def side_by_side(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    import side_by_side

    return side_by_side


@pytest.fixture
def scale_sizes(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    import scale_sizes

    return scale_sizes


@pytest.fixture
def load(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    import load

    return load


def printed(benchmark, words, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [f"{benchmark.__name__}.py", *words])
    benchmark.main()
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("overlap", [pytest.param("True", marks=pytest.mark.slow), "False"])
def test_a_run_is_projected_from_its_parts(overlap, budget, monkeypatch, capsys):
    times = {"update": 0.002, "sweep": 0.5, "play": 0.3, "play_and_update": 0.4}
    monkeypatch.setattr(budget, "each", lambda call, most: (times[call.__name__], most))
    monkeypatch.setattr(budget, "seconds", lambda call: times[call.__name__])
    made = printed(budget, [*WORDS, "--overlap", overlap], monkeypatch, capsys)
    config = budget.read_config([*WORDS, "--overlap", overlap])
    beside = 0.4 - config.updates_per_round * 0.002
    chunks = config.total_updates * config.reanalysis.positions_per_update
    chunks /= min(config.reanalysis.roots, config.random_interactions)
    split = made["projected_seconds"]
    assert split.pop("compiling") > 0
    assert split == pytest.approx(
        {
            "playing": 2000 / config.envs / config.rows * (beside if overlap == "True" else 0.3),
            "updating": config.total_updates * 0.002,
            "sweeping": chunks * 0.5,
        },
        abs=0.05,
    )
    assert made["projected_minutes"] > sum(split.values()) / 60
    assert made["updates"] == config.total_updates
    assert made["versions"]["device"] == "cpu"


def test_slow_devices_make_fewer_updates(budget, monkeypatch, capsys):
    monkeypatch.setattr(budget, "CALL_SECONDS", 0.0)
    monkeypatch.setattr(budget, "LIMIT_SECONDS", 0.0)
    assert printed(budget, WORDS, monkeypatch, capsys)["updates_per_call"] == 1


def test_two_laws_are_compared(budget, monkeypatch, capsys):
    """By a clock of its own: rounds under the walk take half as long again, and drift."""
    clock = {"now": 0.0, "drift": 1.0}

    def play_and_update(self):
        took = 0.3 if self.system.config.law == "walk:3" else 0.2
        clock["now"] += took * clock["drift"]
        clock["drift"] *= 1.1
        return self.replay.length

    monkeypatch.setattr(budget.Slice, "play_and_update", play_and_update)
    monkeypatch.setattr(budget, "time", SimpleNamespace(monotonic=lambda: clock["now"]))
    made = printed(budget, [*WORDS, "--against", "constant:0"], monkeypatch, capsys)
    assert (made["delay"], made["against"]) == ("walk:3", "constant:0")
    assert made["ratio"] == pytest.approx(1.5), "in turns: the drift is the same for both"
    assert 0 < made["standard_error"] < 0.1
    assert made["milliseconds"][0] > made["milliseconds"][1]


@pytest.mark.parametrize(("words", "message"), [
    (("--interactions", "100"), "8 rounds or more"),
    (("--agent", "undelayed", "--against", "walk:3"), "has no delay to compare"),
    (("--agent", "random"), "learns nothing"),
])  # fmt: skip
def test_what_cannot_be_projected_is_refused(words, message, budget, monkeypatch, capsys):
    base = ("cartpole", "debug", "--interactions", "2000") if "--agent" in words else WORDS
    with pytest.raises(SystemExit, match=message):
        printed(budget, [*base, *words], monkeypatch, capsys)


@pytest.mark.slow
def test_processes_make_updates_side_by_side(side_by_side, monkeypatch, capsys):
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    words = ("--preset", "cartpole", "debug", "--processes", "2", "3", "--positions", "512")
    words += ("--updates", "1", "--seconds", "0")
    made = printed(side_by_side, words, monkeypatch, capsys)
    alone, both, three = made["results"]
    assert [one["processes"] for one in (alone, both, three)] == [1, 2, 3]
    assert alone["relative_rate"] == alone["whole_runs_in_the_time_of_one"] == 1
    assert both["milliseconds_per_update"] > 0
    assert not both["mps"]


def test_figures_of_processes_side_by_side(side_by_side):
    made = side_by_side.figures([(100, 1.0), (100, 2.0)], alone=(200, 1.0))
    assert made == {
        "processes": 2,
        "milliseconds_per_update": 15.0,
        "relative_rate": 0.75,
        "whole_runs_in_the_time_of_one": 0.5,
    }


@pytest.mark.parametrize(
    ("mps", "order"),
    [
        ("auto", [(1, False), (1, True), (2, True), (3, True)]),
        ("on", [(1, False), (1, True), (2, True), (3, True)]),
        ("off", [(1, False), (2, False), (3, False)]),
        ("both", [(1, False), (2, False), (3, False), (1, True), (2, True), (3, True)]),
    ],
)
def test_with_and_without_mps(mps, order, side_by_side, monkeypatch):
    """Without it, processes look for a daemon where none is."""
    seen = []

    def measured(counts, variables):
        seen.extend((count, variables[side_by_side.PIPES] == "/daemon") for count in counts)
        return [[(1, 1.0)] * count for count in counts]

    monkeypatch.setattr(side_by_side, "measured", measured)
    daemon = {side_by_side.PIPES: "/daemon"}
    started = []

    def shared_gpu(jobs):
        started.append(jobs)
        return nullcontext(daemon if jobs > 1 else {})

    monkeypatch.setattr(side_by_side, "shared_gpu", shared_gpu)
    monkeypatch.delenv(side_by_side.PIPES, raising=False)
    results = side_by_side.compared([3, 1, 2], mps)
    assert started == [1 if mps == "off" else 3], "one daemon for all"
    assert seen == order
    assert [(made["processes"], made["mps"]) for made in results] == order


def test_mps_that_cannot_be_had_is_refused(side_by_side, monkeypatch, capsys):
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    with pytest.raises(SystemExit, match="no MPS here"):
        printed(side_by_side, ("--mps", "both"), monkeypatch, capsys)


def test_a_process_that_fails_ends_the_measurement(side_by_side, monkeypatch, capsys):
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    with pytest.raises(SystemExit, match="a process failed"):
        printed(side_by_side, ("--preset", "no-such-preset"), monkeypatch, capsys)


@pytest.mark.slow
def test_wrappers_under_load(load, monkeypatch, capsys):
    words = ("--steps", "20000", "--envs", "2", "4", "--vector-steps", "3", "--repeats", "2")
    made = printed(load, words, monkeypatch, capsys)
    long_runs, vectors = made["many_steps"], made["many_environments"]
    assert [(one["law"], one["episode"]) for one in long_runs] == [
        (law, episode) for law in load.LAWS for episode in load.EPISODES
    ]
    for one in long_runs:
        assert one["steps"] == 20_000
        assert one["time_ratio"] > 0
        assert one["resident_bytes"] > 1e6
        assert one["growth_blocks"] < 2000, "nothing is kept for each step"
    assert [one["law"] for one in vectors] == list(load.LAWS)
    for one in vectors:
        assert one["envs"] == [2, 4]
        assert all(one[name]["median"] > 0 for name in ("step_ratio", "added_ratio"))
    assert made["command"] == " ".join(("python benchmarks/load.py", *words))


def test_growth_of_memory_is_seen(load, monkeypatch):
    kept, step = [], load.DelayedExecution.step

    def leaking(self, action):
        result = step(self, action)
        kept.append(result[-1])
        if len(kept) % 1000 == 0:  # small objects may fit into memory that others have freed
            kept.append(np.ones(2**18))
        return result

    monkeypatch.setattr(load.DelayedExecution, "step", leaking)
    grown = load.many_steps("walk:15", None, 20_000, seed=0)
    assert grown["growth_blocks"] > 19_000
    assert grown["growth_bytes"] > 1e6


@pytest.fixture
def actors(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    import actors

    return actors


def test_actors_are_compared_with_the_local_engine(actors, monkeypatch, capsys):
    asked = {}

    def measure(engines, system, rounds, address):
        asked.update(engines)
        assert (system.config.envs, rounds, address) == (6, 4, None)
        return {name: [1.2 / config.shares] * rounds for name, config in engines.items()}

    monkeypatch.setattr(actors, "measure", measure)
    words = ["--actors", "2", "3", "--gpu-actors", "6", "--actor-gpus", "0.1", "--cores", "3"]
    words += ["--envs", "6", "--rounds", "4"]
    made = printed(actors, words, monkeypatch, capsys)
    speed_ups = {name: engine["speed_up"] for name, engine in made["engines"].items()}
    counts = {"local": 1, "2 on the CPU": 2, "3 on the CPU": 3, "6 on the GPU": 6}
    assert speed_ups == counts
    shares = [(one.engine, one.actor_cores, one.actor_gpus) for one in asked.values()]
    assert shares == [("local", 1, 0), ("ray", 1.5, 0), ("ray", 1, 0), ("ray", 0.5, 0.1)]
    assert made["engines"]["6 on the GPU"]["gpu"] == "6 x 0.1"
    assert made["cores"] == 3
    assert made["command"].endswith(" ".join(words))
    assert "commit" in made["versions"]


@pytest.mark.slow
def test_engines_are_measured_in_one_run(actors, monkeypatch, capsys):
    words = ["--preset", "cartpole", "debug", "--env", "CartPole-v1"]
    words += ["--actors", "1", "2", "--gpu-actors", "1", "--actor-gpus", "1", "--rounds", "2"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    made = printed(actors, words, monkeypatch, capsys)
    assert list(made["engines"]) == ["local", "1 on the CPU", "2 on the CPU", "1 on the GPU"]
    assert made["engines"].pop("1 on the GPU") is None, "no node has a GPU"
    assert all(engine["seconds"] > 0 for engine in made["engines"].values())


def test_sizes_of_what_devices_keep_and_send(scale_sizes, monkeypatch, capsys):
    words = ("cartpole", "debug", "--delay", "walk:3", "--devices", "1", "4")
    made = printed(scale_sizes, words, monkeypatch, capsys)
    sizes, alone, four = made["bytes"], made["1 devices"], made["4 devices"]
    system = scale_sizes.system_of("cartpole", "debug", delay="walk:3")
    envs, rows, frame = system.config.envs, system.replay_rows, 4 * 4
    assert sizes["replay"]["frames"] == rows * envs * frame
    batch, unroll = system.config.batch_size, system.config.learner.unroll
    assert sizes["batch"]["frames"] == batch * (1 + unroll) * frame
    assert sizes["sweep chunk"]["frames"] == system.sweep_roots * frame
    assert sizes["round"]["frames"] == system.config.rows * envs * frame
    assert sizes["learner"]["gradient"] > 4 * 10_000
    assert alone["sent per update in all"] == 0
    assert four["sent per update"]["gradient"] == 1.5 * sizes["learner"]["gradient"]
    replay = sum(sizes["replay"].values())
    assert alone["kept"] - four["kept"] == replay - replay // 4


@pytest.mark.slow
def test_collectives_are_counted(scale_sizes):
    command = [sys.executable, scale_sizes.__file__, "cartpole", "debug", "--collectives"]
    flags = "--xla_backend_optimization_level=0 --xla_force_host_platform_device_count=2"
    environment = {**os.environ, "XLA_FLAGS": flags}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    made = json.loads(done.stdout)
    counted = made["collectives of an update"]
    assert counted["all-reduce"]["bytes"] >= made["bytes"]["learner"]["gradient"]
    batch = sum(made["bytes"]["batch"].values())
    assert 0 < counted["reduce-scatter"]["bytes"] < batch
