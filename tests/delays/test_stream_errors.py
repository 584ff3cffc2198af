import math
import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from delayzero.delays import (
    Callback,
    Categorical,
    Constant,
    DelayError,
    DelayStream,
    InSteps,
    Law,
    MarkovChain,
    Sum,
    Trace,
    Uniform,
    parse,
)
from delayzero.delays.stream import BLOCK

# Laws that break their word.


@dataclass(frozen=True)
class Scripted(Law):
    """Gives the values of a list over and over, whatever its bound says."""

    name: ClassVar[str] = "scripted"

    values: tuple[float, ...]
    bound: float | None = 5

    @property
    def largest(self):
        return self.bound

    def path(self, rng, steps, memory, period):
        return np.resize(np.array(self.values), steps), ()


@dataclass(frozen=True)
class Nameless(Law):
    @property
    def largest(self):
        return 2

    def path(self, rng, steps, memory, period):
        return np.full(steps, 7), ()


@dataclass(frozen=True)
class LateMistake(Law):
    """Is well behaved for one block."""

    name: ClassVar[str] = "late"

    @property
    def largest(self):
        return 5

    def path(self, rng, steps, memory, period):
        return np.full(steps, 5 if memory is None else 6), (1.0,)


def test_user_defined_law_works():
    stream = DelayStream(Scripted((3, 1, 2)), 0)
    assert [stream.next() for _ in range(6)] == [3, 1, 2, 3, 1, 2]


@pytest.mark.parametrize(
    ("values", "fragments"),
    [
        ((1, 6, 2), ["gave a delay of 6 steps", "between 0 and the largest delay, 5"]),
        ((1, -1, 2), ["gave a delay of -1 steps", "between 0 and the largest delay, 5"]),
        ((1, 2.5, 2), ["not whole"]),
        ((1, math.nan), ["not whole"]),
    ],
)
def test_user_defined_law_is_checked(values, fragments):
    with pytest.raises(DelayError) as caught:
        DelayStream(Scripted(values), 0)
    for fragment in ["scripted:", *fragments]:
        assert fragment in str(caught.value)


def test_law_without_a_name_is_named_by_its_class():
    with pytest.raises(DelayError, match="Nameless"):
        DelayStream(Nameless(), 0)


def test_mistake_in_a_later_block_is_found():
    stream = DelayStream(LateMistake(), 0)
    for _ in range(BLOCK):
        assert stream.next() == 5
    with pytest.raises(DelayError, match="gave a delay of 6 steps"):
        stream.next()


def test_sum_with_a_law_that_breaks_its_word():
    with pytest.raises(DelayError, match="gave a delay of 10 steps"):
        DelayStream(Sum((Scripted((1, 9)), Constant(1))), 0)


def test_bound_of_the_stream_is_what_counts():
    assert DelayStream(Scripted((8,)), 0, max_delay=8).next() == 8
    with pytest.raises(DelayError, match="largest delay, 3"):
        DelayStream(Uniform(0, 5), 0, max_delay=3)


def test_user_defined_law_without_a_bound():
    with pytest.raises(DelayError, match="has no largest delay"):
        DelayStream(Scripted((1,), bound=None), 0)


# Callbacks that break their word.


@pytest.mark.parametrize("value", [0, 3, 5, np.int64(4), np.uint8(2), 2.0])
def test_callback_may_return_any_whole_number(value):
    delay = DelayStream(Callback(lambda context: value, 5), 0).next()
    assert delay == value
    assert type(delay) is int


@pytest.mark.parametrize("value", [6, -1, 2.5, math.nan, math.inf, None, "3"])
def test_callback_is_checked(value):
    stream = DelayStream(Callback(lambda context: value, 5), 0)
    with pytest.raises(DelayError) as caught:
        stream.next()
    assert "callback:" in str(caught.value)
    assert "max=5" in str(caught.value)


def test_callback_is_checked_against_the_bound_of_its_sum():
    stream = DelayStream(Sum((Constant(2), Callback(lambda context: 6, 5))), 0)
    with pytest.raises(DelayError, match="gave a delay of 8 steps"):
        stream.next()


# Probability zero means never.


class EdgeOfTheUnitInterval:
    """A generator whose uniform numbers are as large or as small as they can be."""

    def __init__(self, value):
        self.value = value

    def random(self, size):
        return np.full(size, self.value)


@pytest.mark.parametrize("chance", [0.0, math.nextafter(1, 0)])
def test_delay_of_probability_zero_is_never_drawn(chance):
    third = 0.3333333  # sums to 1 within the tolerance
    law = Categorical((9, 1, 2, 3, 8), (0.0, third, third, third, 0.0))
    path, _ = law.path(EdgeOfTheUnitInterval(chance), 3, None, 0.0)
    assert set(path) <= {1, 2, 3}
    row = (0.0, third, third, third, 0.0)
    chain = MarkovChain((9, 1, 2, 3, 8), (row,) * 5, start=1)
    path, _ = chain.path(EdgeOfTheUnitInterval(chance), 3, None, 0.0)
    assert set(path) <= {1, 2, 3}


# Trace files.


def write(tmp_path, text):
    path = tmp_path / "trace.csv"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("text", "fragments"),
    [
        ("", ["delay_steps or delay_ms"]),
        ("\n", ["delay_steps or delay_ms"]),
        ("1\n2\n", ["delay_steps or delay_ms", "'1'"]),
        ("latency\n1\n", ["delay_steps or delay_ms", "'latency'"]),
        ("delay_steps,delay_ms\n1,2\n", ["delay_steps or delay_ms"]),
        ("delay_steps\n", ["holds no delays"]),
        ("time,delay_ms\n", ["holds no delays"]),
        ("time,delay_ms\n0,1\n1,\n2,3\n", ["no finite delay at line 3"]),
        ("time,delay_ms\n0,1\n1,  \n2,3\n", ["no finite delay at line 3"]),
        ("time,delay_ms\n0,1\n\n1\n", ["no finite delay at line 4"]),
        ("delay_ms\n1\n\n3\n", ["no finite delay at line 3"]),
        ("delay_ms\n1\n2\nnan\n", ["no finite delay at line 4"]),
        ("delay_ms\n1\ninf\n", ["line 3"]),
        ("delay_steps\n1\n\n3\n", ["no finite delay at line 3"]),
        ("time,delay_steps\n0,1\n1,\n", ["no finite delay at line 3"]),
        ("delay_ms\n1\n2\n-3\n", ["a negative delay at line 4"]),
        ("delay_steps\n1\n-2\n", ["a negative delay at line 3"]),
        ("delay_steps\n1\n2\n2.5\n", ["fractional", "2.5", "line 4", "delay_ms"]),
        ("delay_ms\n1\nfast\n", ["'fast'", "line 3", "a number"]),
        ('note,delay_ms\n"two\nlines",1\nx,\n', ["no finite delay at line 4"]),
    ],
)
def test_wrong_trace_is_explained(tmp_path, text, fragments):
    path = write(tmp_path, text)
    with pytest.raises(DelayError) as caught:
        Trace(path)
    for fragment in [path, *fragments]:
        assert fragment in str(caught.value)


@pytest.mark.parametrize(
    ("values", "fragments"),
    [
        (np.array([1.0, np.nan, 2.0]), ["no finite delay at element 1"]),
        (np.array([1.0, 2.0, np.inf]), ["element 2"]),
        (np.array([3, 1, -2]), ["a negative delay at element 2"]),
        (np.array([-0.5, 1.0]), ["a negative delay at element 0"]),
        (np.zeros(0), ["holds no delays"]),
        (np.zeros((2, 3)), ["(2, 3)", "one row of numbers"]),
        (np.array(3), ["one row of numbers"]),
        (np.array(["1", "2"]), ["one row of numbers"]),
        (np.array([1 + 2j]), ["one row of numbers"]),
        (np.array([True, False]), ["one row of numbers"]),
    ],
)
def test_wrong_array_is_explained(tmp_path, values, fragments):
    path = tmp_path / "trace.npy"
    np.save(path, values)
    with pytest.raises(DelayError) as caught:
        Trace(str(path))
    for fragment in [str(path), *fragments]:
        assert fragment in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"not an array", "pickle"])
def test_file_that_is_no_array_is_explained(tmp_path, content):
    path = tmp_path / "trace.npy"
    if content == "pickle":
        np.save(path, np.array([1, None]), allow_pickle=True)
    else:
        path.write_bytes(content)
    with pytest.raises(DelayError, match=r"trace\.npy"):
        Trace(str(path))


@pytest.mark.parametrize("name", ["missing.csv", "missing.npy", ""])
def test_missing_file_is_named(tmp_path, name):
    with pytest.raises(DelayError, match="no trace file"):
        Trace(str(tmp_path / name))


def test_errors_about_a_trace_reach_the_reader_of_its_text(tmp_path):
    path = write(tmp_path, "delay_ms\n1\n\n3\n")
    with pytest.raises(
        DelayError, match=f"delay law 'trace:{path}@20ms'.*no finite delay at line 3"
    ):
        parse(f"trace:{path}@20ms")


def test_trace_in_milliseconds_needs_a_period(tmp_path):
    path = write(tmp_path, "delay_ms\n1\n45\n")
    with pytest.raises(DelayError, match="is in milliseconds") as caught:
        parse(f"trace:{path}")
    assert f"'trace:{path}@20ms'" in str(caught.value)
    assert parse(f"trace:{path}@20ms").max_delay == 3


def test_trace_in_steps_takes_no_period(tmp_path):
    path = write(tmp_path, "delay_steps\n1\n4\n")
    with pytest.raises(DelayError, match="in steps already"):
        parse(f"trace:{path}@20ms")
    with pytest.raises(DelayError, match="in steps already"):
        InSteps(Trace(path), 20.0)


def test_extra_columns_blank_lines_and_spaces_are_ignored(tmp_path):
    path = write(tmp_path, "time, delay_steps ,note\n0, 3 ,x\n\n1,1,\n")
    assert Trace(path).delays.tolist() == [3, 1]


def test_good_traces_load_without_warnings(tmp_path):
    path = write(tmp_path, "delay_steps\n3\n1\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Trace(path).delays.tolist() == [3, 1]
