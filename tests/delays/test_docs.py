"""The code in the documentation runs."""

import doctest
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import delayzero.delays
import delayzero.envs.minatar
from delayzero.delays import parse

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "delays.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(
    "module",
    [delayzero.delays.execution, delayzero.delays.observation, delayzero.envs.minatar],
    ids=lambda module: module.__name__,
)
def test_docstrings(module):
    result = doctest.testmod(module)
    assert result.attempted
    assert not result.failed


def test_first_example(capsys):
    exec(BLOCKS[0], {})
    assert capsys.readouterr().out == "5 5\n0 -5\n"


def test_stable_baselines3_example():
    pytest.importorskip("stable_baselines3")
    [code] = [block for block in BLOCKS if "stable_baselines3" in block]
    names = {}
    exec(code.replace("60_000", "512"), names)
    assert names["model"].num_timesteps >= 512
    assert names["env"].observation_space.contains(names["observation"])


def test_ppo_example(tmp_path):
    pytest.importorskip("stable_baselines3")
    scores = tmp_path / "scores.jsonl"
    options = ["--steps", "256", "--episodes", "2", "--law", "walk:2", "--save", str(scores)]
    script = ROOT / "examples" / "ppo_under_delay.py"
    done = subprocess.run(
        [sys.executable, str(script), *options],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    runs = [json.loads(line) for line in scores.read_text().splitlines()]
    assert [(run["observe"], len(run["scores"])) for run in runs] == [("pending", 2), ("plain", 2)]
    assert "pending" in done.stdout


def test_numbers_of_the_ppo_table():
    lines = (ROOT / "results" / "ppo-walk5.jsonl").read_text().splitlines()
    runs = [json.loads(line) for line in lines]
    for observe in ("pending", "plain"):
        [row] = re.findall(rf'^\| `observe="{observe}"` \| (.*) \|$', PAGE, re.MULTILINE)
        cells = [
            f"{run['mean']:.0f} ({min(run['scores']):.0f} to {max(run['scores']):.0f})"
            for run in runs
            if run["observe"] == observe and run["evaluation"] == "the delay goes on over episodes"
        ]
        assert row.split(" | ") == cells


def test_trace_of_the_page_is_a_trace(tmp_path):
    [block] = re.findall(r"complete trace:\n\n((?:    .*\n)+)", PAGE)
    path = tmp_path / "trace.csv"
    path.write_text(textwrap.dedent(block))
    assert parse(f"trace:{path}@20ms").max_delay == 3


def test_laws_of_the_tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("delays.csv").write_text("delay_steps\n1\n2\n")
    rows = re.findall(r"^\| (`.*?`(?:, `.*?`)*) \|", PAGE, re.MULTILINE)
    texts = [text for row in rows for text in re.findall(r"`(.*?)`", row)]
    laws = [
        text for text in texts if ":" in text or text in ("wifi", "4g", "5g", "starlink", "geo")
    ]
    assert len(laws) == 23
    for text in laws:
        if not text.startswith("callback"):
            assert parse(text).max_delay >= 0
