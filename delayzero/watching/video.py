"""Videos of drawn moments: H.264 in MP4, which every browser plays, and GIF for READMEs.

PyAV brings FFmpeg's libraries along in its wheel and encodes in this process: an error is an
exception here, where imageio-ffmpeg starts a program and leaves its words to be read.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from fractions import Fraction
from itertools import islice

import av
import numpy as np
from PIL import Image

from delayzero.watching.canvas import THEME

GIF_PICTURES = 160
"""A GIF ends after this many, so that it stays small."""
GIF_COLOURS = 96
"""Beside those of the theme."""
UNKNOWN = 255
"""Stands for no place in a palette, which has fewer colours."""
SAMPLES = 8
"""Pictures from which a GIF's colours are chosen."""
QUALITY = "20"
"""Of H.264: the rate factor; 0 is lossless, 51 the worst."""
INDEX_FIRST = {"movflags": "faststart"}
"""A browser plays the video while it loads."""


def mp4(pictures: Iterable[Image.Image], rate: int) -> bytes:
    """Encode pictures of one even size as an MP4 file.

    Args:
        pictures: In their order; at least one.
        rate: Pictures per second.
    """
    file = io.BytesIO()

    def read_again(*_: object) -> io.BytesIO:
        """Open what was written: to put the index first, FFmpeg moves it."""
        return io.BytesIO(file.getvalue())

    with av.open(
        file, "w", format="mp4", container_options=INDEX_FIRST, io_open=read_again
    ) as container:
        stream = container.add_stream("libx264", rate=rate, options={"crf": QUALITY})
        stream.pix_fmt = "yuv420p"  # what browsers play
        for number, picture in enumerate(pictures):
            if number == 0:
                stream.width, stream.height = picture.size
            frame = av.VideoFrame.from_ndarray(np.asarray(picture), format="rgb24")
            frame.pts, frame.time_base = number, Fraction(1, rate)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return file.getvalue()


def gif(pictures: Iterable[Image.Image], rate: int) -> bytes:
    """Encode the first ``GIF_PICTURES`` pictures as a GIF file that repeats for ever.

    All share one palette: what does not change from one to the next takes no space.

    Args:
        pictures: In their order; at least one.
        rate: Pictures per second.
    """
    kept = list(islice(pictures, GIF_PICTURES))
    palette = _Palette(kept[:: max(1, len(kept) // SAMPLES)])
    indexed = [palette.indexed(picture) for picture in kept]
    file = io.BytesIO()
    indexed[0].save(
        file,
        "GIF",
        save_all=True,
        append_images=indexed[1:],
        duration=round(1000 / rate),
        loop=0,
        optimize=True,  # what does not change is left transparent
    )
    return file.getvalue()


class _Palette:
    """The colours of the theme, and those that stand for all others in some pictures.

    Pillow looks for the nearest colour of a palette by rough steps, which tints white paper.
    """

    def __init__(self, samples: list[Image.Image]) -> None:
        width, height = samples[0].size
        sheet = Image.new("RGB", (width, height * len(samples)))
        for i, sample in enumerate(samples):
            sheet.paste(sample, (0, i * height))
        others = sheet.quantize(GIF_COLOURS, Image.Quantize.MEDIANCUT).getpalette() or []
        values = [part for colour in THEME for part in colour] + others
        self._colours = np.array(values, np.int32).reshape(-1, 3)
        self._nearest = np.full(1 << 24, UNKNOWN, np.uint8)
        """The place of the colour that is nearest to each, filled in as they come."""

    def indexed(self, picture: Image.Image) -> Image.Image:
        """Return a picture in these colours."""
        parts = np.asarray(picture, np.int32)
        packed = parts[..., 0] << 16 | parts[..., 1] << 8 | parts[..., 2]
        new = np.unique(packed[self._nearest[packed] == UNKNOWN])
        colours = np.stack([new >> 16, new >> 8 & 255, new & 255], axis=-1)
        distances = ((colours[:, None] - self._colours) ** 2).sum(axis=-1)
        self._nearest[new] = distances.argmin(axis=-1)
        image = Image.fromarray(self._nearest[packed])
        image.putpalette(self._colours.astype(np.uint8).tobytes())
        return image
