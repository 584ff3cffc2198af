"""The documentation: its commands are accepted, and its links lead somewhere."""

import re
import shlex
from collections import Counter
from pathlib import Path

import pytest

import delayzero
import delayzero.api
from delayzero.campaigns import campaign
from delayzero.cli import main
from delayzero.evaluation.compare import cli as compare_cli
from delayzero.evaluation.compare.run import check
from delayzero.report.cli import report_parser
from delayzero.training import loop
from delayzero.training.loop import Outcome
from delayzero.watching import cli as watching_cli

from .training.small import TINY

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
"""Pages whose commands must be accepted; those of docs/lab are of older versions."""
LINKING_PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


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

    def train(config, command, callbacks=None):
        folders.append(config.run_folder)
        return Outcome(True, tmp_path)

    monkeypatch.setattr(loop, "train", train)
    monkeypatch.chdir(tmp_path)
    return folders


def test_training_and_what_is_done_with_its_runs(made):
    typed = commands("train")
    assert {page for page, _ in typed} >= {"agents.md", "efficientzero.md", "paper.md", "runs.md"}
    for _, words in typed:
        assert main(words) == 0
    evaluated = [words[1] for _, words in commands("evaluate")]
    assert evaluated
    assert set(evaluated) <= set(made)


def test_watching(made):
    for _, words in commands("train"):
        assert main(words) == 0
    watched = [watching_cli.parser().parse_args(words[1:]) for _, words in commands("watch")]
    assert any(options.beside for options in watched)
    for options in watched:
        runs = {options.run, options.beside} - {None}
        assert {str(run) for run in runs} <= set(made)


def test_comparing(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    plans = []
    monkeypatch.setattr(compare_cli, "compare", lambda plan, jobs, command: plans.append(plan))
    for _, words in commands("compare"):
        assert main(words) == 0
    assert len(plans) >= 3
    for plan in plans:
        check(plan)


def test_reports():
    typed = [words for _, words in commands("report")]
    assert len(typed) >= 5
    for words in typed:
        assert report_parser().parse_args(words[1:]).paths


def test_campaigns(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "campaigns.md").read_text()
    (plan,) = re.findall(r"^```toml\n(.*?)^```", text, re.S | re.M)
    Path("plan.toml").write_text(plan)
    asked = []
    monkeypatch.setattr(campaign, "run_campaign", lambda plan, *_: asked.append(plan))
    for _, words in commands("campaign"):
        if words[1] == "status":
            assert words[2:] == ["campaigns/plan"]
        else:
            assert main(words) == 0
    assert len(asked) >= 2
    for plan in asked:
        assert campaign.checked_runs(plan, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("page", ["docs/api.md", "docs/custom_environments.md", "README.md"])
def test_examples_in_python_run(page, monkeypatch, tmp_path):
    """As they stand, one after the other; training is cut short."""
    monkeypatch.chdir(tmp_path)
    train, runs = delayzero.api.train, []

    def short(*presets, **settings):
        small = {"interactions": 150, "final_max_steps": 20, "prediction_rows": 0, "model": TINY}
        settings = {**small, **settings, "label": None}
        runs.append(train(*presets, "debug", **settings))
        return runs[-1]

    monkeypatch.setattr(delayzero.api, "train", short)
    names = {"__name__": "example"}
    for block in re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.S | re.M):
        exec(compile(block, page, "exec"), names)
    assert runs
    assert all(run.finished for run in runs)


def prose(page):
    """The text of a page without its fenced code."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def anchors(page):
    """The anchors of a page's headings, as GitHub names them."""
    names, count = set(), Counter()
    for heading in re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE):
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        name = re.sub(r"[^\w\- ]", "", title).replace(" ", "-")
        names.add(f"{name}-{count[name]}" if count[name] else name)
        count[name] += 1
    return names


def broken_links(page):
    """The relative links of a page that lead to no file, or to no heading of one."""
    broken = []
    for link in LINK.findall(prose(page)):
        if "://" in link or link.startswith("mailto:"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    return broken


@pytest.mark.parametrize("page", LINKING_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_to_files_and_headings(page):
    assert broken_links(page) == []


def test_broken_links_are_found(tmp_path):
    page, other = tmp_path / "page.md", tmp_path / "other.md"
    other.write_text("# A `title`, really?\n\n## Twice\n\n## Twice\n")
    good = ["other.md", "other.md#a-title-really", "other.md#twice-1", "#here", "https://a.org/#x"]
    bad = ["missing.md", "other.md#a-title", "other.md#twice-2", "#there"]
    page.write_text("# Here\n" + "\n".join(f"[x]({link})" for link in good + bad))
    assert broken_links(page) == bad


def test_every_lab_page_is_in_the_index():
    lab = ROOT / "docs" / "lab"
    index = (lab / "README.md").read_text()
    pages = [page.name for page in lab.glob("*.md") if page.name != "README.md"]
    assert pages
    assert [name for name in pages if f"({name})" not in index] == []
