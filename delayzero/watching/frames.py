"""Pictures of environments, kept small: as PNG, or as JPEG where that would be large."""

from __future__ import annotations

import io

from PIL import Image

from delayzero.envs.rendering import Picture

LARGEST = 400
"""Pixels of a picture's longer side; larger ones are shrunk."""
LARGE = 24_000
"""Bytes of a PNG that is kept as JPEG instead: photographs, not the flat colours of most games."""


def encoded(picture: Picture) -> bytes:
    """Return a picture ``[H, W, 3]`` as a file's bytes."""
    image = Image.fromarray(picture)
    longer = max(image.size)
    if longer > LARGEST:
        width, height = (max(1, round(side * LARGEST / longer)) for side in image.size)
        image = image.resize((width, height), Image.Resampling.LANCZOS)
    data = _saved(image, "PNG")
    return data if len(data) <= LARGE else min(data, _saved(image, "JPEG"), key=len)


def decoded(data: bytes) -> Image.Image:
    """Return the picture of a file's bytes."""
    return Image.open(io.BytesIO(data)).convert("RGB")


def media_type(data: bytes) -> str:
    """Return what a page calls a picture's format."""
    return "image/png" if data.startswith(b"\x89PNG") else "image/jpeg"


def fitted(image: Image.Image, width: int, height: int) -> Image.Image:
    """Return a picture as large as fits into a box; sharp pixels stay sharp."""
    scale = min(width / image.width, height / image.height)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    if scale > 1:  # to a whole multiple first, without mixing neighbours
        times = -(-max(size) // max(image.size))
        enlarged = (image.width * times, image.height * times)
        image = image.resize(enlarged, Image.Resampling.NEAREST)
    return image.resize(size, Image.Resampling.BOX)


def _saved(image: Image.Image, kind: str) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, quality=85)
    return file.getvalue()
