"""The page in a real browser, from disk and without a network."""

import json
import shutil
import time

import pytest

from delayzero.cli import main
from delayzero.evaluation import over_seeds

from .made import make_run
from .test_serve import served

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PHONE = {"width": 360, "height": 740}
SECONDS = 3.0
"""In which a page of 300 runs is there."""


@pytest.fixture(scope="module")
def browser():
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip("no browser to test the page in; type: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def opened(browser):
    """Opens a file; the test fails if the page says anything on its console, or asks a network."""
    said, contexts = [], []

    def open_file(path, **options):
        context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: (said.append("a dialog"), dialog.dismiss()))
        page.on("request", lambda request: said.append(request.url))
        page.goto(path.as_uri())
        assert said.pop(0) == path.as_uri()
        return page

    yield open_file
    for context in contexts:
        context.close()
    assert said == []


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The page of some runs, whose folder has a hostile name."""
    root = tmp_path_factory.mktemp("<img src=x onerror=alert(1)>")
    for seed in (0, 1):
        make_run(root / f"dez{seed}", env="atari:Asterix", delay="walk:5", seed=seed, level=5e3)
        make_run(root / f"more{seed}", env="atari:Asterix", delay="walk:15", seed=seed, level=3e3)
        make_run(
            *(root / f"ob{seed}",),
            env="atari:Asterix",
            agent="oblivious",
            delay="walk:5",
            seed=seed,
            level=900.0,
        )
    make_run(root / "late", finished=False, warned=True)
    out = root / "report.html"
    assert main(["report", str(root), "--out", str(out)]) == 0
    return out


def figure(page, section, place=0):
    """A chart, drawn."""
    found = page.locator(f"#{section} figure.chart").nth(place)
    found.scroll_into_view_if_needed()
    found.locator("canvas").wait_for()
    return found


def pixels(chart, colour):
    """How many pixels of a chart have a colour, such as the CSS variable ``--c-dez``."""
    return chart.locator("canvas").evaluate(
        """(canvas, name) => {
            const text = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
            const number = parseInt(text.slice(1), 16);
            const wanted = [number >> 16, (number >> 8) & 255, number & 255];
            const { width, height } = canvas;
            const copy = new OffscreenCanvas(width, height).getContext("2d");
            copy.drawImage(canvas, 0, 0);
            const data = copy.getImageData(0, 0, width, height).data;
            let count = 0;
            for (let i = 0; i < data.length; i += 4) {
                const far = Math.max(...wanted.map((v, k) => Math.abs(v - data[i + k])));
                if (data[i + 3] > 200 && far < 12) count += 1;
            }
            return count;
        }""",
        colour,
    )


def test_curves_and_tables_are_there(opened, report):
    page = opened(report)
    assert page.locator("h1").count() == 1
    for section in ("learning", "paper", "delay", "foresight"):
        assert pixels(figure(page, section), "--c-dez") > 100, section
        assert pixels(figure(page, section), "--c-oblivious") > 100, section
    assert pixels(figure(page, "laws"), "--c-accent") > 100
    assert pixels(figure(page, "health"), "--c-oblivious") > 100
    assert page.locator("#paper td.above").count() + page.locator("#paper td.below").count() == 3
    assert page.locator("#runs tbody tr").count() == 7
    assert "dead_units" in page.locator("#health table.warnings").inner_text()


def test_switches(opened, report):
    page = opened(report)
    chart = figure(page, "learning")
    both = pixels(chart, "--c-oblivious")
    chart.get_by_label("oblivious (2 seeds)").uncheck()
    assert pixels(chart, "--c-oblivious") == 0
    assert pixels(chart, "--c-dez") > 100
    chart.get_by_label("oblivious (2 seeds)").check()
    assert pixels(chart, "--c-oblivious") == both

    def shot():
        return chart.locator("canvas").evaluate("canvas => canvas.toDataURL()")

    seen = [shot()]
    for label in ("logarithmic", "single seeds", "self-play"):
        page.locator("#learning").get_by_label(label).click()
        assert shot() not in seen, label
        seen.append(shot())
    page.locator("#learning").get_by_label("single seeds").click()
    before = shot()
    page.get_by_label("show dez0 in the charts").uncheck()
    assert shot() != before


def test_values_by_mouse_and_by_keyboard(opened, report):
    page = opened(report)
    chart = figure(page, "learning")
    value = chart.locator("output").first
    assert value.inner_text() == ""
    box = chart.locator(".u-over").bounding_box()
    page.mouse.move(box["x"] + box["width"] - 3, box["y"] + 50)
    assert "[" in value.inner_text()  # a mean with its interval
    page.mouse.move(0, 0)
    chart.locator(".plot").focus()
    page.keyboard.press("End")
    spoken = chart.locator("[aria-live]").inner_text()
    assert spoken.startswith("interactions: 12")
    assert "dez (2 seeds) 5" in spoken
    page.keyboard.press("ArrowLeft")
    assert chart.locator("[aria-live]").inner_text() != spoken


def test_every_control_has_a_name_and_the_keyboard_reaches_it(opened, report):
    page = opened(report)
    figure(page, "learning")
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("input, select, .plot, [role=region]")].filter((e) =>
            !(e.ariaLabel || e.labels?.[0]?.innerText.trim())).length"""
    )
    assert nameless == 0
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.innerText") == "Skip to the results"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone(opened, report, scheme):
    page = opened(report, viewport=PHONE, color_scheme=scheme)
    for section in ("learning", "paper", "foresight", "laws", "health", "runs"):
        page.locator(f"#{section}").scroll_into_view_if_needed()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    chart = figure(page, "learning")
    assert chart.locator("canvas").bounding_box()["width"] <= PHONE["width"]
    assert pixels(chart, "--c-dez") > 50
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == {"light": "rgb(255, 255, 255)", "dark": "rgb(22, 24, 27)"}[scheme]


def test_a_window_that_changes_its_size(opened, report):
    page = opened(report)
    chart = figure(page, "learning")
    page.set_viewport_size(PHONE)
    page.wait_for_function(
        "w => document.querySelector('#learning canvas').getBoundingClientRect().width < w",
        arg=PHONE["width"],
    )
    assert pixels(chart, "--c-dez") > 50


def test_without_javascript_the_tables_can_be_read(opened, report):
    page = opened(report, java_script_enabled=False)
    assert page.locator("#scores td").first.is_visible()
    assert page.locator("noscript p").is_visible()
    assert not page.locator("figure.chart").first.is_visible()
    assert not page.locator(".controls").first.is_visible()


def test_print_has_all_charts_in_light_colours(opened, report):
    page = opened(report, color_scheme="dark")
    assert len(page.pdf(format="A4")) > 50_000
    shown = page.locator("figure.chart:visible")
    assert shown.locator("canvas").count() == shown.count() > 8


def test_charts_drawn_for_a_screen_fit_on_paper(opened, report):
    """Paper is narrower than the screen, and charts are not drawn again for it."""
    page = opened(report)
    page.emulate_media(media="print")
    too_wide = """() => [...document.querySelectorAll(".u-wrap")].filter((wrap) => {
        wrap.style.width = "3000px";
        const canvas = wrap.querySelector("canvas").getBoundingClientRect();
        return canvas.right > wrap.closest("figure").getBoundingClientRect().right + 1;
    }).length"""
    assert page.locator(".u-wrap").count() > 0
    assert page.evaluate(too_wide) == 0


def test_pages_that_have_nothing_to_show(opened, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text("{")
    assert main(["report", str(tmp_path / "run"), "--out", str(tmp_path / "r.html")]) == 0
    page = opened(tmp_path / "r.html")
    assert "nothing to show" in page.locator("header").inner_text()
    assert "config.json is damaged" in page.locator("#problems").inner_text()


def test_300_runs_open_quickly(browser, tmp_path, monkeypatch):
    # Writing the page is not what is timed.
    monkeypatch.setattr(over_seeds, "bootstrap_interval", lambda by_seed: (0.0, 200.0))
    games = ("Alien", "Amidar", "Asterix", "Boxing", "Hero")
    for game in games:
        for delay in ("walk:5", "walk:15", "constant:5"):
            for agent in ("dez", "oblivious", "random"):
                for seed in range(7):
                    name = f"{game}-{agent}-{delay}-{seed}"
                    env = f"atari:{game}"
                    make_run(
                        tmp_path / name, env=env, delay=delay, agent=agent, seed=seed, lines=80
                    )
    out = tmp_path / "report.html"
    assert main(["report", str(tmp_path), "--out", str(out)]) == 0
    assert out.stat().st_size < 5_000_000
    seconds = []
    for _ in range(3):  # the machine may be busy
        page = browser.new_page()
        begun = time.monotonic()
        page.goto(out.as_uri())
        figure(page, "learning")
        seconds.append(time.monotonic() - begun)
        assert page.locator("#runs tbody tr").count() == 315
        page.close()
        if seconds[-1] < SECONDS:
            break
    assert min(seconds) < SECONDS


def test_a_served_page_loads_itself_again_and_keeps_its_switches(browser, tmp_path):
    folder = make_run(tmp_path / "run", finished=False)
    with served(tmp_path) as port:
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{port}/")
        figure(page, "learning")
        page.locator("#learning").get_by_label("logarithmic").check()
        page.locator("details").first.locator("summary").click()
        with (folder / "metrics.jsonl").open("a") as file:
            file.write(json.dumps({"interactions": 11_111, "updates": 5000}) + "\n")
        page.get_by_text("11 111").first.wait_for()
        assert page.locator("#learning").get_by_label("logarithmic").is_checked()
        assert page.locator("details").first.evaluate("one => one.open")
        page.close()
