import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from delayzero.cli import main
from delayzero.report import page as page_module
from delayzero.report.markup import Html, script_data, tag

from .made import make_run

HOSTILE = "<script>alert(1)</script>\"'&"


class Outline(HTMLParser):
    """The elements of a page, the texts of its tables, and what it would load."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.loads, self.open, self.cells = [], [], [], []
        self.feed(text)

    def handle_starttag(self, name, attributes):
        values = dict(attributes)
        self.tags.append((name, values))
        self.loads += [values[key] for key in ("src", "srcset", "poster", "data") if key in values]
        if name == "link":
            self.loads.append(values.get("href"))
        if name not in ("meta", "input"):
            self.open.append(name)

    def handle_endtag(self, name):
        assert self.open.pop() == name

    def handle_data(self, text):
        if {"td", "th"} & set(self.open):
            self.cells.append(text)


def report(tmp_path, *paths):
    out = tmp_path / "out" / "report.html"
    assert main(["report", *map(str, paths), "--out", str(out)]) == 0
    return out.read_text()


def charts(text):
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text).group(1)
    return json.loads(data)["charts"]


def test_the_page_of_a_few_runs(tmp_path, capsys):
    for seed in (0, 1):
        make_run(tmp_path / "runs" / f"dez{seed}", seed=seed)
        make_run(tmp_path / "runs" / f"ob{seed}", agent="oblivious", seed=seed, level=20.0)
    make_run(tmp_path / "runs" / "late", seed=2, finished=False, warned=True)
    text = report(tmp_path, tmp_path / "runs")
    assert capsys.readouterr().out.strip().endswith("report.html")
    outline = Outline(text)
    assert outline.open == []
    assert outline.loads == []
    ids = [values["id"] for name, values in outline.tags if name == "section"]
    assert ids == [
        *("progress", "scores", "learning", "foresight", "laws", "health", "settings", "runs"),
        *("commands", "terms"),
    ]
    assert "oblivious (agent)" in text
    assert "delayed-q (agent)" not in text  # explained where it occurs
    for word in ("late", "walk:5", "oblivious", "dead_units"):
        assert any(word in cell for cell in outline.cells), word
    assert "delayzero train cartpole --seed 1" in text
    titles = [chart["title"] for chart in charts(text)]
    assert "CartPole-v1 · walk:5" in titles
    assert "walk:5, histogram" in titles
    learning = charts(text)[0]["views"][0]["series"]
    (mean,) = [series for series in learning if series["label"] == "dez (3 seeds)"]
    assert "low" in mean
    assert {series["run"] for series in learning if "run" in series} >= {"dez0", "ob1", "late"}
    assert len(text) < 1_000_000


def test_hostile_names_stay_text(tmp_path):
    folder = make_run(
        tmp_path / "x<img src=y onerror=alert(1)>",
        env=HOSTILE,
        delay="walk:3</script><script>alert(2)</script>",
        command=f"delayzero train {HOSTILE}",
        warned=True,
        label="<b>bold</b>",
    )
    (folder / "javascript:alert(1).mp4").write_text("")
    (folder / '"><svg onload=alert(3)>.html').write_text("")
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    line = {**json.loads(lines[-2]), "warnings": [f"{HOSTILE}: {HOSTILE}"]}
    (folder / "metrics.jsonl").write_text("\n".join([*lines, json.dumps(line)]) + "\n")
    make_run(tmp_path / "broken" / HOSTILE.replace("/", "-"), env="")
    outline = Outline(report(tmp_path, folder, tmp_path / "broken", "--title", HOSTILE))
    assert outline.open == []
    assert [name for name, _ in outline.tags if name in ("img", "svg", "b")] == []
    assert [name for name, _ in outline.tags].count("script") == 2
    assert not [key for _, values in outline.tags for key in values if key.startswith("on")]
    links = [values["href"] for name, values in outline.tags if name == "a"]
    assert all(link.startswith(("#", "./")) for link in links)
    assert any(link.endswith("/javascript%3Aalert%281%29.mp4") for link in links)


def test_text_is_escaped_and_html_is_not():
    assert tag("p", "<", Html("<b>"), title='"', hidden=False) == '<p title="&quot;">&lt;<b></p>'
    packed = script_data("</script><!--&", "x")
    assert packed.count("<") == 2
    assert json.loads(packed.partition(">")[2].rpartition("</")[0]) == "</script><!--&"


def test_only_scripts_and_styles_of_the_page_itself_may_run(tmp_path):
    text = report(tmp_path, make_run(tmp_path / "run"))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text).group(1)
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "connect-src 'none'" in policy
    assert "Copyright (c) 2022 Leon Sorokin" in text  # the licence of uPlot asks for that


def test_broken_runs_give_a_page_that_says_so(tmp_path, capsys):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text("{")
    text = report(tmp_path, tmp_path / "run")
    assert "There is nothing to show" in text
    assert "config.json is damaged" in text
    assert "config.json is damaged" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["nowhere"],
        ["."],
        [".", "--out", "."],
        [".", "--out", "notes.txt/a.html"],
        ["notes.txt"],
        [],
    ],
)
def test_bad_input_is_one_line(tmp_path, monkeypatch, capsys, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").touch()
    if "--out" in words:
        make_run(tmp_path / "run")
    assert main(["report", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("delayzero: error:")
    assert not (tmp_path / "report.html").exists()


def test_a_page_that_would_be_too_large_gets_fewer_points_or_is_refused(
    tmp_path, monkeypatch, capsys
):
    for seed in range(4):
        make_run(tmp_path / "runs" / f"{seed}", seed=seed, lines=150)
    whole = len(report(tmp_path, tmp_path / "runs"))
    monkeypatch.setattr(page_module, "MOST_BYTES", whole - 5000)
    assert len(report(tmp_path, tmp_path / "runs")) < whole
    monkeypatch.setattr(page_module, "MOST_BYTES", 50_000)
    assert main(["report", str(tmp_path / "runs"), "--out", str(tmp_path / "no.html")]) == 2
    assert "name fewer runs" in capsys.readouterr().err
    assert not (tmp_path / "no.html").exists()


def test_runs_of_the_paper_stand_beside_it(tmp_path):
    for delay, level in (("walk:5", 9000.0), ("walk:15", 10.0), ("constant:5", 300.0)):
        make_run(tmp_path / "r" / delay, env="atari:Asterix", delay=delay, level=level)
    outline = Outline(report(tmp_path, tmp_path / "r"))
    verdicts = [
        values["class"] for name, values in outline.tags if name == "td" and "class" in values
    ]
    assert verdicts.count("above") == 1
    assert verdicts.count("below") == 2
    text = report(tmp_path, tmp_path / "r")
    assert "Human-normalised" in text
    assert ", 1 seed, 12 000 interactions" in text  # not the paper's 130 000
    assert "6 536 ± 4 393" in text  # the paper's DEZ under walk:5
    assert any(chart["title"] == "Asterix · walk:M" for chart in charts(text))


def test_curves_without_delay_stand_beside_the_published_score(tmp_path):
    make_run(tmp_path / "run", env="atari:RoadRunner", delay="constant:0")
    make_run(tmp_path / "late", env="atari:RoadRunner", delay="walk:5")
    seen_late = {"env": "atari:RoadRunner", "delay": "none", "observation_delay": "constant:5"}
    make_run(tmp_path / "seen-late", **seen_late)
    marks = {"constant:0": set(), "walk:5": set(), "none": set()}
    for chart in charts(report(tmp_path, tmp_path)):
        game, _, law = chart["title"].partition(" · ")
        if game == "RoadRunner" and law in marks:
            marks[law] |= {label for view in chart["views"] for _, label in view["marks"]}
    assert marks["constant:0"] == {"EfficientZero, published", "random play"}
    assert marks["walk:5"] == {"dez, paper", "random play"}
    assert marks["none"] == {"random play"}, "observations are late"


@pytest.mark.parametrize(("lines", "first"), [(2, "self-play"), (12, "evaluations")])
def test_learning_curves_show_first_what_is_a_curve(tmp_path, lines, first):
    """Without evaluations on the way, the final one is a point."""
    outline = Outline(report(tmp_path, make_run(tmp_path / "run", lines=lines)))
    radios = [values for name, values in outline.tags if values.get("name") == "learning-view"]
    assert [radio["value"] for radio in radios if "checked" in radio] == [first]
    assert len(radios) == 2


def test_scores_under_other_laws(tmp_path):
    folder = make_run(tmp_path / "run")
    stored = {"constant:0": [90.0, 110.0], "constant:5": [40.0, 60.0]}
    (folder / "by_delay.json").write_text(json.dumps(stored))
    (chart,) = [c for c in charts(report(tmp_path, folder)) if "trained under" in c["title"]]
    assert chart["ticks"] == [[0, "0"], [1, "5"]]
    assert chart["views"][0]["series"][0]["y"] == [100, 50]


def test_a_report_in_a_run_folder_is_not_its_video(tmp_path):
    folder = make_run(tmp_path / "run")
    (folder / "watch.html").write_text("<p>look")
    for _ in range(2):
        assert main(["report", str(folder), "--out", str(folder / "r.html")]) == 0
    text = (folder / "r.html").read_text()
    assert 'href="./watch.html"' in text
    assert 'href="./r.html"' not in text


def test_a_law_that_names_code_is_not_drawn(tmp_path):
    text = report(tmp_path, make_run(tmp_path / "run", delay="callback:os.abort,max=3"))
    assert "not drawn: it names Python code" in text


def test_a_report_needs_no_jax():
    code = "import sys, delayzero.report.cli; sys.exit('jax' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_text_that_utf8_cannot_encode(tmp_path, capsys):
    folder = make_run(tmp_path / os.fsdecode(b"bad\xffname"), env="\ud800")
    (folder / os.fsdecode(b"v\xff.mp4")).touch()
    out = tmp_path / "r.html"
    assert main(["report", str(folder), "--title", "t\udcff", "--out", str(out)]) == 0
    page = out.read_text("utf-8")
    for words in ("<h1>t\ufffd<", "bad\ufffdname", "bad%FFname/v%FF.mp4"):
        assert words in page


@pytest.mark.parametrize(
    "locale",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
    ids=["ascii", "c"],
)
def test_names_are_printed_in_every_locale(tmp_path, locale):
    folder, out = make_run(tmp_path / "ünï"), tmp_path / "rü.html"
    words = [sys.executable, "-m", "delayzero", "report", str(folder), "--out", str(out)]
    done = subprocess.run(words, capture_output=True, timeout=60, env={**os.environ, **locale})
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.isascii()
    assert "<h1>ünï<" in out.read_text("utf-8")
