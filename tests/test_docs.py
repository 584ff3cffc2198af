"""The commands of the documentation are accepted, and name the folders that commands make."""

import shlex
from pathlib import Path

import pytest

from delayzero.cli import main
from delayzero.evaluation.compare import cli as compare_cli
from delayzero.evaluation.compare.run import check
from delayzero.training import loop
from delayzero.training.loop import Outcome

PAGES = sorted((Path(__file__).parents[1] / "docs").glob("*.md"))


def commands(verb):
    """(page, words) of the indented lines that begin with ``delayzero VERB``."""
    lines = [(page.name, line) for page in PAGES for line in page.read_text().splitlines()]
    return [
        (page, shlex.split(line, comments=True)[1:])
        for page, line in lines
        if line.startswith(f"    delayzero {verb} ") or line.strip() == f"delayzero {verb}"
    ]


@pytest.fixture
def made(monkeypatch, tmp_path):
    """The folders of the runs that would have been made."""
    folders = []

    def train(config, command):
        folders.append(config.run_folder)
        return Outcome(True, tmp_path)

    monkeypatch.setattr(loop, "train", train)
    monkeypatch.chdir(tmp_path)
    return folders


def test_training_and_what_is_done_with_its_runs(made):
    typed = commands("train")
    assert {page for page, _ in typed} >= {"agents.md", "efficientzero.md", "paper.md"}
    for _, words in typed:
        assert main(words) == 0
    evaluated = [words[1] for _, words in commands("evaluate")]
    assert evaluated
    assert set(evaluated) <= set(made)


def test_comparing(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    plans = []
    monkeypatch.setattr(compare_cli, "compare", lambda plan, jobs, command: plans.append(plan))
    for _, words in commands("compare"):
        assert main(words) == 0
    assert len(plans) >= 3
    for plan in plans:
        check(plan)
