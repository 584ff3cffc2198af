import io

import pytest

from delayzero.campaigns import display as display_module
from delayzero.campaigns.display import display, summary, table
from delayzero.campaigns.record import Standing, seconds_left
from delayzero.extras import MissingExtraError
from delayzero.progress import duration

RUNS = [
    Standing("a", "done", 1.0, 100.0, 12.0),
    Standing("b", "running", 0.25, 30.0, 4.0, 1),
    Standing("c", "running", 1.0, 110.0, 5.0, 1),
    Standing("d", "running", None, 0.0, None, 2, "lost"),
    Standing("e", "waiting"),
    Standing("f", "waiting", 0.5, 50.0, 1.0),
    Standing("g", "failed", None, 0.0, None, 3, "lost"),
]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_summary():
    assert summary("plan", RUNS, 2) == (
        "plan: 1 of 7 done, 3 running, 2 waiting (1 half-finished), 1 failed; about 3 min left"
    )
    assert summary("plan", RUNS[:1], 2) == "plan: 1 of 1 done, 0 running, 0 waiting, 0 failed"


def test_the_time_left():
    usual = (100 + 120 + 110 + 100) / 4
    assert seconds_left(RUNS, 2) == pytest.approx((90 + 0 + usual + usual + 50) / 2)
    assert seconds_left(RUNS[4:5], 2) is None
    assert seconds_left([RUNS[1]], 8) == pytest.approx(90), "one run is not shared out"


def test_the_table():
    assert table(RUNS) == [
        "run  state    trained  left        score",
        "b    running  25 %     2 min       4.0",
        "c    running  100 %    evaluating  5.0",
        "d    running  -        -           -      attempt 1 failed: lost",
        "g    failed   -        -           -      attempt 3 failed: lost",
        "f    waiting  50 %     -           1.0",
    ]
    assert table(RUNS[:1]) == []


def test_a_run_whose_folder_is_in_use_has_not_failed(monkeypatch, capsys):
    busy = "another process is training (process 7 on node1) in runs/h"
    held = Standing("h", "waiting", 0.5, 50.0, 1.0, 0, busy)
    assert table([held])[1] == f"h    waiting  50 %     -     1.0    {busy}"
    with display("plan", 2, to=io.StringIO()) as show:
        show([Standing("h", "running", 0.5, 50.0, 1.0, 1, saved=True)])
        show([held])
        show([held])
    assert capsys.readouterr().err.splitlines() == ["h: resumed at 50%", f"h: {busy}"]


def test_durations():
    assert [duration(s) for s in (0, 89, 90, 5399, 5400)] == [
        "0 s",
        "89 s",
        "2 min",
        "90 min",
        "1.5 h",
    ]


def test_a_terminal_gets_a_live_table(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    shown = Terminal()
    with display("plan", 2, to=shown) as show:
        show(RUNS)
    text = shown.getvalue()
    assert "plan: 1 of 7 done" in text
    assert "attempt 3 failed: lost" in text


@pytest.mark.parametrize("rich", [True, False])
def test_elsewhere_there_are_lines(rich, monkeypatch, capsys):
    def missing(module, extra):
        raise MissingExtraError(f"no {module}")

    monkeypatch.setattr(display_module, "require", missing)
    now = [0.0]
    to = io.StringIO() if rich else Terminal()
    with display("plan", 2, to=to, clock=lambda: now[0]) as show:
        show([RUNS[0], RUNS[4]])
        assert capsys.readouterr().err == "", "what was done before is not news"
        show([RUNS[0], Standing("e", "running", None, 0.0, None, 1)])
        show([RUNS[0], Standing("e", "waiting", None, 0.0, None, 1, "lost")])
        show([RUNS[0], Standing("e", "running", 0.3, 0.0, None, 2, "lost")])
        show([RUNS[0], Standing("e", "waiting", 0.3, 0.0, None, 2, "lost", saved=True)])
        show([RUNS[0], Standing("e", "running", 0.3, 0.0, None, 3, "lost", saved=True)])
        now[0] = 61
        show([RUNS[0], Standing("e", "done", 1.0, 9.0, 7.25, 1)])
    assert capsys.readouterr().err.splitlines() == [
        "e: started",
        "e: attempt 1 failed: lost; it will be tried again",
        "e: started",
        "e: attempt 2 failed: lost; it will be tried again",
        "e: resumed at 30%",
        "e: done, score 7.2",
        "plan: 2 of 2 done, 0 running, 0 waiting, 0 failed",
    ]
