import subprocess
import sys

import numpy as np
import pytest

from delayzero.delays import parse
from delayzero.delays.pictures import draw_timeline, law_picture, new_figure, picture_name
from delayzero.delays.statistics import History, characterise


def small(law, **arguments):
    return characterise(law, streams=2, steps=100, burn_in=0, **arguments)


@pytest.mark.parametrize("rule", ["latest-generated", "fixed", "lag-index", "latest-arrival"])
def test_picture_of_a_law(rule, tmp_path):
    values = small("uniform:0-5", rule=rule)
    figure = law_picture("uniform:0-5", rule=rule, characteristics=values)
    over_time, histogram, timeline = figure.axes
    assert figure.texts[0].get_text() == "uniform:0-5"
    assert over_time.lines[0].get_ydata().max() == 5
    shares = [bar.get_width() for bar in histogram.patches]
    assert shares == pytest.approx(values.delay_shares)
    assert len(timeline.patches) == 40  # one tile for each step
    path = tmp_path / "law.png"
    figure.savefig(path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_pictures_are_repeatable():
    def delays(seed):
        figure = law_picture("wifi", seed=seed, characteristics=small("wifi"))
        return figure.axes[0].lines[0].get_ydata().tolist()

    assert delays(1) == delays(1)
    assert delays(1) != delays(2)


@pytest.mark.parametrize("law", ["constant:0", "constant:300", "per-episode:uniform:0-4"])
def test_extreme_laws_can_be_drawn(law):
    figure = law_picture(law, characteristics=small(law))
    crosses = [line for line in figure.axes[2].lines if line.get_marker() == "x"]
    assert not crosses  # a decision that runs after the last step shown is not a dropped one


def test_timeline_shows_drops_repeats_and_colours():
    # Decision 0 runs at 1 and again at 2; 1 never runs; 2 runs at 3. Before: decision -1 at 0.
    history = History(np.array([1, 9, 1, 9]), np.array([-1, 0, 0, 2]))
    axes = new_figure(4, 2).add_subplot()
    draw_timeline(axes, history, 3)
    crosses = [line.get_xdata()[0] for line in axes.lines if line.get_marker() == "x"]
    dots = [line.get_xdata()[0] for line in axes.lines if line.get_marker() == "o"]
    arrows = [tuple(line.get_xdata()) for line in axes.lines if len(line.get_xdata()) == 2]
    assert crosses == [1]
    assert dots == [-1, 0, 2]
    assert arrows == [(-1, 0), (0, 1), (2, 3)]
    alphas = [tile.get_alpha() for tile in axes.patches]
    assert alphas == [1.0, 1.0, pytest.approx(0.4)]
    before, first, again = [tile.get_facecolor()[:3] for tile in axes.patches]
    assert first == again != before


@pytest.mark.parametrize(
    ("law", "name"),
    [
        ("walk:15", "walk-15.png"),
        ("4g@10ms", "4g-10ms.png"),
        ("constant:1+walk:4", "constant-1-walk-4.png"),
        (
            "lognormal:mu=4.47,sigma=0.47@20ms,max=15",
            "lognormal-mu=4.47-sigma=0.47-20ms-max=15.png",
        ),
        ("../../etc/passwd", "etc-passwd.png"),
        ("+" * 5, "law.png"),
        ("x" * 500, "x" * 100 + ".png"),
    ],
)
def test_picture_names_are_safe(law, name):
    assert picture_name(law) == name


def test_picture_name_of_a_law_object():
    assert picture_name(parse("uniform:0-5")) == "uniform-0-5.png"


def test_no_global_state():
    code = (
        "import sys; from delayzero.delays.pictures import law_picture; "
        "law_picture('constant:1'); print('matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "False\n"


def test_text_that_utf8_cannot_encode_is_drawn(tmp_path):
    figure = new_figure(3, 2)
    axes = figure.add_subplot(title="bad\udcffname")
    axes.plot([0, 1], label="\ud800")
    axes.legend()
    figure.savefig(tmp_path / "x.png")
    assert axes.get_title() == "bad\ufffdname"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["\ufffd"]
