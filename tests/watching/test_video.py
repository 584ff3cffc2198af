"""Files decode again, with every picture in its place."""

import io

import av
import numpy as np
import pytest
from PIL import Image

from delayzero.watching.canvas import PAPER, THEME
from delayzero.watching.drawing import drawn
from delayzero.watching.video import GIF_PICTURES, gif, mp4

from .made import episode


def shades(count, width=64, height=48):
    return [Image.new("RGB", (width, height), (4 * i, 4 * i, 4 * i)) for i in range(count)]


def test_mp4():
    pictures = shades(37)
    with av.open(io.BytesIO(mp4(iter(pictures), 12))) as container:
        stream = container.streams.video[0]
        assert stream.codec_context.name == "h264"
        assert stream.codec_context.pix_fmt == "yuv420p"
        assert stream.average_rate == 12
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(stream)]
    assert len(frames) == len(pictures)
    for i, frame in enumerate(frames):
        assert frame.shape == (48, 64, 3)
        assert abs(frame.mean() - 4 * i) < 4


def boxes(data):
    """The names of an MP4 file's parts, in their order."""
    at, names = 0, []
    while at < len(data):
        names.append(data[at + 4 : at + 8].decode())
        at += int.from_bytes(data[at : at + 4])
    return names


def test_the_index_comes_first():
    """A browser can play the video before it has loaded all of it."""
    names = boxes(mp4(iter(shades(9)), 10))
    assert names.index("moov") < names.index("mdat")


def lines(count, width=64, height=48):
    """A white line that moves on."""
    pictures = [np.zeros((height, width, 3), np.uint8) for _ in range(count)]
    for i, picture in enumerate(pictures):
        picture[:, i % width] = 255
    return [Image.fromarray(picture) for picture in pictures]


@pytest.mark.parametrize("count", [1, 9, GIF_PICTURES + 5])
def test_gif(count):
    file = Image.open(io.BytesIO(gif(iter(lines(count)), 8)))
    assert getattr(file, "n_frames", 1) == min(count, GIF_PICTURES)
    if count > 1:
        assert file.info["duration"] == 120  # 125, in hundredths of a second
    for i in range(min(count, 9)):
        file.seek(i)
        assert (np.asarray(file.convert("L")).mean(axis=0) > 128).nonzero()[0].tolist() == [i]


def test_the_theme_is_exact():
    """Of what does not change, nothing is stored again, and white stays white."""
    one = episode(3)
    data = gif(drawn([[one]]), 10)
    file, wanted = Image.open(io.BytesIO(data)), list(drawn([[one]]))
    for time, picture in enumerate(wanted):
        file.seek(time)
        shown = np.asarray(file.convert("RGB"))
        assert tuple(shown[2, 2]) == PAPER
        for colour in THEME:
            mask = (np.asarray(picture) == colour).all(axis=-1)
            assert (shown[mask] == colour).all()
    assert len(data) < 0.7 * len(wanted) * len(gif(wanted[:1], 10))
