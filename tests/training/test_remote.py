"""Self-play in actors: what they play, what happens when they are lost, and what is refused."""

import contextlib
import importlib.util
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from delayzero.arguments import UsageError
from delayzero.campaigns.cluster import connected
from delayzero.cli import main
from delayzero.playing import Environments, build_system
from delayzero.playing.actor import Actor, seed_of_environments
from delayzero.spaces import Spaces
from delayzero.training import remote
from delayzero.training.remote import RemoteActors
from delayzero.training.worker import Worker, merged

from .mortal import needs_ray, remotely
from .small import small


class Broken(Exception):
    """Of Ray."""


class BrokenTask(Broken):
    """Of Ray, for what happened in a task."""

    def __init__(self, cause):
        super().__init__(str(cause))
        self.cause = cause


class Here:
    """Stands for the module ``ray``, with actors in this process."""

    exceptions = SimpleNamespace(
        RayError=Broken,
        RayTaskError=BrokenTask,
        ObjectStoreFullError=type("ObjectStoreFullError", (Broken,), {}),
        OutOfDiskError=type("OutOfDiskError", (Broken,), {}),
    )

    def __init__(self, cores=8):
        self.nodes = lambda: [{"Alive": True, "Resources": {"CPU": cores}}]
        self.available_resources = lambda: {"CPU": cores, "GPU": 1}
        self.started, self.options, self.lose, self.full = [], {}, {}, 0

    def remote(self, kind):
        return self._Class(self, kind)

    class _Class:
        def __init__(self, ray, kind):
            self.ray, self.kind = ray, kind

        def options(self, **options):
            self.ray.options = options
            return self

        def remote(self, *arguments):
            self.ray.started.append(arguments[2])
            return Here._Handle(self.ray, self.kind(*arguments))

    class _Handle:
        def __init__(self, ray, worker):
            self._ray, self._worker = ray, worker

        def __getattr__(self, method):
            def call(*arguments):
                return self._ray.call(self._worker, method, arguments)

            return SimpleNamespace(remote=call)

    def call(self, worker, method, arguments):
        """The outcome; of a lost call an error, before or after it was carried out."""
        losses = self.lose.get((worker._share, method), [])
        when = losses.pop(0) if losses else None
        if when == "before":
            return iter([Broken("lost before\nand more")])
        try:
            result = getattr(worker, method)(*arguments)
        except Exception as error:
            result = BrokenTask(error)
        return iter([Broken("lost after") if when == "after" else result])

    def wait(self, calls):
        return calls[-1:], calls[:-1]

    def get(self, call):
        result = next(call)
        if isinstance(result, Broken):
            raise result
        return result

    def put(self, value):
        if self.full:
            self.full -= 1
            raise self.exceptions.OutOfDiskError
        return value

    def kill(self, handle):
        pass


def system_of(config):
    env = Environments.of(config, 1)
    return build_system(config, Spaces.of(env.delayed.env))


def played(config, system, rounds, rows=6):
    """What actors in this process play, without anything between them and the caller."""
    count = config.envs // config.actors
    actors = [Actor(system, Environments.of(config, count), k) for k in range(config.actors)]
    for actor in actors:
        actor.begin(seed_of_environments(config, 0))
    found = []
    for _ in range(rounds):
        parts = [actor.play(None, rows, 0.0) for actor in actors]
        for shares in zip(*(part.steps for part in parts), strict=True):
            fields = {name: [getattr(share, name) for share in shares] for name in WHOLE}
            found.append({name: np.concatenate(parts) for name, parts in fields.items()})
        by_step = zip(*(part.endings for part in parts), strict=True)
        found.append([[end for ends in shares for end in ends] for shares in by_step])
    return found


WHOLE = ("observation", "first", "final", "delay", "decided", "executed", "reward", "terminated")


def seen(rows):
    """Rows in the form of :func:`played`."""
    return [{name: getattr(step, name) for name in WHOLE} for step in rows.steps] + [rows.endings]


def assert_equal(one, other):
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        if isinstance(a, list):
            assert a == b
        else:
            for name, array in a.items():
                np.testing.assert_array_equal(array, b[name], err_msg=name)


def remotely_played(ray, config, system, rounds, rows=6):
    actors, found = RemoteActors(ray, config, system.spaces), []
    actors.begin(seed_of_environments(config, 0))
    for _ in range(rounds):
        found += seen(actors.play(None, rows, 0.0))
    return actors, found


def test_actors_play_their_shares_of_the_environments(mortal):
    """Environment i and its delay have the seed that they have without actors."""
    config = remotely(agent="random", rows=6, max_steps=9)
    system = system_of(config)
    actors, found = remotely_played(Here(), config, system, 5)
    assert_equal(found, played(config, system, 5))
    local = Actor(system_of(small(agent="random", env="mortal:make")), Environments.of(config))
    local.begin(seed_of_environments(config, 0))
    (step,) = local.play(None, 1, 0.0).steps
    np.testing.assert_array_equal(step.observation, found[0]["observation"])
    np.testing.assert_array_equal(step.delay, found[0]["delay"])
    steps = [row for row in found if isinstance(row, dict)]
    assert actors.interactions == sum(int(np.sum(~row["final"])) for row in steps) < 5 * 6 * 4
    endings = [end for row in found if isinstance(row, list) for ends in row for end in ends]
    assert {end.env for end in endings} == {0, 1, 2, 3}
    decided = np.array([row["decided"] for row in steps])
    assert not np.array_equal(decided[:, :2], decided[:, 2:]), "each has its own randomness"


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_lost_round_is_played_again_and_counted_once(mortal, capsys, when):
    config = remotely(agent="random", max_steps=9)
    system, ray = system_of(config), Here()
    ray.lose = {(0, "begin"): [when], (1, "play"): [None, when, None, when, when]}
    actors, found = remotely_played(ray, config, system, 5)
    assert_equal(found, played(config, system, 5))
    assert ray.started == [0, 1, 0, 1, 1, 1]
    assert f"actor 1 was lost (Broken: lost {when}); it starts again" in capsys.readouterr().err
    _, numbers = actors.state()
    assert [one["steps"] for one in numbers] == [30, 30]


def test_a_state_goes_on_exactly(mortal):
    config = remotely(agent="random", max_steps=9)
    system = system_of(config)
    actors, _ = remotely_played(Here(), config, system, 2)
    arrays, numbers = actors.state()
    again = RemoteActors(Here(), config, system.spaces)
    example = again.example(numbers)
    assert jax.tree.map(np.shape, example) == jax.tree.map(np.shape, arrays)
    assert again.restore((arrays, json.loads(json.dumps(numbers))))
    assert again.interactions == actors.interactions
    assert_equal(seen(actors.play(None, 6, 0.0)), seen(again.play(None, 6, 0.0)))


def test_environments_that_do_not_come_back_begin_again(mortal, capsys):
    config = remotely(agent="random", env="mortal:make_forgetful")
    ray, system = Here(), system_of(config)
    actors, _ = remotely_played(ray, config, system, 2)
    before = actors.interactions
    ray.lose = {(1, "play"): ["before"]}
    rows = actors.play(None, 6, 0.0)
    assert rows.begun_again
    assert rows.steps[0].first.all()
    assert actors.interactions == before + sum(int(np.sum(~step.final)) for step in rows.steps)
    assert [one["steps"] for one in actors.state()[1]] == [6, 6]
    assert "episodes in flight are restarted" in capsys.readouterr().err


def test_an_actor_that_is_lost_again_and_again_ends_the_run(mortal):
    config, ray = remotely(agent="random"), Here()
    ray.lose = {(1, "begin"): ["after"] * 9}
    with pytest.raises(UsageError, match="actor 1 was lost 5 times in one round"):
        remotely_played(ray, config, system_of(config), 1)


def test_errors_of_environments_are_not_taken_for_losses(mortal):
    config, ray = remotely(agent="random"), Here()
    spaces = system_of(config).spaces
    (mortal / "mortal.py").write_text("def make():\n    raise ArithmeticError('here')")
    del sys.modules["mortal"]
    importlib.invalidate_caches()
    with pytest.raises(ArithmeticError, match="here"):
        RemoteActors(ray, config, spaces).begin(0)
    assert ray.started == [0, 1]


def test_nodes_with_another_version_of_the_environment_are_refused(mortal):
    config = remotely(agent="random")
    spaces = Spaces.of(Environments.of(small(env="delayzero/Wheel-v0"), 1).delayed.env)
    with pytest.raises(UsageError, match="install the same versions on all nodes"):
        Worker(config, spaces, 0, ".", None).begin(None, 0)


def test_weights_wait_for_room_in_the_object_store(mortal, monkeypatch, capsys):
    monkeypatch.setattr(remote, "PAUSE", 0.0)
    config, ray = remotely(agent="random"), Here()
    actors, _ = remotely_played(ray, config, system_of(config), 1)
    ray.full = 3
    actors.play(None, 6, 0.0)
    assert "object store is full" in capsys.readouterr().err
    ray.full = 99
    with pytest.raises(UsageError, match="--object-store-memory"):
        actors.play(None, 6, 0.0)


def test_what_an_actor_takes_of_a_node(mortal):
    config, ray = remotely(agent="random", actor_gpus=0.25, actor_cores=2.0), Here()
    spaces = system_of(config).spaces
    with pytest.raises(UsageError, match=r"room for 0 actors with 2 cores and 0\.25 GPUs each"):
        RemoteActors(ray, config, spaces)
    ray.nodes = lambda: [{"Alive": True, "Resources": {"CPU": 4, "GPU": 1}}]
    RemoteActors(ray, config, spaces)
    variables = ray.options["runtime_env"]["env_vars"]
    assert (ray.options["num_cpus"], ray.options["num_gpus"]) == (2.0, 0.25)
    assert variables["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.2250"
    assert variables["NPROC"] == "2"
    assert "JAX_PLATFORMS" not in variables
    RemoteActors(ray, remotely(agent="random"), spaces)
    assert ray.options["runtime_env"]["env_vars"] == {"NPROC": "1", "JAX_PLATFORMS": "cpu"}


def test_actors_that_wait_for_room_say_so(mortal, capsys):
    config, ray = remotely(agent="random", actor_cores=1.0), Here()
    spaces = system_of(config).spaces
    RemoteActors(ray, config, spaces)
    assert capsys.readouterr().err == ""
    ray.available_resources = lambda: {"CPU": 1}
    RemoteActors(ray, config, spaces)
    assert "other work fills the cluster" in capsys.readouterr().err


def test_steps_of_which_only_some_begin_episodes_are_merged(mortal):
    config = remotely(agent="random", max_steps=3)
    system, count = system_of(config), 2
    actor = Actor(system, Environments.of(config, count))
    actor.begin(0)
    first, then = actor.play(None, 2, 0.0).steps
    assert first.planned is not None
    assert then.planned is None
    shares = [jax.tree.map(lambda x: x[None], step) for step in (first, then)]
    (both,) = merged(shares)
    np.testing.assert_array_equal(both.planned, [*first.planned, [0, 0], [0, 0]])
    np.testing.assert_array_equal(both.first, [True, True, False, False])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--actors", "2"], "--actors is for Ray; type --engine ray too"),
        (["--address", "auto"], "--address is for Ray; type --engine ray too"),
        (["--actor-gpus", "1"], "--actor-gpus is for Ray"),
        (["--engine", "ray"], "needs the number of actors; type --actors 2"),
        (["--engine", "ray", "--actors", "0"], "--actors is 0; it should be at least 1"),
        (
            ["--engine", "ray", "--actors", "3", "--envs", "8"],
            "--actors is 3, which cannot share 8 environments equally; type --actors 2",
        ),
        (
            ["--engine", "ray", "--actors", "9", "--envs", "8"],
            "--actors is 9, which cannot share 8 environments equally; type --actors 8",
        ),
        (["--engine", "rays", "--actors", "2"], "engine"),
        (["--engine", "ray", "--actors", "2", "--actor-cores", "0"], "--actor-cores is 0"),
        (["--engine", "ray", "--actors", "2", "--actor-gpus", "2"], "--actor-gpus is 2"),
    ],
)
def test_settings_that_do_not_go_together(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with contextlib.suppress(SystemExit):  # of tyro
        assert main(["train", "cartpole", "debug", *words]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert list(tmp_path.iterdir()) == []


def test_without_ray_a_line_says_what_to_type(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(["train", "cartpole", "debug", "--engine", "ray", "--actors", "2"]) == 2
    assert "type: pip install 'delayzero[ray]'" in capsys.readouterr().err
    assert not Path("runs").exists()


@needs_ray
def test_an_actor_killed_in_a_round_of_a_cluster(mortal, capsys):
    """By SIGKILL, in the third round; its round is played again, with the same outcome."""
    config = remotely(agent="random", max_steps=9)
    system = system_of(config)
    wanted = played(config, system, 4)
    (mortal / "kill-15").touch()
    with connected(None) as ray:
        actors, found = remotely_played(ray, config, system, 4)
    assert_equal(found, wanted)
    assert "was lost (ActorDiedError" in capsys.readouterr().err
    assert not (mortal / "kill-15").exists()
    assert [one["steps"] for one in actors.state()[1]] == [24, 24]
