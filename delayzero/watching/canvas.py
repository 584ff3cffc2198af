"""Drawing with Pillow: text, boxes and pictures, in the colours of one theme."""

from __future__ import annotations

import functools
from pathlib import Path

import matplotlib
from PIL import Image, ImageDraw, ImageFont

Colour = tuple[int, int, int]
INK, GREY, FAINT, PAPER, CARD = (
    *((31, 35, 40), (101, 109, 118), (222, 226, 231), (246, 248, 250)),
    (255, 255, 255),
)
RIGHT, WRONG, STRONG = (26, 127, 55), (207, 34, 46), (9, 105, 218)
ACTIONS: tuple[Colour, ...] = (
    *((86, 157, 214), (240, 168, 48), (92, 184, 122), (205, 120, 178), (226, 106, 84)),
    *((118, 130, 214), (150, 170, 60), (70, 178, 184), (168, 128, 100), (140, 146, 156)),
)
"""Of actions, by their numbers; they are used again after the last."""
THEME = (INK, GREY, FAINT, PAPER, CARD, RIGHT, WRONG, STRONG, *ACTIONS)
"""All of them."""
ARROWS = {
    **{"left": "←", "right": "→", "up": "↑", "down": "↓", "fire": "●", "no-op": "·", "none": "·"},
    **{"up left": "↖", "up right": "↗", "down left": "↙", "down right": "↘"},
}
"""Short forms of names."""


def colour_of(action: int) -> Colour:
    """The colour of an action."""
    return ACTIONS[action % len(ACTIONS)]


def short(name: str) -> str:
    """A name in one or two characters: arrows where it is a direction."""
    if name in ARROWS:
        return ARROWS[name]
    rest = name.removesuffix(" fire")
    return f"{ARROWS[rest]}●" if rest != name and rest in ARROWS else name[:2]


def shade(colour: Colour, share: float) -> Colour:
    """A colour mixed with white: 0 is white, 1 the colour itself."""
    red, green, blue = (round(255 + (part - 255) * share) for part in colour)
    return red, green, blue


class Canvas:
    """A picture that is being drawn.

    Attributes:
        image: The picture.
    """

    def __init__(self, width: int, height: int) -> None:
        self.image = Image.new("RGB", (width, height), PAPER)
        self._draw = ImageDraw.Draw(self.image)

    def text(
        self,
        at: tuple[float, float],
        words: str,
        size: int = 13,
        *,
        bold: bool = False,
        colour: Colour = INK,
        anchor: str = "ls",
        width: float | None = None,
    ) -> None:
        """Write a line of text.

        Args:
            at: Where.
            words: The text; newlines become spaces.
            size: Of the font.
            bold: Whether the font is bold.
            colour: Of the text.
            anchor: Which point of the text ``at`` is, as Pillow names it.
            width: The text is shortened to fit into this.
        """
        face, line = _font(size, bold), " ".join(words.split())
        if width is not None and face.getlength(line) > width:
            while line and face.getlength(line + "…") > width:
                line = line[:-1]
            line += "…"
        self._draw.text(at, line, font=face, fill=colour, anchor=anchor)

    def box(
        self,
        corners: tuple[float, float, float, float],
        fill: Colour | None = None,
        outline: Colour | None = None,
        *,
        line: int = 1,
        radius: float = 4,
    ) -> None:
        """Draw a rectangle with round corners; nothing if it has no area."""
        left, top, right, bottom = corners
        if right - left < 1 or bottom - top < 1:
            return
        radius = min(radius, (right - left) / 2, (bottom - top) / 2)
        self._draw.rounded_rectangle(corners, radius, fill, outline, line)

    def line(
        self, points: list[tuple[float, float]], colour: Colour = FAINT, width: int = 1
    ) -> None:
        """Draw a line through points."""
        self._draw.line(points, colour, width)

    def cross(self, at: tuple[float, float], size: float, colour: Colour = WRONG) -> None:
        """Draw a cross around a point."""
        x, y = at
        self.line([(x - size, y - size), (x + size, y + size)], colour, 2)
        self.line([(x - size, y + size), (x + size, y - size)], colour, 2)

    def ring(self, at: tuple[float, float], size: float, colour: Colour = STRONG) -> None:
        """Draw a ring around a point."""
        x, y = at
        self._draw.ellipse((x - size, y - size, x + size, y + size), None, colour, 2)

    def picture(self, image: Image.Image, left: float, top: float) -> None:
        """Paste a picture."""
        self.image.paste(image, (round(left), round(top)))


def text_width(words: str, size: int, *, bold: bool = False) -> float:
    """The width of a line of text in pixels."""
    return float(_font(size, bold).getlength(words))


@functools.cache
def _font(size: int, bold: bool) -> ImageFont.FreeTypeFont:
    """DejaVu Sans, which matplotlib brings along: it has arrows."""
    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    return ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / name), size)
