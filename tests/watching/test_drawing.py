"""Drawing, at odd sizes and with everything that a moment may lack."""

import numpy as np
import pytest

from delayzero.watching.drawing import COLUMN, GAP, count, draw, drawn, names_for
from delayzero.watching.frames import LARGE, LARGEST, decoded, encoded, fitted, media_type
from delayzero.watching.moments import Sent

from .made import episode, moment, png

LONG = tuple(f"up right fire {i} with a very long name indeed" for i in range(18))


def different(one, other):
    return (np.asarray(one) != np.asarray(other)).any(axis=-1)


@pytest.mark.parametrize("size", [(1, 1), (1, 400), (400, 1), (7, 300), (160, 210), (600, 400)])
@pytest.mark.parametrize("names", [("only",), ("left", "right"), LONG])
@pytest.mark.parametrize("longest", [0, 5, 45])
def test_odd_sizes(size, names, longest):
    one = episode(2, names, longest, lambda shade: png(*size, shade))
    pictures = list(drawn([[one]]))
    assert len(pictures) == count([[one]]) == 3
    (shape,) = {picture.size for picture in pictures}
    assert shape[0] == COLUMN + 2 * GAP
    assert shape[1] % 2 == 0
    assert all(np.asarray(picture).std() > 1 for picture in pictures)


def test_a_missing_part_is_left_out():
    plain = moment(0, policy=None, foreseen=None, realised=None)
    rich = moment(0, met=1, there=0, dropped=(Sent(-1, 1),), repeated=True, told=False)
    bare, full = (draw([episode(moments=[m, moment(1)])], 0) for m in (plain, rich))
    assert different(bare, full).mean() > 0.01


def test_names_are_all_whole_or_all_short():
    names = ("up", "down left")
    assert names_for(names, 90) == names
    assert names_for(names, 24) == ("↑", "↙")


def test_the_border_tells_whether_the_agent_agrees():
    same, other, unknown = (
        draw([episode(moments=[moment(0, met=1, there=there), moment(1)])], 0)
        for there in (0, 1, None)
    )
    assert different(same, other).any()
    assert different(same, unknown).any()


def test_side_by_side_each_keeps_its_own_time():
    long, short = episode(6), episode(2, agent="oblivious")
    pictures = list(drawn([[long], [short]], hold=3))
    assert len(pictures) == count([[long], [short]], hold=3) == 9
    left, right = slice(0, COLUMN + GAP), slice(COLUMN + 2 * GAP, None)
    between = different(pictures[3], pictures[4])
    assert between[:, left].any(), "it goes on"
    assert not between[:, right].any(), "it has ended"
    assert different(pictures[1], pictures[2])[:, right].any()
    assert not different(pictures[-1], pictures[-2]).any(), "the end is held"


def test_pictures_are_kept_small():
    noise = np.random.default_rng(0).integers(0, 256, (500, 900, 3)).astype(np.uint8)
    data = encoded(noise)
    assert media_type(data) == "image/jpeg"
    assert decoded(data).size == (LARGEST, round(500 * LARGEST / 900))
    flat = np.zeros((210, 160, 3), np.uint8)
    flat[50:60] = 255
    data = encoded(flat)
    assert media_type(data) == "image/png"
    assert len(data) < LARGE
    np.testing.assert_array_equal(np.asarray(decoded(data)), flat)


def test_enlarged_pixels_stay_sharp():
    pixels = np.kron(np.eye(5), np.ones((2, 2)))[..., None].repeat(3, axis=-1) * 255
    large = fitted(decoded(encoded(pixels.astype(np.uint8))), 40, 90)
    assert large.size == (40, 40)
    assert set(np.unique(large)) == {0, 255}
