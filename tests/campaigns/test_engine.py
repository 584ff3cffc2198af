"""The engine of processes, with small programs in the place of runs."""

import os
import signal
import time
from dataclasses import replace

import pytest

from delayzero.arguments import UsageError
from delayzero.campaigns import engine
from delayzero.campaigns.engine import raise_failures, run_all
from delayzero.runs.run_folder import RunFolder
from delayzero.settings.keywords import configure


def nothing(board):
    """Look at nothing."""


def test_all_commands_run_at_most_two_at_a_time(program):
    make, processes = program
    commands = [make(f"p{i}", f"import time; time.sleep(0.2); print({i})") for i in range(5)]
    running = []
    assert run_all(commands, processes(2), lambda board: running.append(list(board.running))) == []
    assert max(map(len, running)) == 2
    assert {name for names in running for name in names} == {c.name for c in commands}
    assert [c.log.read_text() for c in commands] == [f"{i}\n" for i in range(5)]


def test_a_failure_stops_no_other_command_and_is_reported(program):
    make, processes = program
    bad = make("bad", "import sys; sys.exit('delayzero: error: no such thing')")
    good = make("good", "print('done')")
    failures = run_all([bad, good], processes(1), nothing)
    with pytest.raises(
        UsageError, match=r"1 of 2 .* bad; the log of the first ends: no such thing \("
    ) as error:
        raise_failures(failures, 2)
    assert str(bad.log) in str(error.value)
    assert good.log.read_text() == "done\n"
    raise_failures([], 2)


def test_a_failed_command_is_tried_twice_more_after_the_others(program, tmp_path):
    make, processes = program
    bad = make("bad", "import sys, time; print(time.time_ns()); sys.exit('no such thing')")
    good = make("good", "import time; print(time.time_ns())")
    waiting_again = []

    def look(board):
        if "bad" in board.reasons and not board.failed:
            waiting_again.append((board.attempts["bad"], board.reasons["bad"]))

    (failure,) = run_all([bad, good], processes(1), look)
    assert (failure.command, failure.attempts) == (bad, 3)
    assert failure.reason == "no such thing"
    assert set(waiting_again) == {(1, "no such thing"), (2, "no such thing"), (3, "no such thing")}
    times = [int(line) for line in bad.log.read_text().splitlines()[::2]]
    assert len(times) == 3
    assert times[0] < int(good.log.read_text()) < times[1]


def test_a_command_that_succeeds_the_second_time_has_not_failed(program, tmp_path):
    make, processes = program
    once = f"import pathlib, sys; p = pathlib.Path({str(tmp_path / 'was-here')!r})\n"
    flaky = make("flaky", once + "if not p.exists():\n    p.touch(); sys.exit('lost the device')")
    boards = []
    assert run_all([flaky], processes(1), boards.append) == []
    assert boards[-1].done == ["flaky"]
    assert boards[-1].attempts["flaky"] == 2
    assert boards[-1].reasons == {}


def test_an_error_of_the_user_is_not_tried_again(program):
    make, processes = program
    text = "import sys; print('delayzero: error: unknown setting', file=sys.stderr); sys.exit(2)"
    (failure,) = run_all([make("typo", text)], processes(1), nothing)
    assert (failure.attempts, failure.reason) == (1, "unknown setting")


@pytest.fixture
def held(program, tmp_path, monkeypatch):
    """A folder that this process holds, and a command that cannot run as long as it does."""
    monkeypatch.setattr(engine, "SECONDS_BETWEEN_KNOCKS", 0.1)
    make, _ = program
    folder = RunFolder(tmp_path / "run")
    folder.open(configure(["cartpole"], {}), [])
    text = (
        "import sys\n"
        "from pathlib import Path\n"
        "from delayzero.arguments import UsageError\n"
        "from delayzero.runs.run_folder import RunFolder\n"
        "from delayzero.settings.keywords import configure\n"
        "try:\n"
        f"    RunFolder(Path({str(folder.path)!r})).open(configure(['cartpole'], {{}}), [])\n"
        "except UsageError as error:\n"
        "    print('delayzero: error:', error)\n"
        "    sys.exit(2)\n"
    )
    yield folder, replace(make("held", text), lock=folder.lock)
    folder.close()


def test_a_folder_that_another_process_uses_is_no_failure(held, program, monkeypatch):
    monkeypatch.setattr(engine, "RETRIES", 0)
    make, processes = program
    folder, command = held
    others = [make(f"other{i}", "print('done')") for i in range(2)]
    reasons, looks = [], []

    def look(board):
        if "held" in board.held:
            reasons.append(board.reasons["held"])
            assert board.attempts["held"] == 0
            looks.append(len(board.done))
            if len(looks) > 20 and len(board.done) == 2:
                folder.close()

    assert run_all([command, *others], processes(1), look) == []
    assert max(looks) == 2, "the others were not kept waiting"
    (reason,) = set(reasons)
    assert reason.startswith(f"another process is training (process {os.getpid()} on ")
    lines = command.log.read_text().splitlines()
    assert len([line for line in lines if "error" in line]) == 1, "not started while it was held"


@pytest.mark.slow
def test_a_lock_that_cannot_be_seen_is_tried_now_and_then(held, program):
    _, processes = program
    folder, command = held
    tries = []

    def look(board):
        begun = command.log.read_text().count("error") if command.log.exists() else 0
        tries.append(begun)
        if begun == 4:
            folder.close()

    assert run_all([replace(command, lock=None)], processes(1), look) == []
    assert max(tries) >= 4, "more often than a failed command"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("print('step 7', flush=True); os.kill(os.getpid(), 9)", "killed by SIGKILL; step 7"),
        ("os.kill(os.getpid(), 9)", "killed by SIGKILL"),
        ("os.kill(os.getpid(), 40)", "killed by signal 40"),
        ("sys.exit(7)", "(empty, exit code 7)"),
        ("print('bar 1\\rbar 2\\r\\n  \\n'); sys.exit(1)", "bar 2"),
    ],
)
def test_the_reason_is_of_the_last_attempt(program, monkeypatch, text, reason):
    monkeypatch.setattr(engine, "RETRIES", 0)
    make, processes = program
    command = make("bad", f"import os, sys; {text}")
    command.log.parent.mkdir()
    command.log.write_text("said by an earlier attempt\n")
    (failure,) = run_all([command], processes(1), nothing)
    assert failure.reason == reason


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_asks_the_processes_to_stop_and_waits(program, how, capsys):
    make, processes = program
    text = (
        "import signal, sys, time\n"
        "def stop(*_):\n    time.sleep(0.2); print('saved', flush=True); sys.exit(130)\n"
        "signal.signal(signal.SIGTERM, stop)\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)\n"
    )
    command, never = make("slow", text), make("never", "print('begun')")

    def look(board):
        if command.log.exists() and "ready\n" in command.log.read_text():
            os.kill(os.getpid(), how)
            time.sleep(5)

    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        run_all([command, never], processes(1), look)
    assert command.log.read_text() == "ready\nsaved\n"
    assert not never.log.exists()
    assert signal.getsignal(signal.SIGTERM) == before
    assert "type the same command to resume" in capsys.readouterr().err
