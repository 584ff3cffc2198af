"""The MPS daemon, with programs that only write down what they were asked."""

import os
import shutil
import signal
import tempfile
import time
from pathlib import Path

import jax
import pytest

from delayzero.arguments import UsageError
from delayzero.campaigns import mps
from delayzero.campaigns.engines import Where
from delayzero.campaigns.mps import DEFAULT_PIPES, LOGS, PIPES, shared_gpu
from delayzero.campaigns.processes import environment
from delayzero.evaluation.compare import run
from delayzero.evaluation.compare.plan import Plan

SMI = """#!/bin/sh
echo "nvidia-smi $*" >> {calls}
echo "GPU 0: NVIDIA H200 (UUID: GPU-0)"
"""
CONTROL = """#!/bin/sh
if [ "$1" = -d ]; then
    echo "start $CUDA_MPS_PIPE_DIRECTORY $CUDA_MPS_LOG_DIRECTORY $CUDA_VISIBLE_DEVICES" >> {calls}
    (while [ -d "$CUDA_MPS_PIPE_DIRECTORY" ]; do /bin/sleep 0.05; done) &
else
    read word
    echo "$word $CUDA_MPS_PIPE_DIRECTORY $CUDA_MPS_LOG_DIRECTORY $CUDA_VISIBLE_DEVICES" >> {calls}
fi
"""


class Machine:
    """A folder of programs that is all of PATH, and what they were asked."""

    def __init__(self, folder):
        self._folder, self._calls = folder / "bin", folder / "calls.txt"
        self._folder.mkdir()

    def install(self, name, text):
        program = self._folder / name
        program.write_text(text.format(calls=self._calls))
        program.chmod(0o755)

    def remove(self, name):
        (self._folder / name).unlink()

    def asked(self):
        """The calls of the daemon's program, each as words."""
        lines = self._calls.read_text().splitlines() if self._calls.exists() else []
        return [line.split() for line in lines if not line.startswith("nvidia-smi")]


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with a GPU and the daemon's program."""
    for name in (PIPES, LOGS, "CUDA_VISIBLE_DEVICES", "JAX_PLATFORMS"):
        monkeypatch.delenv(name, raising=False)
    made = Machine(tmp_path)
    made.install("nvidia-smi", SMI)
    made.install(mps.CONTROL, CONTROL)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(mps, "DEFAULT_PIPES", tmp_path / "no-daemon")
    return made


def test_a_private_daemon_is_started_once_and_stopped_once(machine, monkeypatch, capsys):
    machine.install("nvidia-smi", SMI + 'echo "GPU 1: NVIDIA H200 (UUID: GPU-1)"\n')
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    before = signal.getsignal(signal.SIGTERM)
    with shared_gpu(2) as variables:
        folders = [variables[PIPES], variables[LOGS]]
        assert all(map(os.path.isdir, folders))
        assert machine.asked() == [["start", *folders]], "without CUDA_VISIBLE_DEVICES"
    assert machine.asked() == [["start", *folders], ["quit", *folders]]
    assert not Path(folders[0]).parent.exists()
    assert Path(folders[0]) != DEFAULT_PIPES
    assert signal.getsignal(signal.SIGTERM) == before
    assert capsys.readouterr().err == ""


def fail():
    raise UsageError("a run failed")


def terminate():
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(5)


@pytest.mark.parametrize(("body", "error"), [(fail, UsageError), (terminate, KeyboardInterrupt)])
def test_it_is_stopped_after_failures_and_interrupts(body, error, machine):
    with pytest.raises(error), shared_gpu(3):
        body()
    assert [words[0] for words in machine.asked()] == ["start", "quit"]


@pytest.mark.parametrize("temporary", ["here", "a-long-name-" * 10])
def test_paths_are_short_enough_for_sockets(temporary, machine, tmp_path, monkeypatch):
    place = tmp_path / temporary
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    monkeypatch.setattr(mps, "LONGEST_PLACE", len(str(tmp_path / "here")))
    with shared_gpu(2) as variables:
        folder = Path(variables[PIPES]).parent
    assert folder.parent == (place if temporary == "here" else Path("/tmp"))
    assert len(str(Path("/tmp") / folder.name / "pipe" / "control_privileged")) < 50


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CUDA_VISIBLE_DEVICES", ""),
        ("CUDA_VISIBLE_DEVICES", "-1"),
        ("JAX_PLATFORMS", "cpu"),
        (PIPES, "/of/the/user"),
    ],
)
def test_variables_that_keep_it_from_starting(name, value, machine, monkeypatch, capsys):
    monkeypatch.setenv(name, value)
    check_nothing_starts(machine, 2, capsys)


@pytest.mark.parametrize("missing", ["nvidia-smi", mps.CONTROL])
def test_nothing_is_started_without_the_programs(missing, machine, capsys):
    machine.remove(missing)
    check_nothing_starts(machine, 2, capsys)


@pytest.mark.parametrize("text", ["echo 'No devices found.'", "exit 9", "echo GPU 0: lost; exit 9"])
def test_nothing_is_started_without_a_gpu(text, machine, capsys):
    machine.install("nvidia-smi", f"#!/bin/sh\n{text}\n")
    check_nothing_starts(machine, 2, capsys)


def test_nothing_is_started_for_one_process(machine, capsys):
    check_nothing_starts(machine, 1, capsys)


def test_nothing_is_started_beside_a_daemon_at_the_default_place(machine, tmp_path, capsys):
    (tmp_path / "no-daemon").mkdir()
    written = tmp_path / "no-daemon" / f"{mps.CONTROL}.pid"
    written.write_text(f"{os.getpid()}\n")
    check_nothing_starts(machine, 2, capsys)
    written.write_text("999999999\n")
    with shared_gpu(2) as variables:
        assert variables, "the file of a daemon that has ended"


def check_nothing_starts(machine, jobs, capsys):
    with shared_gpu(jobs) as variables:
        assert variables == {}
    assert machine.asked() == []
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("text", "problem"),
    [("echo no; echo permission >&2; exit 1", "no permission"), ("exit 3", "exit code 3")],
)
def test_a_failure_to_start_is_reported_and_survived(text, problem, machine, capsys):
    machine.install(mps.CONTROL, f'#!/bin/sh\necho "$1" >> {{calls}}\n{text}\n')
    with shared_gpu(2) as variables:
        assert variables == {}
    assert machine.asked() == [["-d"]], "nothing to stop"
    output = capsys.readouterr().err
    assert output == f"{mps.CONTROL} failed, processes take turns on the GPU: {problem}\n"


def test_a_program_that_cannot_be_run_is_reported_and_survived(
    machine, tmp_path, monkeypatch, capsys
):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(mps, "LONGEST_PLACE", 1000)
    machine.install(mps.CONTROL, "#!/no/such/shell\n")
    with shared_gpu(2) as variables:
        assert variables == {}
    assert mps.CONTROL in capsys.readouterr().err
    assert not list((tmp_path / "temporary").iterdir())


def test_a_daemon_that_does_not_stop_is_reported(machine, capsys):
    machine.install(mps.CONTROL, '#!/bin/sh\n[ "$1" = -d ]\n')
    with shared_gpu(2) as variables:
        pass
    assert f"type: echo quit | {PIPES}={variables[PIPES]}" in capsys.readouterr().err
    assert Path(variables[PIPES]).exists()
    shutil.rmtree(Path(variables[PIPES]).parent)


def test_a_comparison_hands_the_variables_on_and_stops_the_daemon(machine, tmp_path, monkeypatch):
    given = []

    def train(plan, engine):
        given.append(engine.variables)
        raise UsageError("a run failed")

    monkeypatch.setattr(run, "check", lambda plan: None)
    monkeypatch.setattr(run, "_train", train)
    with pytest.raises(UsageError, match="a run failed"):
        run.compare(Plan(tmp_path), Where(jobs=2), ["compare"])
    (start, *folders), (stop, *_) = machine.asked()
    assert (start, stop) == ("start", "quit")
    assert [given[0][PIPES], given[0][LOGS]] == folders
    assert jax.config.jax_platforms == "cpu", "this process leaves the GPU to the runs"


def test_the_users_logs_stay_where_they_are(machine, monkeypatch):
    monkeypatch.setenv(LOGS, "/logs/of/the/user")
    with shared_gpu(2) as variables:
        given = environment(Path("cache"), 2, variables)
    assert given[LOGS] == "/logs/of/the/user"
    assert given[PIPES] == variables[PIPES]
    assert machine.asked()[0] == ["start", variables[PIPES], "/logs/of/the/user"]


@pytest.mark.parametrize(
    ("visible", "found"),
    [
        (None, ["0", "1", "2"]),
        ("", []),
        ("-1", []),
        ("NoDevFiles", []),
        ("2", ["2"]),
        (" 2, 0", ["2", "0"]),
        ("1,7,0", ["1"]),
        ("GPU-1,MIG-2", ["GPU-1", "MIG-2"]),
    ],
)
def test_the_gpus_of_a_machine(visible, found, machine, monkeypatch):
    lines = [f'echo "GPU {i}: NVIDIA H200 (UUID: GPU-{i})"' for i in range(3)]
    machine.install("nvidia-smi", "\n".join(["#!/bin/sh", *lines]))
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert mps.gpus() == found
    assert mps.has_gpu() is bool(found)
