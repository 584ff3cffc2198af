"""``delayzero theory``, its parts and its page."""

import csv
import re
from fractions import Fraction
from pathlib import Path

import pytest

from delayzero.cli import main
from delayzero.tabular import theory
from delayzero.tabular.sweep import sweep

PAGE = (Path(__file__).parents[2] / "docs" / "theory.md").read_text()


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(theory, "SIZES", ((2, 1, 4),))
    monkeypatch.setattr(theory, "SWEEP_LAWS", ("walk:1",))


def test_command_prints_and_saves(small, tmp_path, capsys):
    assert main(["theory", "--problems", "2", "--save", str(tmp_path / "out")]) == 0
    text = capsys.readouterr().out
    for expected in (
        "z_5 = 5: pending [a1, a2, a4, a4, a4]",
        "z_5 = 0: pending []",
        "1/4    9/4             17/8               1/8     9/4           21/10",
        "uniform:0-2  random        (t, predicted s, z)",
        "at the most likely state",
    ):
        assert expected in text
    with (tmp_path / "out" / "theorem_2.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [Fraction(row["v_all"]) - Fraction(row["v_markov"]) for row in rows] == [
        slip * (1 - 2 * slip) for slip in theory.SLIPS
    ]
    saved = {path.name for path in (tmp_path / "out").iterdir()}
    assert saved == {
        "theorem_1.csv",
        "theorem_2.csv",
        "sufficiency.csv",
        "losses.csv",
        "theory.png",
    }


def test_a_folder_that_cannot_be_written_is_an_error_before_the_work(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(theory, "theorem_1", lambda *_: pytest.fail("the work has begun"))
    (tmp_path / "file").touch()
    for place, reason in (("file", "File exists"), ("file/out", "Not a directory")):
        assert main(["theory", "--save", str(tmp_path / place)]) == 2
        error = (
            f"cannot create the folder '{tmp_path / place}' ({reason}); name another with --save"
        )
        assert capsys.readouterr().err == f"delayzero: error: {error}\n"
    monkeypatch.setattr(theory.os, "access", lambda *_: False)  # root may write anywhere
    assert main(["theory", "--save", str(tmp_path)]) == 2
    assert "cannot write to the folder" in capsys.readouterr().err


def test_wrong_options(capsys):
    assert main(["theory", "--problems", "1"]) == 2
    assert "1 should be at least 2" in capsys.readouterr().err


def test_predicted_state_and_delay_are_enough():
    rows = theory.sufficiency(3, 0, lambda units: None)
    assert {row.short for row in rows if row.view == "(t, predicted s, z)"} == {0}
    kept = [row for row in rows if row.view == "(t, s, z_0..z_t)" and row.start == "fixed"]
    assert {row.short for row in kept} == {0}
    assert any(row.short for row in rows if row.view == "(t, s, z)")


def test_losses_of_deterministic_problems():
    losses = {loss.way: loss for loss in sweep(["deterministic"], ["constant:2"], problems=5)}
    assert losses["at the most likely state"].mean == pytest.approx(0, abs=1e-9)
    assert losses["oblivious"].mean > 0.1
    assert losses["oblivious"].problems == 5


def test_examples_of_the_page_run():
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(block, {})
