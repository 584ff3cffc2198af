"""What is recorded of the machine, and what is said when a run is resumed on another one."""

import json
import os
import subprocess
import sys

import pytest

from delayzero.arguments import UsageError
from delayzero.runs import machine, run_folder
from delayzero.runs.machine import differences, threads, versions
from delayzero.runs.run_folder import RunFolder
from delayzero.settings import PlanningConfig

FLAG = "--xla_cpu_multi_thread_eigen=true"
COUNT = """
import collections, os, pathlib, sys
os.sched_setaffinity(0, eval(sys.argv[1]))
import jax.numpy as jnp
from delayzero.runs.machine import threads
jnp.ones((64, 64)).sum().block_until_ready()
tasks = pathlib.Path("/proc/self/task").glob("*/comm")
names = collections.Counter(task.read_text().strip() for task in tasks)
print(threads(), names["tf_XLAEigen"])
"""


@pytest.mark.parametrize("variables", [{}, {"NPROC": "3", "PJRT_NPROC": "2"}], ids=str)
def test_the_threads_are_those_that_xla_starts(variables):
    """In a process of its own: XLA starts them once."""
    others = {k: v for k, v in os.environ.items() if k not in machine.THREAD_VARIABLES}
    core = {min(os.sched_getaffinity(0))}
    done = subprocess.run(
        [sys.executable, "-c", COUNT, str(core)],
        env={**others, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    expected = variables.get("PJRT_NPROC", variables.get("NPROC", "1"))
    assert done.stdout.split() == [expected, expected]


def test_a_variable_that_is_no_number_is_passed_over(monkeypatch):
    monkeypatch.delenv("PJRT_NPROC", raising=False)
    monkeypatch.setenv("NPROC", "many")
    assert threads() == len(os.sched_getaffinity(0))


def test_what_is_recorded(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", FLAG)
    made = versions("CartPole-v1")
    assert json.loads(json.dumps(made)) == made
    assert made["threads"] == threads()
    assert made["xla_flags"] == FLAG
    assert made["device"] == "cpu"
    assert made["cpu"]
    assert {"jax", "jaxlib", "numpy", "python", "gymnasium", "commit", "libc"} <= set(made)
    assert not {"ale-py", "minatar"} & set(made), "this run does not use them"


@pytest.mark.parametrize(
    ("env", "package"),
    [("atari:Pong", "ale-py"), ("minatar:breakout", "minatar"), ("flax.envs:Mine-v0", "flax")],
)
def test_the_package_of_the_environment_is_recorded(env, package):
    assert versions(env)[package]


@pytest.mark.parametrize(
    ("lines", "cpu", "features"),
    [
        (
            "model name\t: Some CPU\nflags\t\t: fpu avx2 fma sse4_2 amx_tile avx512f\n"
            "model name\t: Some CPU\nflags\t\t: fpu\n",
            "Some CPU",
            "amx_tile avx2 avx512f fma sse4_2",
        ),
        ("processor : 0\nFeatures : fp asimd sve bf16 aes\n", None, "asimd bf16 sve"),
        ("", None, ""),
    ],
    ids=["x86", "arm", "nothing"],
)
def test_features_of_the_cpu(lines, cpu, features, monkeypatch):
    monkeypatch.setattr(machine.Path, "read_text", lambda self, errors=None: lines)
    found = machine._cpu()
    assert found["cpu_features"] == features
    assert found["cpu"] == cpu or (cpu is None and found["cpu"])


BEFORE = {
    **{"device": "cpu", "threads": 2, "cpu": "A", "cpu_features": "avx avx2", "jax": "1"},
    **{"xla_flags": "", "commit": "a" * 40, "machine": "Linux-1"},
}


@pytest.mark.parametrize(
    ("before", "change", "told"),
    [
        ({}, {}, []),
        ({}, {"threads": 1}, ["threads 2 (now 1)"]),
        ({}, {"jax": "2"}, ["jax 1 (now 2)"]),
        ({}, {"xla_flags": "--x\n--y"}, ["xla flags none (now --x --y)"]),
        ({}, {"cpu_features": "avx fma"}, ["cpu features (now +fma -avx2)"]),
        ({}, {"commit": "b" * 40 + "*"}, ["commit aaaaaaa (now bbbbbbb*)"]),
        ({}, {"commit": None}, ["commit aaaaaaa (now None)"]),
        ({}, {"machine": "Linux-2"}, []),
        ({}, {"device": "H200", "threads": 1}, ["device cpu (now H200)", "threads 2 (now 1)"]),
        ({"device": "H200"}, {"device": "H200", "threads": 1, "cpu": "B"}, []),
        ({"threads": None}, {}, ["threads None (now 2)"]),
        ({"cpu_features": 5}, {}, ["cpu features 5 (now avx avx2)"]),
    ],
)  # fmt: skip
def test_differences_are_named(before, change, told):
    assert sorted(differences({**BEFORE, **before}, {**BEFORE, **change})) == sorted(told)


@pytest.mark.parametrize("before", [None, {}, [], "x", 3, {"delayzero": "0"}])
def test_what_is_unknown_is_not_named(before):
    assert differences(before, BEFORE) == []


@pytest.fixture
def begun(tmp_path):
    """The folder of a run that has begun."""
    opened(tmp_path)
    (tmp_path / "checkpoints" / "5").mkdir(parents=True)
    return tmp_path


def opened(path):
    folder = RunFolder(path)
    try:
        folder.open(PlanningConfig(), ["delayzero"])
    finally:
        folder.close()


def on_one_thread(monkeypatch):
    monkeypatch.setattr(run_folder, "versions", lambda env: {**versions(env), "threads": 77})


def test_the_same_machine_is_silent(begun, capsys):
    opened(begun)
    assert capsys.readouterr().err == ""


def test_another_machine_is_named_in_one_line(begun, capsys, monkeypatch):
    on_one_thread(monkeypatch)
    opened(begun)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"warning: {begun} was last trained with threads {threads()} (now 77);")
    opened(begun)
    assert capsys.readouterr().err == "", "the last start counts"


def test_a_run_without_a_checkpoint_begins_here(tmp_path, capsys, monkeypatch):
    opened(tmp_path)
    on_one_thread(monkeypatch)
    opened(tmp_path)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "text",
    [
        '{"dtype": "float32"}\n',
        '{"dtype": "float32", "versions": null}\n',
        '{"dtype": "float32", "versions": {"delayzero": "0.1", "machine": "x", "numpy": null}}\n',
        '{"dtype": "float32"}\n{"dtype": "flo',
    ],
)
def test_older_records_are_no_obstacle(text, begun, capsys):
    (begun / "starts.jsonl").write_text(text)
    opened(begun)
    assert len(capsys.readouterr().err.splitlines()) <= 1
    assert len((begun / "starts.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize("text", ["{\n", "[]\n", "5\n", "\x00\n", '{"dtype": "float32"}\nx\n'])
def test_a_damaged_record_is_one_line(text, begun):
    (begun / "starts.jsonl").write_text(text)
    with pytest.raises(UsageError, match=r"starts\.jsonl is damaged; restore a copy") as told:
        opened(begun)
    assert "\n" not in str(told.value)
