"""Forms of values say what is wrong, in one line."""

import math

import pytest

from delayzero.forms import (
    anything,
    group,
    list_of,
    number,
    one_of,
    optional,
    text,
    values_of,
    whole,
    with_keys,
)

RIGHT = [
    (number, 0),
    (number, -1.5),
    (whole, 3),
    (text, ""),
    (group, {}),
    (one_of(("a", "b")), "b"),
    (optional(number), None),
    (optional(number), 2),
    (list_of(number), []),
    (list_of(number, 2, 2), [1, 2.0]),
    (values_of(number), {"a": 1}),
    (with_keys({"a": number}), {"a": 1, "b": None}),
    (anything, object()),
]
WRONG = [
    (number, math.nan, "it is nan, not a finite number"),
    (number, -math.inf, "it is -inf, not a finite number"),
    (number, True, "it is True, not a finite number"),
    (number, "1", "it is '1', not a finite number"),
    (number, 10**400, "not a finite number"),
    (whole, 1.0, "it is 1.0, not a whole number"),
    (whole, -1, "it is -1, not a whole number"),
    (text, None, "it is None, not a text"),
    (group, [], "it is [], not a group of values"),
    (one_of(("a", "b")), "c", "it is 'c', not one of a, b"),
    (one_of(("a", "b")), ["a"], "it is ['a'], not one of a, b"),
    (optional(number), "x", "it is 'x', not a finite number"),
    (list_of(number), {}, "it is {}, not a list of values"),
    (list_of(number, least=1), [], "it is [], not a list of 1 or more values"),
    (list_of(number, 2, 2), [1], "it is [1], not a list of 2 values"),
    (list_of(number), [1, None], "it[1] is None, not a finite number"),
    (values_of(number), {"a": "x"}, "it.a is 'x', not a finite number"),
    (with_keys({"a": number}), {}, "it.a is missing"),
    (with_keys({"a": with_keys({"b": text})}), {"a": {"b": 1}}, "it.a.b is 1, not a text"),
]


@pytest.mark.parametrize(("form", "value"), RIGHT)
def test_what_is_right(form, value):
    assert form(value, "it") == ""


@pytest.mark.parametrize(("form", "value", "told"), WRONG)
def test_what_is_wrong(form, value, told):
    assert told in form(value, "it")


def test_the_outermost_value_has_no_name():
    assert with_keys({"a": number})({"a": None}, "") == "a is None, not a finite number"
    assert values_of(number)({"a": None}, "") == "a is None, not a finite number"


def test_long_values_are_shortened_to_one_line():
    told = number("x\n" * 1000, "it")
    assert len(told) < 100
    assert "\n" not in told
