"""The page: one file, well formed, which says what was recorded."""

import base64
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest

from delayzero.watching.frames import decoded
from delayzero.watching.page import page

from .made import episode, moment

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
EMPTY = {"meta", "input", "br", "img", "link"}


class Elements(HTMLParser):
    """Checks that what is opened is closed, and keeps the text of scripts."""

    def __init__(self, text):
        super().__init__()
        self.open, self.seen, self.scripts = [], [], {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in EMPTY:
            self.open.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        if self.open and self.open[-1][0] == "script":
            self.scripts[self.open[-1][1].get("id")] = data


def test_it_parses_and_holds_everything():
    rude = "</script><b>&"
    ones = [episode(3, names=("left", rude)), episode(2, names=("left", rude), number=1)]
    others = [episode(2, agent=rude), episode(4, agent=rude, number=1)]
    text = page([ones, others], f"delayzero watch '{rude}'")
    elements = Elements(text)
    data = json.loads(elements.scripts["data"])
    assert [[len(e["moments"]) for e in run] for run in data["runs"]] == [[3, 2], [2, 4]]
    assert data["runs"][0][0]["names"] == ["left", rude]
    assert data["runs"][0][0]["moments"][1]["lane"][0] == [-1, 0]
    for run in data["runs"]:
        for one in run:
            assert len(one["frames"]) == len(one["moments"]) + 1
            kind, _, code = one["frames"][1].partition(";base64,")
            assert kind == "data:image/png"
            assert decoded(base64.b64decode(code)).size == tuple(one["size"])
    assert not [a for _, a in elements.seen if {"href", "src"} & set(a)], "it loads nothing"
    assert "http" not in text.replace("http-equiv", "")
    assert "@DATA@" not in text
    labelled = [a for tag, a in elements.seen if tag in ("button", "input")]
    assert labelled
    assert all(a.get("aria-label") for a in labelled)


def test_numbers_that_are_not_finite():
    strange = moment(0, reward=float("nan"), foreseen=float("inf"), score=float("nan"))
    text = page([[episode(moments=[strange], score=float("inf"))]], "delayzero watch x")
    data = Elements(text).scripts["data"]
    values = json.loads(data, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert values["runs"][0][0]["moments"][0]["foreseen"] is None


@pytest.fixture
def seen(tmp_path):
    """Open a page in a browser; return what a script there wrote into ``seen``."""
    if BROWSER is None:
        pytest.skip("no browser to test the page in; type: apt-get install chromium")

    def opened(episodes, script):
        write = 'document.body.append(make("pre", {id: "seen", text: seen.join(" | ")}));'
        text = page([[one] for one in episodes], "delayzero watch x")
        script = f"<script>{script}{write}</script></body>"
        (tmp_path / "page.html").write_text(text.replace("</body>", script))
        words = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
        words += [f"--user-data-dir={tmp_path / 'profile'}", f"file://{tmp_path / 'page.html'}"]
        shown = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True)
        (written,) = re.findall(r'<pre id="seen">(.*?)</pre>', shown.stdout, re.S)
        return written.split(" | ")

    return opened


def test_in_a_browser(seen):
    """Keys and the slider move through the moments, and the end is shown."""
    script = """
    const seen = [by("where").textContent];
    const press = key => {
      document.body.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
      seen.push(by("where").textContent + "; " + document.querySelectorAll(".pictures").length);
    };
    press("ArrowRight"); press("ArrowRight"); press("ArrowLeft"); press("End"); press("Home");
    by("time").value = 3; by("time").dispatchEvent(new Event("input"));
    seen.push(by("told").textContent);
    """
    assert seen([episode(5), episode(2, agent="oblivious")], script) == [
        "step 0 of 5",
        *("step 1 of 5; 2", "step 2 of 5; 1", "step 1 of 5; 2", "step 5 of 5; 0"),
        "step 0 of 5; 2",
        "dez, step 3: runs left, decides left with delay 2. "
        "oblivious: ended after 2 steps, score 2.",
    ]


@pytest.mark.parametrize(
    ("longest", "texts"),
    [(2, {"up right", "down left"}), (45, {"↗", "↙"}), (120, {""})],
)
def test_names_on_the_way_are_whole_short_or_left_out(seen, longest, texts):
    """None is cut off, so that two actions do not look the same."""
    script = """
    const spans = [...document.querySelectorAll(".lane span")];
    const seen = spans.map(span => span.textContent);
    seen.push(spans.filter(span => span.scrollWidth > span.clientWidth).length);
    """
    *found, cut_off = seen([episode(2, ("up right", "down left"), longest)], script)
    assert set(found) == texts
    assert cut_off == "0"
