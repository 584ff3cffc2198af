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

GIF_PICTURES = 160
"""A GIF ends after this many, so that it stays small."""
GIF_COLOURS = 64
SAMPLES = 8
"""Pictures from which a GIF's colours are chosen."""
QUALITY = "20"
"""Of H.264: the rate factor; 0 is lossless, 51 the worst."""


def mp4(pictures: Iterable[Image.Image], rate: int) -> bytes:
    """Encode pictures of one even size as an MP4 file.

    Args:
        pictures: In their order; at least one.
        rate: Pictures per second.
    """
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
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
    palette = _palette(kept[:: max(1, len(kept) // SAMPLES)])
    indexed = [p.quantize(palette=palette, dither=Image.Dither.NONE) for p in kept]
    file = io.BytesIO()
    indexed[0].save(
        file,
        "GIF",
        save_all=True,
        append_images=indexed[1:],
        duration=round(1000 / rate),
        loop=0,
        optimize=False,  # it would give each picture colours of its own
    )
    return file.getvalue()


def _palette(samples: list[Image.Image]) -> Image.Image:
    """The colours that stand for all in some pictures."""
    width, height = samples[0].size
    sheet = Image.new("RGB", (width, height * len(samples)))
    for i, sample in enumerate(samples):
        sheet.paste(sample, (0, i * height))
    return sheet.quantize(GIF_COLOURS, Image.Quantize.MEDIANCUT)
