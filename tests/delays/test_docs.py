"""The code in the documentation runs."""

import doctest
import re
from pathlib import Path

import pytest

import delayzero.delays
import delayzero.envs.minatar
from delayzero.delays import parse

PAGE = (Path(__file__).parents[2] / "docs" / "delays.md").read_text()
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
    exec(code.replace("4096", "512"), names)
    assert names["model"].num_timesteps >= 512
    assert names["env"].observation_space.contains(names["observation"])


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
