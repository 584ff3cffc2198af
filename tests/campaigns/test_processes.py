from pathlib import Path

import pytest

from delayzero.campaigns import engines
from delayzero.campaigns.cluster import Share
from delayzero.campaigns.engine import Command, run_all
from delayzero.campaigns.engines import Where, open_engine
from delayzero.campaigns.processes import Processes, environment

from .conftest import with_path

MEMORY = "XLA_PYTHON_CLIENT_MEM_FRACTION"
SEES = """
import os, time
print(os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ.get("XLA_PYTHON_CLIENT_MEM_FRACTION"))
begun = time.time()
time.sleep(0.5)
print(begun, time.time())
"""


def test_the_variables(tmp_path, monkeypatch):
    for name in ("JAX_COMPILATION_CACHE_DIR", "NPROC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    alone, beside = environment(Path("cache"), 1), environment(Path("cache"), 64)
    assert alone["JAX_COMPILATION_CACHE_DIR"] == str(tmp_path / "cache")
    assert "NPROC" not in alone
    assert beside["NPROC"] == "1"
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "/mine")
    assert environment(Path("cache"), 2)["JAX_COMPILATION_CACHE_DIR"] == "/mine"


def test_the_memory_of_a_gpu_is_shared(monkeypatch):
    share, new_name = "XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_CLIENT_MEM_FRACTION"
    for name in (share, new_name, "XLA_PYTHON_CLIENT_PREALLOCATE"):
        monkeypatch.delenv(name, raising=False)
    assert share not in environment(Path("cache"), 1)
    beside = environment(Path("cache"), 4)
    assert float(beside[share]) == 0.225
    assert beside["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"
    assert beside["CUDA_VISIBLE_DEVICES"] == "0"
    monkeypatch.setenv(share, "0.5")
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "true")
    beside = environment(Path("cache"), 4)
    assert (beside[share], beside["XLA_PYTHON_CLIENT_PREALLOCATE"]) == ("0.5", "true")
    monkeypatch.delenv(share)
    monkeypatch.setenv(new_name, "0.5")
    assert share not in environment(Path("cache"), 4), "JAX refuses both"


def test_the_variables_of_a_daemon():
    daemon = {"CUDA_MPS_PIPE_DIRECTORY": "/pipe"}
    assert environment(Path("cache"), 2, daemon)["CUDA_MPS_PIPE_DIRECTORY"] == "/pipe"


def test_the_memory_of_several_gpus(monkeypatch):
    for name in (MEMORY, "XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_PREALLOCATE"):
        monkeypatch.delenv(name, raising=False)
    assert float(environment(Path("cache"), 6, gpus=2)[MEMORY]) == 0.3
    assert float(environment(Path("cache"), 5, gpus=2)[MEMORY]) == 0.3
    alone = environment(Path("cache"), 2, gpus=2)
    assert MEMORY not in alone, "each has a GPU of its own"
    assert "XLA_PYTHON_CLIENT_PREALLOCATE" not in alone


def seen(tmp_path, monkeypatch, there, where, runs):
    """What each of some processes sees and when it ran, with these GPUs in the machine."""
    for name in (MEMORY, "XLA_CLIENT_MEM_FRACTION", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(engines, "gpus", lambda: there)
    monkeypatch.setenv("PYTHONPATH", with_path(tmp_path))
    (tmp_path / "sees.py").write_text(SEES)
    commands = [Command(f"p{i}", ("sees",), tmp_path / f"p{i}.txt") for i in range(runs)]
    with open_engine(where, tmp_path / "cache", runs) as (engine, _):
        assert run_all(commands, engine, lambda board: None) == []
    said = [command.log.read_text().splitlines() for command in commands]
    return [(*first.split(), *map(float, times.split())) for first, times in said]


def beside(processes, gpu):
    """The most processes that ran on a GPU at the same time."""
    times = [(begun, ended) for name, _, begun, ended in processes if name == gpu]
    return max(sum(begun <= t < ended for begun, ended in times) for t, _ in times)


@pytest.mark.parametrize(("share", "jobs", "memory"), [(1, 1, "None"), (0.5, 2, "0.4500")])
def test_each_process_sees_a_gpu_of_its_own(share, jobs, memory, tmp_path, monkeypatch):
    where = Where(share=Share(gpus=share))
    processes = seen(tmp_path, monkeypatch, ["2", "GPU-5"], where, 6)
    assert {name for name, *_ in processes} == {"2", "GPU-5"}
    assert all(beside(processes, gpu) <= jobs for gpu in ("2", "GPU-5"))
    assert {fraction for _, fraction, *_ in processes} == {memory}
    starts = sorted(begun for *_, begun, _ in processes)
    assert starts[2 * jobs - 1] < min(ended for *_, ended in processes), "side by side"


def test_one_process_sees_one_gpu_if_it_takes_one_and_all_if_it_does_not(tmp_path, monkeypatch):
    take_one = Where(share=Share(gpus=1))
    assert seen(tmp_path, monkeypatch, ["0", "1"], take_one, 1)[0][0] == "0"
    (tmp_path / "p0.txt").unlink()
    assert seen(tmp_path, monkeypatch, ["0", "1"], Where(jobs=1), 1)[0][0] == "None"


def test_without_a_gpu_the_users_variable_stays(monkeypatch, tmp_path):
    monkeypatch.setattr(engines, "gpus", list)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with open_engine(Where(jobs=2), tmp_path, 2) as (engine, _):
        assert isinstance(engine, Processes)
        assert (engine.variables["CUDA_VISIBLE_DEVICES"], list(engine.gpus)) == ("", [])
