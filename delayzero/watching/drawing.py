"""Drawing moments: one column for each run, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import repeat

from PIL import Image

from delayzero.watching.canvas import (
    CARD,
    FAINT,
    GREY,
    INK,
    PAPER,
    RIGHT,
    STRONG,
    WRONG,
    Canvas,
    colour_of,
    shade,
    short,
    text_width,
)
from delayzero.watching.frames import decoded, fitted
from delayzero.watching.moments import Episode, Moment, Sent

COLUMN, MARGIN, GAP = 460, 14, 10
"""Pixels: of a run's column, inside its border, and between its parts."""
INNER = COLUMN - 2 * MARGIN
TITLE, CHIP, ROW = 40, 30, 18
"""Heights."""
HALF = (INNER - GAP) // 2
LOWEST, HIGHEST = 120, 230
"""Of a picture's width and height: the one, and the least and the most of the other."""
MINDS = 216
"""Where the policy and the values begin, without the pictures' height."""
TRACK = 60
"""Steps of the past whose delays are shown."""
LONG_LIST = 6
"""More actions than this stand in two columns."""
AGREES, DIFFERS, NEVER = shade(RIGHT, 0.75), shade(WRONG, 0.8), shade(GREY, 0.5)
"""Borders of the picture where a decision ran."""


def drawn(episodes: Sequence[Sequence[Episode]], hold: int = 1) -> Iterator[Image.Image]:
    """Draw the moments of episodes, one after the other.

    Args:
        episodes: For each run, as many episodes; those of one number stand side by side.
        hold: How often the picture of an end is repeated.

    Yields:
        A picture for each step of the longer of them, and ``hold`` for the end.
    """
    for together in zip(*episodes, strict=True):
        for time in range(_steps(together)):
            yield draw(together, time, len(episodes[0]))
        yield from repeat(draw(together, _steps(together), len(episodes[0])), hold)


def count(episodes: Sequence[Sequence[Episode]], hold: int = 1) -> int:
    """The number of pictures that :func:`drawn` yields."""
    return sum(_steps(together) + hold for together in zip(*episodes, strict=True))


def _steps(together: Sequence[Episode]) -> int:
    """The steps of the longest of some episodes."""
    return max(len(episode.moments) for episode in together)


def draw(together: Sequence[Episode], time: int, count: int = 1) -> Image.Image:
    """Draw one step of episodes side by side.

    Args:
        together: One episode for each run.
        time: The step; those that have ended by then show their end.
        count: Episodes in all, for the title.
    """
    height = max(_height(episode) for episode in together)
    width = len(together) * COLUMN + (len(together) + 1) * GAP
    total = TITLE + height + GAP
    canvas = Canvas(width + width % 2, total + total % 2)  # H.264 takes even sizes
    first = together[0]
    which = f"  ·  episode {first.number + 1} of {count}" if count > 1 else ""
    title = f"{first.env}{which}"
    canvas.text((GAP + 2, 26), title, 15, bold=True, width=0.6 * width)
    room = width - 4 * GAP - min(text_width(title, 15, bold=True), 0.6 * width)
    law = f"delay {first.law}" if first.longest else first.law
    canvas.text((width - GAP, 26), law, 13, colour=GREY, anchor="rs", width=room)
    for i, episode in enumerate(together):
        left = GAP + i * (COLUMN + GAP)
        _column(canvas, episode, time, left, TITLE, height)
    return canvas.image


def _height(episode: Episode) -> int:
    rows = len(episode.names)
    rows = rows if rows <= LONG_LIST else -(-rows // 2)
    return _tall(episode) + MINDS + max(4, rows) * ROW + 98


def _tall(episode: Episode) -> int:
    """The height of an episode's pictures, by their form."""
    width, height = decoded(episode.frames[0]).size
    return round(min(HIGHEST, max(LOWEST, HALF * height / width)))


def _column(
    canvas: Canvas, episode: Episode, time: int, left: float, top: float, height: int
) -> None:
    """Draw a run at a time."""
    canvas.box((left, top, left + COLUMN, top + height), CARD, FAINT, radius=8)
    over, x = time >= len(episode.moments), left + MARGIN
    moment = episode.at(time)
    score = episode.score if over else moment.score
    heading = "DEZ" if episode.agent == "dez" else episode.agent
    canvas.text((x, top + 30), heading, 19, bold=True)
    canvas.text((x, top + 48), episode.run, 11, colour=GREY, width=INNER - 110)
    end = left + COLUMN - MARGIN
    canvas.text((end, top + 30), f"score {score:g}", 19, bold=True, anchor="rs")
    step = len(episode.moments) if over else time
    canvas.text((end, top + 48), f"step {step}", 11, colour=GREY, anchor="rs")
    below, tall = top + 80, _tall(episode)
    if over:
        _end(canvas, episode, x, below)
    else:
        _pictures(canvas, episode, moment, x, below)
        _lane(canvas, episode, moment, x, below + tall + 34)
        _policy(canvas, episode, moment, x, top + tall + MINDS)
        _values(canvas, episode, moment, x + 254, top + tall + MINDS)
    _track(canvas, episode, min(time, len(episode.moments) - 1), x, top + height - 60)


def _pictures(canvas: Canvas, episode: Episode, moment: Moment, x: float, top: float) -> None:
    """Draw what the agent sees, and what was there when its decision ran."""
    half, tall = HALF, _tall(episode)
    age = moment.time - moment.seen
    late = f", {age} late" if age else ""
    canvas.text((x, top - 6), f"it sees  (t = {moment.seen}{late})", 12, colour=GREY)
    _frame(canvas, episode.frames[moment.seen], (x, top, x + half, top + tall), FAINT)
    right, place = x + half + GAP, (x + half + GAP, top, x + INNER, top + tall)
    if moment.met is None:
        dropped, why = episode.fate(moment)
        canvas.text((right, top - 6), "its decision meets", 12, colour=GREY)
        canvas.box(place, CARD, NEVER, line=3)
        middle = (right + half / 2, top + tall / 2)
        canvas.text(middle, why, 13, colour=WRONG if dropped else GREY, anchor="mm")
        return
    words = f"its decision meets  (t = {moment.met})"
    canvas.text((right, top - 6), words, 12, colour=GREY)
    colour = FAINT
    if moment.there is not None:
        colour = AGREES if moment.there == moment.action else DIFFERS
    _frame(canvas, episode.frames[moment.met], place, colour, line=3)


def _frame(
    canvas: Canvas,
    data: bytes,
    place: tuple[float, float, float, float],
    outline: tuple[int, int, int],
    line: int = 1,
) -> None:
    left, top, right, bottom = place
    canvas.box(place, CARD, outline, line=line)
    image = _fitted(data, round(right - left) - 8, round(bottom - top) - 8)
    middle = (left + right - image.width) / 2, (top + bottom - image.height) / 2
    canvas.picture(image, *middle)


@lru_cache(maxsize=256)
def _fitted(data: bytes, width: int, height: int) -> Image.Image:
    """A picture as large as fits: most are drawn twice, as what comes and as what is there."""
    return fitted(decoded(data), width, height)


def _lane(canvas: Canvas, episode: Episode, moment: Moment, x: float, top: float) -> None:
    """Draw what runs now and next, up to the decision, and what it drops."""
    told = "" if moment.told else "  (unknown to the agent)"
    canvas.text((x, top - 7), "runs now, and under way", 12, colour=GREY)
    words = f"delay {moment.delay}{told}"
    canvas.text((x + INNER, top - 7), words, 12, bold=True, anchor="rs")
    slots = max(episode.longest, moment.delay) + 1
    width = min(96.0, INNER / slots)
    chip = width - min(4, width / 4)
    names = names_for(episode.names, chip)
    for k in range(slots):
        left = x + k * width
        place = (left, top, left + chip, top + CHIP)
        if k < len(moment.lane):
            new = k == moment.delay
            _chip(canvas, names, moment.lane[k], place, new=new)
        else:
            canvas.box(place, PAPER)
        if width >= 24:
            when = "now" if k == 0 else f"+{k}"
            bottom = ((place[0] + place[2]) / 2, top + CHIP + 13)
            canvas.text(bottom, when, 10, colour=GREY, anchor="ms")
    _events(canvas, episode, moment, x, top + CHIP + 36)


@lru_cache
def names_for(names: tuple[str, ...], width: float) -> tuple[str, ...]:
    """Names for boxes of a width: all in full, or all short."""
    fits = all(text_width(name, 12, bold=True) <= width - 6 for name in names)
    return names if fits else tuple(map(short, names))


def _chip(
    canvas: Canvas,
    names: Sequence[str],
    sent: Sent,
    place: tuple[float, float, float, float],
    *,
    new: bool = False,
) -> None:
    """Draw an action on its way; the new decision in its full colour."""
    left, top, right, _ = place
    colour = colour_of(sent.action)
    canvas.box(place, colour if new else shade(colour, 0.3), INK if new else None, line=2)
    name, middle = names[sent.action], ((left + right) / 2, top + CHIP / 2)
    if text_width(name, 12, bold=new) <= right - left - 2:
        canvas.text(middle, name, 12, bold=new, anchor="mm")


def _events(canvas: Canvas, episode: Episode, moment: Moment, x: float, base: float) -> None:
    """Name what this step drops and repeats."""
    if moment.repeated:
        canvas.ring((x + 5, base - 4), 5)
        words = f"{episode.names[moment.lane[0].action]} runs again"
        canvas.text((x + 16, base), words, 12, colour=STRONG, width=INNER / 2 - 20)
    if moment.dropped:
        middle = x + INNER / 2
        canvas.cross((middle + 5, base - 4), 4)
        which = ", ".join(f"{episode.names[one.action]} (t = {one.time})" for one in moment.dropped)
        canvas.text((middle + 16, base), f"drops {which}", 12, colour=WRONG, width=INNER / 2 - 20)


def _policy(canvas: Canvas, episode: Episode, moment: Moment, x: float, top: float) -> None:
    """Draw the searched policy as bars, the decision among them."""
    how = "without a search" if moment.policy is None else "by search"
    canvas.text((x, top - 7), f"it decides for t = {moment.target}, {how}", 12, colour=GREY)
    count = len(episode.names)
    long = count > LONG_LIST
    rows = -(-count // 2) if long else count
    width = 118 if long else 240
    for action, name in enumerate(episode.names):
        left, y = x + action // rows * (width + 4), top + action % rows * ROW
        label = 27 if long else 62
        chosen = action == moment.action
        words = short(name) if long else name
        if chosen:
            canvas.box((left - 3, y, left + width - 2, y + ROW - 1), shade(colour_of(action), 0.25))
        canvas.text((left, y + 13), words, 12, bold=chosen, width=label)
        if moment.policy is None:
            continue
        share, room = moment.policy[action], width - label - 40
        begin = left + label
        canvas.box((begin, y + 4, begin + room, y + ROW - 5), FAINT, radius=2)
        canvas.box((begin, y + 4, begin + room * share, y + ROW - 5), colour_of(action), radius=2)
        canvas.text((left + width - 5, y + 13), f"{share:.0%}", 11, colour=GREY, anchor="rs")


def _values(canvas: Canvas, episode: Episode, moment: Moment, x: float, top: float) -> None:
    """Write the value foreseen and the value realised, and whether it chooses the same there."""
    end = x + INNER - 254
    if moment.foreseen is not None:
        canvas.text((x, top - 7), "value of that state", 12, colour=GREY)
        most = max(
            (abs(v) for m in episode.moments for v in (m.foreseen, m.realised) if v is not None),
            default=1.0,
        )
        for row, (name, value) in enumerate(
            (("foreseen", moment.foreseen), ("realised", moment.realised))
        ):
            y = top + row * ROW
            canvas.text((x, y + 13), name, 12)
            begin, room = x + 62, end - x - 62 - 46
            canvas.box((begin, y + 4, begin + room, y + ROW - 5), FAINT, radius=2)
            if value is None:
                canvas.text((end, y + 13), "-", 12, colour=GREY, anchor="rs")
                continue
            share = min(1.0, abs(value) / (most or 1.0))
            colour = STRONG if row == 0 else INK
            canvas.box((begin, y + 4, begin + room * share, y + ROW - 5), colour, radius=2)
            canvas.text((end, y + 13), _number(value), 12, anchor="rs")
    if moment.there is not None:
        same = moment.there == moment.action
        words = "where it runs, it chooses"
        canvas.text((x, top + 2 * ROW + 20), words, 12, colour=GREY)
        told = f"{episode.names[moment.there]}  {'✓ the same' if same else '✗ another'}"
        colour = RIGHT if same else WRONG
        canvas.text((x, top + 2 * ROW + 38), told, 13, bold=True, colour=colour, width=end - x)


def _end(canvas: Canvas, episode: Episode, x: float, top: float) -> None:
    """Draw how an episode ended."""
    tall = _tall(episode)
    place = (x, top, x + INNER, top + tall + 60)
    _frame(canvas, episode.frames[-1], place, FAINT)
    middle = x + INNER / 2
    canvas.text((middle, top + tall + 100), episode.closing, 17, bold=True, anchor="ms")
    agreed, compared = episode.agreement()
    if compared:
        words = f"{agreed / compared:.0%} of its decisions are what it would choose where they ran"
        canvas.text((middle, top + tall + 124), words, 12, colour=GREY, anchor="ms", width=INNER)


def _track(canvas: Canvas, episode: Episode, time: int, x: float, top: float) -> None:
    """Draw the delays of the last steps, with drops and repeats."""
    past = episode.moments[: time + 1]
    dropped, repeated = sum(len(m.dropped) for m in past), sum(m.repeated for m in past)
    canvas.text((x, top - 7), f"delay, last {TRACK} steps", 12, colour=GREY)
    words = f"{dropped} dropped"
    canvas.text((x + INNER, top - 7), words, 12, anchor="rs")
    left = x + INNER - text_width(words, 12) - 10
    canvas.cross((left, top - 11), 3)
    words = f"{repeated} repeated"
    canvas.text((left - 16, top - 7), words, 12, anchor="rs")
    canvas.ring((left - 16 - text_width(words, 12) - 10, top - 11), 4)
    bottom, width, tall = top + 46, INNER / TRACK, 30
    canvas.line([(x, bottom), (x + INNER, bottom)])
    begin = max(0, len(past) - TRACK)
    for k, moment in enumerate(past[begin:]):
        left, middle = x + k * width, x + (k + 0.5) * width
        share = moment.delay / max(1, episode.longest)
        bar = (left, bottom - max(1, tall * share), left + width - 1, bottom)
        canvas.box(bar, shade(GREY, 0.35), radius=0)
        if moment.dropped:
            canvas.cross((middle, top + 6), 3)
        elif moment.repeated:
            canvas.ring((middle, top + 6), 3)


def _number(value: float) -> str:
    """A number in at most five characters or so."""
    size = abs(value)
    return f"{value:.{0 if size >= 100 else 1 if size >= 1 else 2}f}"
