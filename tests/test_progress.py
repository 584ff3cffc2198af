import io

import pytest

from delayzero import progress as progress_module
from delayzero.extras import MissingExtraError
from delayzero.progress import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_plain_lines_come_now_and_then_and_at_the_end():
    shown, clock = io.StringIO(), Clock()
    with progress("work", 10, to=shown, clock=clock) as advance:
        for _ in range(10):
            clock.now += 2
            advance(1)
    assert shown.getvalue().splitlines() == [
        "work: 3/10",
        "work: 6/10",
        "work: 9/10",
        "work: 10/10",
    ]


def test_quick_work_is_one_line():
    shown = io.StringIO()
    with progress("work", 3, to=shown, clock=Clock()) as advance:
        for units in (1, 2):
            advance(units)
    assert shown.getvalue() == "work: 3/3\n"


def test_a_terminal_gets_a_bar():
    shown = Terminal()
    with progress("work", 4, to=shown) as advance:
        advance(4)
    assert "work" in shown.getvalue()
    assert "4/4" in shown.getvalue()
    assert "work: 4/4" not in shown.getvalue()


def test_a_terminal_without_rich_gets_plain_lines(monkeypatch):
    def missing(module, extra):
        raise MissingExtraError(f"no {module}")

    monkeypatch.setattr(progress_module, "require", missing)
    shown = Terminal()
    with progress("work", 2, to=shown, clock=Clock()) as advance:
        advance(2)
    assert shown.getvalue() == "work: 2/2\n"


def test_standard_error_is_the_default(capsys):
    with progress("work", 1, clock=Clock()) as advance:
        advance(1)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "work: 1/1\n"


@pytest.mark.parametrize("shown", [io.StringIO(), Terminal()], ids=["plain", "terminal"])
def test_errors_pass_through(shown):
    with pytest.raises(KeyError), progress("work", 1, to=shown):
        raise KeyError


def test_a_note_stands_beside_the_units():
    shown, clock = io.StringIO(), Clock()
    with progress("work", 4, to=shown, clock=clock) as advance:
        for note in ("unseen", "loss 2", "", "loss 1"):
            clock.now += 3
            advance(1, note)
    assert shown.getvalue().splitlines() == ["work: 2/4 (loss 2)", "work: 4/4 (loss 1)"]


def test_a_line_without_a_note_has_no_brackets():
    shown = io.StringIO()
    with progress("work", 2, to=shown, clock=Clock()) as advance:
        advance(1, "before")
        advance(1)
    assert shown.getvalue() == "work: 2/2\n"


def test_the_bar_shows_the_last_note():
    shown = Terminal()
    with progress("work", 2, to=shown) as advance:
        advance(1, "loss [2]")
        advance(1, "loss [1]")
    assert "2/2" in shown.getvalue()
    assert "loss [1]" in shown.getvalue()
