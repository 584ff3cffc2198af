import os
import signal
import time
from pathlib import Path

import pytest

from delayzero.arguments import UsageError
from delayzero.evaluation.compare import processes
from delayzero.evaluation.compare.processes import Command, environment, run_side_by_side


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Makes commands that run Python text."""
    monkeypatch.setattr(processes, "SECONDS_BETWEEN_LOOKS", 0.02)
    variables = {**os.environ, "PYTHONPATH": str(tmp_path)}

    def make(name, text):
        (tmp_path / f"{name}.py").write_text(text)
        return Command(name, (name,), tmp_path / "logs" / f"{name}.txt")

    return make, variables


def test_all_commands_run_at_most_two_at_a_time(program):
    make, variables = program
    commands = [make(f"p{i}", f"import time; time.sleep(0.2); print({i})") for i in range(5)]
    running = []
    run_side_by_side(commands, 2, variables, running.append)
    assert max(map(len, running)) == 2
    assert {name for names in running for name in names} == {c.name for c in commands}
    assert [c.log.read_text() for c in commands] == [f"{i}\n" for i in range(5)]


def test_a_failure_stops_no_other_command_and_is_reported(program):
    make, variables = program
    bad = make("bad", "import sys; sys.exit('delayzero: error: no such thing')")
    good = make("good", "print('done')")
    with pytest.raises(
        UsageError, match=r"1 of 2 .* bad; the log of the first ends: no such thing \("
    ) as error:
        run_side_by_side([bad, good], 1, variables, lambda names: None)
    assert str(bad.log) in str(error.value)
    assert good.log.read_text() == "done\n"


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_asks_the_processes_to_stop_and_waits(program, how, capsys):
    make, variables = program
    text = (
        "import signal, sys, time\n"
        "def stop(*_):\n    time.sleep(0.2); print('saved', flush=True); sys.exit(130)\n"
        "signal.signal(signal.SIGTERM, stop)\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)\n"
    )
    command, never = make("slow", text), make("never", "print('begun')")

    def look(names):
        if command.log.exists() and "ready\n" in command.log.read_text():
            os.kill(os.getpid(), how)
            time.sleep(5)

    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        run_side_by_side([command, never], 1, variables, look)
    assert command.log.read_text() == "ready\nsaved\n"
    assert not never.log.exists()
    assert signal.getsignal(signal.SIGTERM) == before
    assert "type the same command to resume" in capsys.readouterr().err


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
