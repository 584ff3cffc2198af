import pytest

from delayzero.evaluation.compare.results import Estimate
from delayzero.evaluation.compare.tables import delay_table, outcome, table

from .made_up import made_up


def test_the_table_has_the_best_first():
    results = [made_up("augmented", 90, 110), made_up("dez", 480, 500), made_up("random", 18, 22)]
    head, *rows = table(results).splitlines()
    assert " ".join(head.split()) == "agent IQM 95 % interval mean lowest training seconds"
    assert [row.split()[0] for row in rows] == ["dez", "augmented", "random"]
    assert rows[0].split()[1:] == ["490.0", "[480.0,", "500.0]", "489.0", "475.0", "61"]
    assert len({len(row) for row in rows}) == 1


def test_a_law_that_an_agent_was_not_evaluated_under_is_a_dash():
    laws = {"constant:0": Estimate(10, 9, 11), "constant:9": Estimate(4, 3, 5)}
    results = [
        made_up("dez", 1, 2, by_delay=laws),
        made_up("augmented", 1, 2),
        made_up("oblivious", 1, 2, by_delay={}),
        made_up("undelayed", 1, 2, by_delay={}),
    ]
    rows = [line.split() for line in delay_table(results, list(laws)).splitlines()]
    assert rows[0] == ["agent", "constant:0", "constant:9"]
    assert rows[1] == ["dez", "10.0", "4.0"]
    assert rows[2] == ["augmented", "1.5", "-"]
    assert rows[3] == ["oblivious", "-", "-"]
    assert len(rows) == 4


def test_ahead_of_all():
    text = outcome(
        [made_up("dez", 400, 500), made_up("augmented", 60, 90), made_up("delayed-q", 300, 399)]
    )
    assert text == (
        "DEZ [400.0, 500.0] is significantly better than every other delayed agent: its 95 % "
        "interval lies above theirs. The next is delayed-q [300.0, 399.0]."
    )


def test_not_ahead():
    others = [
        made_up("augmented", 390, 420),
        made_up("delayed-q", 501, 510),
        made_up("oblivious", 1, 2),
    ]
    text = outcome([made_up("dez", 400, 500), *others])
    assert text.split("\n") == [
        "DEZ [400.0, 500.0] is significantly worse than delayed-q [501.0, 510.0]: its 95 % "
        "interval lies below theirs.",
        "DEZ [400.0, 500.0] is not significantly better than augmented [390.0, 420.0]: the 95 % "
        "intervals overlap.",
    ]


def test_touching_intervals_overlap():
    text = outcome([made_up("dez", 400, 500), made_up("augmented", 300, 400)])
    assert "is not significantly better than augmented [300.0, 400.0]" in text
    text = outcome([made_up("dez", 400, 500), made_up("augmented", 500, 600)])
    assert "is not significantly better than augmented [500.0, 600.0]" in text


def test_the_bound_and_the_floor_are_not_rivals():
    results = [made_up("dez", 300, 500), made_up("undelayed", 500, 500), made_up("random", 20, 20)]
    assert outcome(results) == (
        "The IQM without delay is 500.0; DEZ reaches 400.0 (80%).\n"
        "The IQM of random actions is 20.0."
    )


@pytest.mark.parametrize(
    ("seeds", "last"),
    [
        (1, "Only 1 seed:"),
        (2, "Only 2 seeds:"),
        (4, "Only 4 seeds:"),
        (5, "The IQM of random"),
        (9, "The IQM of random"),
    ],
)
def test_few_seeds_are_a_caveat(seeds, last):
    text = outcome([made_up("dez", 1, 2, seeds=seeds), made_up("random", 1, 1, seeds=9)])
    *others, final = text.split("\n")
    assert final.startswith(last)
    assert not any("Only" in line for line in others)


def test_there_may_be_nothing_to_say():
    assert outcome([made_up("augmented", 1, 2), made_up("oblivious", 1, 2)]) == ""
