"""The plots of the paper, drawn from records."""

import pytest

from delayzero.cli import main
from delayzero.evaluation.paper.figures import (
    FIGURES,
    by_cell,
    convergence,
    large_delays,
    score_bars,
    walk,
)
from delayzero.evaluation.paper.tables import paper_score


def record(game="Asterix", delay="walk:5", agent="dez", seed=0, level=1000.0, **settings):
    return {
        **{"game": game, "delay": delay, "agent": agent, "seed": seed},
        "scores": [level, level + 20 * (seed + 1)],
        "curve": [[10_000, level / 2], [20_000 + seed, level]],
        "config": {"env": f"atari:{game}", "agent": agent, "seed": seed, **settings},
    }


def panel(figure, title):
    (found,) = [axes for axes in figure.axes if axes.get_title(loc="left") == title]
    return found


def circles(axes):
    """Where the marks of single seeds are."""
    marked = [line for line in axes.lines if line.get_marker() == "o" and len(line.get_xdata())]
    hollow = [line for line in marked if line.get_markerfacecolor() == "white"]
    return [tuple(map(float, point)) for line in hollow for point in line.get_xydata()]


def test_bars_stand_beside_the_papers():
    cells = by_cell([record(seed=0), record(seed=1), record(delay="walk:15", level=70.0)])
    asterix = panel(score_bars(cells, "walk"), "Asterix")
    heights = sorted(bar.get_height() for bar in asterix.patches)
    assert len(heights) == 11  # nine of the paper's
    assert {1015.0, 80.0} <= set(heights)
    assert paper_score("Asterix", "walk:25", "delayed-q").mean in heights
    ((_, height),) = circles(asterix)
    assert height == 80.0
    ends = [sorted(line.get_ydata()) for line in asterix.lines if len(line.get_xdata()) == 2]
    assert [pytest.approx(1015 - 50**0.5), pytest.approx(1015 + 50**0.5)] in ends
    assert circles(panel(score_bars(cells, "constant"), "Asterix")) == []


def test_the_settings_of_most_seeds_are_drawn():
    records = [record(seed=0, rows=4), record(seed=1), record(seed=2)]
    (same,) = by_cell(records).values()
    assert [one["seed"] for one in same] == [1, 2]


def test_convergence_has_intervals_for_seeds_and_circles_for_one():
    cells = by_cell([record(seed=s) for s in (0, 1)] + [record(agent="oblivious", level=90.0)])
    axes = panel(convergence(cells, "walk"), "Asterix, walk:5")
    assert len(axes.collections) == 2  # bands; that of a single seed is empty
    assert circles(axes) == [(10_000, 45), (20_000, 90)]
    papers = {line.get_ydata()[0] for line in axes.lines if line.get_linestyle() == "--"}
    assert paper_score("Asterix", "walk:5", "dez").mean in papers
    empty = panel(convergence(cells, "walk"), "Asterix, walk:25")
    assert [text.get_text() for text in empty.texts] == ["no record"]
    assert convergence(cells, "constant").axes == []


def test_large_delays():
    delays = ("walk:5", "walk:45", "constant:45")
    cells = by_cell([record("Hero", delay, level=10.0) for delay in delays])
    hero = panel(large_delays(cells), "Hero")
    assert sorted(circles(hero)) == [(5, 20), (45, 20)]


def test_the_walk_stays_within_its_bounds():
    (line,) = walk({}).axes[0].lines
    assert (line.get_ydata().min(), line.get_ydata().max()) == (0, 15)


def test_the_command_writes_vectors_and_pixels(tmp_path, capsys):
    from .test_paper import finished_run

    run = finished_run(tmp_path / "run", game="Asterix")
    main(["results", "add", str(run), "--folder", str(tmp_path / "records")])
    out = tmp_path / "deep" / "figures"
    assert main(["results", "figures", str(tmp_path / "records"), "--out", str(out)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + 2 * len(FIGURES)
    for name in FIGURES:
        assert (out / f"{name}.pdf").read_bytes().startswith(b"%PDF")
        assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert len(list(out.iterdir())) == 2 * len(FIGURES)


def test_bad_input_is_one_line(tmp_path, capsys):
    assert main(["results", "figures", str(tmp_path)]) == 2
    assert "contains no records" in capsys.readouterr().err
