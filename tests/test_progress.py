import io
import re

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
        "work: 3/10, about 14 s left",
        "work: 6/10, about 8 s left",
        "work: 9/10, about 2 s left",
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
    assert shown.getvalue().splitlines() == [
        "work: 2/4, about 6 s left (loss 2)",
        "work: 4/4 (loss 1)",
    ]


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


def last_frame(shown):
    """What a terminal shows in the end, as lines without escape codes."""
    text = re.sub(r"\x1b\[[?\d;]*[A-Za-z]", "", shown.getvalue()).rstrip("\n")
    return text[text.rindex("\r") + 1 :].splitlines() if "\r" in text else text.splitlines()


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_a_long_note_is_whole_on_a_terminal_of_any_width(columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    note = "updates 120000, score 1234.5, loss 12.345, 12 environments, OK"
    assert len(note) >= 60
    shown = Terminal()
    with progress("train", 280_000, to=shown) as advance:
        advance(130_000, note)
    bar, *notes = last_frame(shown)
    assert "train" in bar
    assert "130000/280000" in bar
    assert "-:--:--" in bar  # the last column: nothing is cut off
    assert "".join(notes).replace(" ", "") == note.replace(" ", "")
    assert all(len(line) <= columns for line in (bar, *notes))


def test_a_note_is_shown_as_it_is(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = Terminal()
    with progress("[bold]work", 2, to=shown) as advance:
        advance(1, "[red]1[/red]")
    bar, note = last_frame(shown)
    assert bar.startswith("[bold]work")
    assert note == "[red]1[/red]"


def test_a_note_without_units_takes_the_place_of_the_last_one(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = Terminal()
    with progress("work", 4, to=shown) as advance:
        advance(1, "collecting")
        advance(0, "evaluating")
    bar, note = last_frame(shown)
    assert "1/4" in bar
    assert note == "evaluating"


def test_a_note_without_units_is_a_line_if_the_last_one_is_old():
    shown, clock = io.StringIO(), Clock()
    with progress("work", 4, to=shown, clock=clock) as advance:
        advance(1, "collecting")
        clock.now += progress_module.SECONDS_BETWEEN_LINES - 1
        advance(0, "too soon")
        clock.now += 1
        advance(0, "evaluating")
        advance(0, "too soon again")
    assert shown.getvalue() == "work: 1/4, about 15 s left (evaluating)\n"


def test_what_was_done_before_does_not_count_as_speed():
    shown, clock = io.StringIO(), Clock()
    with progress("work", 100, done=60, to=shown, clock=clock) as advance:
        clock.now += 10
        advance(10)
    assert shown.getvalue() == "work: 70/100, about 30 s left\n"


def test_a_bar_begins_with_what_was_done_before():
    shown = Terminal()
    with progress("work", 100, done=60, to=shown) as advance:
        advance(10)
    assert "70/100" in shown.getvalue()


def test_long_work_is_quiet():
    shown, clock = io.StringIO(), Clock()
    with progress("work", 36_000, to=shown, clock=clock) as advance:
        for _ in range(36_000):
            clock.now += 0.1
            advance(1)
    lines = shown.getvalue().splitlines()
    assert len(lines) <= 12 + 60
    assert lines[-1] == "work: 36000/36000"
